"""Whether a cluster can take a service or a job at all: KubeRay, the namespace, the rights. Nothing is written."""

from __future__ import annotations

from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError, NotFoundError
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.api.permissions import format_right, missing, not_permitted
from rayllm_ctl.cluster.lookup.services import find_object
from rayllm_ctl.cluster.preflight.versions import kuberay_version
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.workload import Rights


@dataclass(frozen=True)
class Preflight:
    """What a cluster has. existing: the object that is to be applied, as it is now; None: there is none. kuberay: the
    version of the operator; empty: unknown.
    """

    checks: tuple[Checked, ...]
    existing: dict[str, Any] | None
    kuberay: str


def preflight(cluster: Cluster, kind: str, name: str, namespace: str, rights: Rights) -> Preflight:
    """Whether `cluster` can take an object of one of KubeRay's kinds.

    Raises UserError for what rules it out: no KubeRay, no such namespace, a right that is needed and missing.
    """
    with Tasks() as tasks:
        version = tasks.submit(kuberay_version, cluster)
        found = tasks.submit(find_object, cluster, kind, name, namespace)
        place = tasks.submit(_namespace, cluster, namespace)
        lacking = missing(cluster, namespace, (*rights.needed, *rights.display))
        fatal = [right for right in lacking if right in rights.needed]
        try:
            existing = found.result()
        except ForbiddenError:
            existing = None  # the rights say it completely
        checked_place = place.result()
        if fatal:
            raise not_permitted(cluster, namespace, fatal)
        running = version.result() or ""
    operator = Checked("KubeRay", True, running)
    if not running:
        operator = Checked("KubeRay", None, "installed; the version of its operator is unknown")
    permissions = Checked("permissions", True)
    if lacking:
        permissions = Checked("permissions", None, f"not permitted to {', '.join(map(format_right, lacking))}")
    return Preflight((operator, checked_place, permissions), existing, running)


def _namespace(cluster: Cluster, namespace: str) -> Checked:
    try:
        phase = (cluster.get("Namespace", namespace).get("status") or {}).get("phase")
    except NotFoundError as error:
        raise UserError(
            f"namespace {namespace} does not exist", hint=f"kubectl create namespace {namespace}"
        ) from error
    except ForbiddenError:
        return Checked("namespace", None, f"{namespace} (not permitted to get namespaces)")
    if phase == "Terminating":
        raise UserError(f"namespace {namespace} is being deleted", hint=f"kubectl get namespace {namespace} -o yaml")
    return Checked("namespace", True, namespace)
