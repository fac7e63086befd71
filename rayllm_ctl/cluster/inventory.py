"""Which objects rayllm-ctl applied for a service, proven object by object.

KubeRay copies the labels of a RayService to everything it makes for it, so labels alone prove nothing. What counts is
that the API server recorded an apply by our field manager, and that no other object owns it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.cluster.client import Cluster
from rayllm_ctl.cluster.failures import ForbiddenError, NotFoundError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.labels import BATCH, INSTANCE, MANAGED_BY, MANAGER

KINDS = (
    "RayService", "RayCluster", "RayJob", "Service", "Ingress", "HTTPRoute", "NetworkPolicy", "PodDisruptionBudget",
    "Deployment", "ServiceMonitor", "PodMonitor", "PrometheusRule", "RoleBinding", "Role", "ServiceAccount",
    "ConfigMap",
)  # fmt: skip
"""Kinds that are deleted with a service, what others depend on last. Never here: namespaces, Secrets, claims (data)."""


@dataclass(frozen=True)
class Entry:
    """One object of the inventory. The uid makes sure that nothing else of that name is deleted."""

    kind: str
    name: str
    namespace: str
    uid: str


def inventory(cluster: Cluster, name: str, namespace: str) -> list[Entry]:
    """What rayllm-ctl applied for service `name`, in the order of deletion; nothing of a batch job of that name.

    Kinds that the cluster does not serve, or that the user is not permitted to list, are skipped.
    """
    return [entry(item) for item in applied_objects(cluster, name, namespace)]


def applied_objects(cluster: Cluster, name: str, namespace: str) -> list[dict[str, Any]]:
    """The objects of `inventory` in full."""
    selector = f"{MANAGED_BY}={MANAGER},{INSTANCE}={name},!{BATCH}"
    objects = []
    for kind_name in KINDS:
        try:
            found = cluster.list(kind_name, namespace, label_selector=selector)
        except (NotFoundError, ForbiddenError):
            continue
        objects += [item for item in found if applied_by_us(item)]
    return objects


def entry(item: Mapping[str, Any]) -> Entry:
    """The inventory entry of an object."""
    metadata = item["metadata"]
    return Entry(item["kind"], metadata["name"], metadata["namespace"], metadata["uid"])


def applied_by_us(item: Mapping[str, Any]) -> bool:
    """Whether rayllm-ctl applied this object and no other object owns it."""
    metadata = item["metadata"]
    applied = any(
        record.get("manager") == MANAGER and record.get("operation") == "Apply" and not record.get("subresource")
        for record in metadata.get("managedFields") or ()
    )
    return applied and not metadata.get("ownerReferences")
