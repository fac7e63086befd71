"""Shared by the collectors of services and batch jobs: reading surroundings, nodes and claims."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.api.reader import Objects, Reader
from rayllm_ctl.cluster.snapshot.nodes import live_pods, short_node
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.written import keep_times
from rayllm_ctl.model.observed.health import Snapshot

SLOW_SECONDS = 15.0
"""How long a collector keeps slowly changing or expensive data: the operator, quotas, other pods on the nodes."""


class SnapshotCollector:
    """Reads the parts of a Snapshot, and keeps slowly changing ones for a while.

    around: by kind, the operator's Deployments and the namespace, if they were just read.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        namespace: str,
        around: Mapping[str, Sequence[dict[str, Any]]] = MappingProxyType({}),
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._namespace = namespace
        self._around = around
        self._kept: dict[str, tuple[float, Objects]] = {}
        self._reader = Reader(cluster)

    def _snapshot(
        self,
        objects: Objects,
        answers: Mapping[str, Any],
        logs: Mapping[str, str],
        queue: Mapping[str, Any] | None = None,
    ) -> Snapshot:
        notes, unread = tuple(sorted(self._reader.notes)), frozenset(self._reader.unread)
        return Snapshot(tuple(tidy(objects)), datetime.now(UTC), answers, logs, notes, unread, queue or {})

    def _surroundings(self) -> Objects:
        """The operator, and the namespace with its limits."""
        around, self._around = self._around, {}  # as old as this collector
        objects: Objects = []
        for kind in ("Deployment", "Pod"):
            read = partial(self._cluster.list, kind, label_selector=kuberay.OPERATOR_SELECTOR)
            known = around.get(kind)
            objects += self._reader.attempt(read, f"{kind}s of the KubeRay operator") if known is None else known
        objects += self._list("ResourceQuota") + self._list("LimitRange")
        own = around.get("Namespace")
        return [*objects, *(self._reader.get("Namespace", self._namespace) if own is None else own)]

    def _nodes(self, tasks: Tasks, pods: Objects) -> list[Future[Objects]]:
        """The nodes of `pods`; all nodes and the pods on them while a pod is pending."""
        if any(not pod["spec"].get("nodeName") for pod in pods):
            return [tasks.submit(self._all_nodes, {pod["metadata"]["uid"] for pod in pods})]
        hosts = sorted({pod["spec"]["nodeName"] for pod in pods})
        return [tasks.submit(self._node, host) for host in hosts]

    def _node(self, name: str) -> Objects:
        return self._reader.attempt(lambda: [short_node(self._cluster.get("Node", name))], "nodes")

    def _all_nodes(self, known: set[str]) -> Objects:
        """All nodes, and the pods that use their resources except those with a `known` uid."""

        def read() -> Objects:
            nodes = [short_node(node) for node in self._reader.list("Node")]
            return nodes + self._reader.attempt(partial(live_pods, self._cluster), "pods of other namespaces")

        return [pod for pod in self._keep("nodes", read) if pod["metadata"].get("uid") not in known]

    def _claims(self, tasks: Tasks, names: Iterable[str]) -> list[Future[Objects]]:
        """The PersistentVolumeClaims of these names."""
        return [
            tasks.submit(self._reader.get, "PersistentVolumeClaim", name, self._namespace) for name in sorted(names)
        ]

    def _list(self, kind: str, label_selector: str = "", field_selector: str = "") -> Objects:
        return self._reader.list(kind, self._namespace, label_selector, field_selector)

    def _keep(self, key: str, read: Callable[[], Objects]) -> Objects:
        kept = self._kept.get(key)
        if kept is None or time.monotonic() - kept[0] > SLOW_SECONDS:
            kept = self._kept[key] = (time.monotonic(), read())
        return kept[1]


def tidy(objects: Objects) -> Objects:
    """Each object once, in its first and fullest form, with only the times of managedFields."""
    unique: dict[tuple[str, str], dict[str, Any]] = {}
    for item in objects:
        keep_times(item)
        unique.setdefault((item["kind"], item["metadata"]["uid"]), item)
    return list(unique.values())


def claims_of(pod: Mapping[str, Any]) -> Iterator[str]:
    """The PersistentVolumeClaims that a pod mounts."""
    for volume in pod["spec"].get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim:
            yield claim
