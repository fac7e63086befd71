"""All services of a namespace, or of all, with one list per kind: the number of requests does not grow with them.

A Snapshot made here has what tells how a service is: the operator's copy of Serve's state in its status, RayClusters,
pods, addresses, warnings, the operator. Serve itself, nodes, claims, quotas and logs are left to a look at one service.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rayllm_ctl.cluster.client import Cluster
from rayllm_ctl.cluster.failures import INSTALL_KUBERAY, ForbiddenError, NotFoundError
from rayllm_ctl.cluster.parallel import Tasks
from rayllm_ctl.errors import UserError
from rayllm_ctl.model import kuberay
from rayllm_ctl.model.health import Snapshot
from rayllm_ctl.model.workload import WorkloadKind

Objects = list[dict[str, Any]]


def collect_all(cluster: Cluster, kind: WorkloadKind, namespace: str | None) -> list[tuple[str, str, Snapshot]]:
    """Name, namespace and Snapshot of every service in `namespace` (None: in all), sorted by namespace and name.

    Raises UserError when objects of the kind cannot be read at all; what else cannot be read is noted.
    """
    notes: list[str] = []

    def read(what: str, labels: str = "", fields: str = "", *, everywhere: bool = False) -> Objects:
        where = None if everywhere else namespace
        try:
            return cluster.list(what, where, label_selector=labels, field_selector=fields)
        except NotFoundError:
            return []
        except ForbiddenError as error:
            notes.append(f"{what}s could not be read: not permitted to {error.right}")
            return []

    with Tasks() as tasks:
        parts = [
            tasks.submit(partial(read, "RayCluster", f"{kuberay.ORIGIN_KIND}={kind.name}")),
            tasks.submit(partial(read, "Pod", kuberay.CLUSTER)),
            tasks.submit(partial(read, "EndpointSlice", f"{kuberay.ORIGIN_KIND}={kind.name}")),
            tasks.submit(partial(read, "Event", fields="type=Warning")),
        ]
        operator = [
            tasks.submit(partial(read, what, kuberay.OPERATOR_SELECTOR, everywhere=True))
            for what in ("Deployment", "Pod")
        ]
        try:
            workloads = cluster.list(kind.name, namespace)
        except NotFoundError as error:
            raise UserError("KubeRay is not installed in this cluster", hint=INSTALL_KUBERAY) from error
        owners = _Owners(kind, workloads)
        for item in parts[0].result():
            owners.add_cluster(item)
        for part in parts[1:]:
            for item in part.result():
                owners.add(item)
        shared = [item for part in operator for item in part.result()]
    now = datetime.now(UTC)
    found = sorted(workloads, key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"]))
    return [
        (name, where, Snapshot((item, *owners.parts[where, name], *shared), now, notes=tuple(sorted(notes))))
        for item in found
        for name, where in [(item["metadata"]["name"], item["metadata"]["namespace"])]
    ]


class _Owners:
    """Sorts objects by the service that they belong to, by (namespace, name)."""

    def __init__(self, kind: WorkloadKind, workloads: Objects) -> None:
        self.parts: dict[tuple[str, str], Objects] = {}
        self._clusters: dict[tuple[str, str], str] = {}
        self._services: dict[tuple[str, str], str] = {}
        for item in workloads:
            where, name = item["metadata"]["namespace"], item["metadata"]["name"]
            self.parts[where, name] = []
            self._services[where, kind.serve_service(name)] = name
            for ray_cluster in kind.clusters_of(item):
                self._clusters[where, ray_cluster] = name

    def add_cluster(self, item: dict[str, Any]) -> None:
        """A RayCluster, which makes its pods and events known as well."""
        metadata = item["metadata"]
        owner = (metadata.get("labels") or {}).get(kuberay.ORIGIN_NAME, "")
        if (metadata["namespace"], owner) in self.parts:
            self._clusters[metadata["namespace"], metadata["name"]] = owner
            self.parts[metadata["namespace"], owner].append(item)

    def add(self, item: dict[str, Any]) -> None:
        """A pod, an EndpointSlice or an event, if it belongs to a service."""
        where, labels = item["metadata"]["namespace"], item["metadata"].get("labels") or {}
        if item["kind"] == "Pod":
            name = self._clusters.get((where, labels.get(kuberay.CLUSTER, "")))
        elif item["kind"] == "EndpointSlice":
            name = self._services.get((where, labels.get(kuberay.SERVICE_NAME, "")))
        else:
            subject = str((item.get("involvedObject") or {}).get("name", ""))
            name = next((part for part in _prefixes(subject) if self._concerns(where, part, subject)), None)
        if name is not None:
            self.parts[where, name].append(item)

    def _concerns(self, where: str, name: str, subject: str) -> bool:
        return (where, name) in self.parts and (name == subject or kuberay.is_child(subject, name))


def _prefixes(name: str) -> Iterator[str]:
    """`name` and what is left of it without its last parts: KubeRay appends parts to the name of what it is for."""
    while name:
        yield name
        name = name.rpartition("-")[0]
