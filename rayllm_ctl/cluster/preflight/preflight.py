"""Check KubeRay, the namespace and the rights before a service or job is applied. Nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError, NotFoundError
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.api.permissions import Permissions, format_right, not_permitted
from rayllm_ctl.cluster.lookup.services import find_object
from rayllm_ctl.cluster.preflight.versions import operators, version_of
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.kube.owned import declared_by
from rayllm_ctl.model.workload import Right, Rights

GET_NAMESPACE = Right("get", "Namespace")
LIST_OPERATORS = Right("list", "Deployment", everywhere=True)


@dataclass(frozen=True)
class Preflight:
    """Result of the checks. checks: of KubeRay and the namespace. existing: the current state of the object to apply;
    None: it does not exist. around: by kind, the Deployments of KubeRay operators and the namespace, if they may be
    read. kuberay: the version of the operator; empty: unknown. permissions: the user's permissions in the namespace.
    """

    checks: tuple[Checked, ...]
    existing: dict[str, Any] | None
    around: Mapping[str, list[dict[str, Any]]]
    kuberay: str
    permissions: Permissions


def check_rights(permissions: Permissions, rights: Rights) -> Checked:
    """The subset of `rights` that the user lacks."""
    lacking = permissions.missing((*rights.needed, *rights.display))
    if not lacking:
        return Checked("permissions", True)
    return Checked("permissions", None, f"not permitted to {', '.join(map(format_right, lacking))}")


def preflight(
    cluster: Cluster,
    kind: str,
    name: str,
    namespace: str,
    needed: Sequence[Right],
    *,
    existing: dict[str, Any] | None = None,
) -> Preflight:
    """Check that an object of one of KubeRay's kinds can be applied. existing: that object, if it has been read.

    Raises UserError without KubeRay, the namespace, or one of the rights `needed`. What an LLMService declares is
    applied by its controller, with rights of its own.
    """
    permissions = Permissions(cluster, namespace)
    with Tasks() as tasks:
        listed = tasks.submit(operators, cluster)
        pending = None if existing is not None else tasks.submit(find_object, cluster, kind, name, namespace)
        own = tasks.submit(_namespace, cluster, namespace)
        lacking = tasks.submit(permissions.missing, needed)
        unread: ForbiddenError | None = None
        try:
            existing = pending.result() if pending is not None else existing
        except ForbiddenError as error:
            unread = error
        place = own.result()
        if (fatal := lacking.result()) and declared_by(existing) is None:
            raise not_permitted(cluster, namespace, fatal)
        if unread is not None:
            raise unread
        deployments = listed.result()
    permissions.learn(LIST_OPERATORS, deployments is not None)
    permissions.learn(GET_NAMESPACE, place is not None)
    around: dict[str, list[dict[str, Any]]] = {}
    if deployments is not None:
        around["Deployment"] = deployments
    if place is not None:
        around["Namespace"] = [place]
    running = version_of(deployments or ()) or ""
    checked_place = Checked("namespace", True, namespace)
    if place is None:
        checked_place = Checked("namespace", None, f"{namespace} (not permitted to get namespaces)")
    operator = Checked("KubeRay", True, running)
    if not running:
        operator = Checked("KubeRay", None, "installed; the version of its operator is unknown")
    return Preflight((operator, checked_place), existing, around, running, permissions)


def _namespace(cluster: Cluster, namespace: str) -> dict[str, Any] | None:
    """The namespace; None if it may not be read. Raises UserError if nothing can be created in it."""
    try:
        stored = cluster.get("Namespace", namespace)
    except NotFoundError as error:
        raise UserError(
            f"namespace {namespace} does not exist", hint=f"kubectl create namespace {namespace}"
        ) from error
    except ForbiddenError:
        return None
    if (stored.get("status") or {}).get("phase") == "Terminating":
        raise UserError(f"namespace {namespace} is being deleted", hint=f"kubectl get namespace {namespace} -o yaml")
    return {"apiVersion": "v1", "kind": "Namespace", **stored}
