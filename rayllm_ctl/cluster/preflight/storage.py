"""What a cluster shows of claims, StorageClasses and volumes before a service is applied. Nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError, NotFoundError
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.model.observed.storage_facts import ClaimUse, StorageFacts
from rayllm_ctl.model.workload import Right

STORAGE_RIGHTS = (
    Right("get", "PersistentVolumeClaim"),
    Right("list", "StorageClass"),
    Right("list", "PersistentVolume"),
    Right("list", "CSIDriver"),
    Right("list", "Node"),
)
"""Rights to check claims. Without one of them, what could not be read is unknown."""

_UNREAD = object()


def read_storage(cluster: Cluster, namespace: str, uses: Sequence[ClaimUse]) -> StorageFacts:
    """The facts about the claims `uses`. StorageClasses are read for those that have no volume, or may grow."""
    with Tasks() as tasks:
        stored = tasks.map(lambda use: _claim(cluster, use.name, namespace), uses)
        claims = {use.name: item for use, item in zip(uses, stored, strict=True) if item is not _UNREAD}
        unbound = any(use.created is not None for use in uses) or any(
            item is None or not (item.get("spec") or {}).get("volumeName") for item in claims.values()
        )
        listed = {
            kind: tasks.submit(_listed, cluster, kind)
            for kind in ("PersistentVolume", "Node", *(("StorageClass", "CSIDriver") if unbound else ()))
        }
        found = {kind: future.result() for kind, future in listed.items()}
    drivers, nodes = found.get("CSIDriver", ()), found["Node"]
    return StorageFacts(
        namespace,
        claims,
        found.get("StorageClass", ()),
        found["PersistentVolume"],
        None if drivers is None else frozenset(one["metadata"]["name"] for one in drivers),
        nodes,
    )


def _claim(cluster: Cluster, name: str, namespace: str) -> Any:
    try:
        return cluster.get("PersistentVolumeClaim", name, namespace)
    except NotFoundError:
        return None
    except ForbiddenError:
        return _UNREAD


def _listed(cluster: Cluster, kind: str) -> tuple[dict[str, Any], ...] | None:
    try:
        return tuple(cluster.list(kind))
    except ForbiddenError:
        return None
