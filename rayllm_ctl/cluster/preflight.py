"""Whether a cluster can take a service at all: KubeRay, the namespace, the rights. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.cluster.client import Cluster
from rayllm_ctl.cluster.failures import INSTALL_KUBERAY, ForbiddenError, NotFoundError
from rayllm_ctl.cluster.permissions import Right, missing
from rayllm_ctl.cluster.versions import kuberay_version
from rayllm_ctl.errors import ClusterError, UserError
from rayllm_ctl.model.events import Checked

NEEDED = (
    Right("get", "RayService"),
    Right("create", "RayService"),
    Right("patch", "RayService"),
    Right("list", "RayCluster"),
    Right("watch", "RayCluster"),
    Right("list", "Pod"),
    Right("watch", "Pod"),
)
"""Without these a service can be neither applied nor waited for."""

USEFUL = (
    Right("patch", "RayCluster"),
    Right("list", "Event"),
    Right("get", "Pod", "log"),
    Right("get", "Service", "proxy"),
    Right("create", "Service", "proxy"),
)
"""What is less without these: changed replica bounds, the reasons of failures, Serve's state, chat."""


def preflight(cluster: Cluster, namespace: str) -> Iterator[Checked]:
    """Yield each check. Raises UserError at the first that rules the service out: KubeRay, namespace, rights."""
    version = kuberay_version(cluster)
    try:
        cluster.listing("RayService", namespace)
    except NotFoundError as error:
        raise UserError("KubeRay is not installed in this cluster", hint=INSTALL_KUBERAY) from error
    except ForbiddenError:
        pass  # the rights below say it completely
    if version:
        yield Checked("KubeRay", True, version)
    else:
        yield Checked("KubeRay", None, "installed; its operator cannot be seen from here")
    yield _namespace(cluster, namespace)
    yield _rights(cluster, namespace)


def _namespace(cluster: Cluster, namespace: str) -> Checked:
    try:
        phase = (cluster.get("Namespace", namespace).get("status") or {}).get("phase")
    except NotFoundError as error:
        raise UserError(
            f"namespace {namespace} does not exist",
            hint=(f"kubectl create namespace {namespace}", "or name another one with -n NAMESPACE"),
        ) from error
    except ForbiddenError:
        return Checked("namespace", None, f"{namespace} cannot be looked at")
    if phase == "Terminating":
        raise UserError(f"namespace {namespace} is being deleted", hint="name another one with -n NAMESPACE")
    return Checked("namespace", True, namespace)


def _rights(cluster: Cluster, namespace: str) -> Checked:
    lacking = missing(cluster, namespace, (*NEEDED, *USEFUL))
    fatal = [right for right in lacking if right in NEEDED]
    if fatal:
        names = ", ".join(right.text for right in fatal)
        raise ClusterError(
            f"user {cluster.user!r} may not {names} in namespace {namespace}",
            hint=(fatal[0].check(namespace), "ask who runs the cluster for a Role with these rights"),
        )
    if lacking:
        return Checked("permissions", None, f"not allowed: {', '.join(right.text for right in lacking)}")
    return Checked("permissions", True)
