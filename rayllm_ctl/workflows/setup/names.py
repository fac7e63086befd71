"""Names of what is in a cluster, as far as the user may list it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api import kubeconfig as kubeconfigs
from rayllm_ctl.errors import UserError
from rayllm_ctl.kinds import WORKLOADS

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


def service_names(cluster: Cluster, namespace: str | None) -> list[str]:
    """The services of a namespace (None: that of the context); those of a kind that cannot be listed are missing."""
    return _names(cluster, namespace, {name: kind.is_service for name, kind in WORKLOADS.items()})


def job_names(cluster: Cluster, namespace: str | None) -> list[str]:
    """The batch jobs of a namespace."""
    return _names(cluster, namespace, {"RayJob": lambda _: True})


def namespace_names(cluster: Cluster) -> list[str]:
    """The namespaces of a cluster."""
    return sorted(_listed(cluster.listing("Namespace", metadata_only=True).items))


def _names(
    cluster: Cluster, namespace: str | None, kinds: Mapping[str, Callable[[Mapping[str, Any]], bool]]
) -> list[str]:
    found: set[str] = set()
    for kind, belongs in kinds.items():
        try:
            items = cluster.listing(kind, namespace or cluster.namespace, metadata_only=True).items
        except UserError:
            continue
        found.update(_listed(filter(belongs, items)))
    return sorted(found)


def _listed(items: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    return (item["metadata"]["name"] for item in items)


def kubeconfig_contexts(kubeconfig: str | None) -> list[str]:
    """The contexts of a kubeconfig (None: of that which the environment names). UsageError if it is invalid."""
    return kubeconfigs.context_names(kubeconfig)
