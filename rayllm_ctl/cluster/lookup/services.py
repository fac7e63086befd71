"""The services of a cluster by name."""

from __future__ import annotations

from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import INSTALL_KUBERAY, ForbiddenError, NotFoundError
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.workload import WorkloadKind


def find(cluster: Cluster, kind: WorkloadKind, name: str, namespace: str) -> dict[str, Any] | None:
    """The object of a service; None if there is none. UserError if KubeRay is not installed."""
    return find_object(cluster, kind.name, name, namespace)


def find_object(cluster: Cluster, kind: str, name: str, namespace: str) -> dict[str, Any] | None:
    """An object of one of KubeRay's kinds; None if there is none. UserError if KubeRay is not installed."""
    try:
        return cluster.get(kind, name, namespace)
    except NotFoundError as error:
        if error.about:
            return None
        raise _not_installed() from error


def list_objects(cluster: Cluster, kind: str, namespace: str | None, label_selector: str = "") -> list[dict[str, Any]]:
    """The objects of one of KubeRay's kinds in `namespace` (None: in all). UserError if KubeRay is not installed."""
    try:
        return cluster.list(kind, namespace, label_selector=label_selector)
    except NotFoundError as error:
        raise _not_installed() from error


def _not_installed() -> UserError:
    return UserError("KubeRay is not installed in this cluster", hint=INSTALL_KUBERAY)


def require(cluster: Cluster, kind: WorkloadKind, name: str, namespace: str) -> dict[str, Any]:
    """The object of a service. NotFoundError, with the nearest name, if there is none."""
    found = find(cluster, kind, name, namespace)
    if found is None:
        raise not_found(cluster, kind, name, namespace)
    return found


def not_found(cluster: Cluster, kind: WorkloadKind, name: str, namespace: str) -> NotFoundError:
    """The error for a name that no service of the namespace has, or for a namespace that does not exist."""
    if is_no_namespace(cluster, namespace):
        return NotFoundError(f"namespace {namespace} does not exist", status=404, hint="kubectl get namespaces")
    try:
        known = [item["metadata"]["name"] for item in cluster.list(kind.name, namespace) if kind.is_service(item)]
    except ForbiddenError:
        known = []
    close = nearest(name, known)
    hints = [f"did you mean {close}?"] if close else []
    hints.append(f"rayllm-ctl status -n {namespace}")
    return NotFoundError(f"there is no service {name} in namespace {namespace}", status=404, hint=tuple(hints))


def is_no_namespace(cluster: Cluster, namespace: str) -> bool:
    """Whether a namespace is known not to exist."""
    try:
        cluster.get("Namespace", namespace)
    except NotFoundError:
        return True
    except UserError:
        return False
    return False
