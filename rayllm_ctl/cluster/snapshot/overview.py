"""All services of one or all namespaces, with one list per kind: the number of requests is independent of theirs.

These Snapshots contain the operator's copy of Serve's state in the status, RayClusters, pods, addresses, the objects
that expose a service, warnings and the operator. Serve's own state, nodes, claims, quotas and logs are read only for a
single service.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.api.reader import Objects, Reader
from rayllm_ctl.cluster.lookup.services import list_objects
from rayllm_ctl.cluster.snapshot.downloads import waits_for_model
from rayllm_ctl.cluster.snapshot.exposure import in_front_of, list_exposure
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import BATCH, COMPONENT, INSTANCE, SERVICE
from rayllm_ctl.model.kube.model_downloads import DOWNLOAD_COMPONENT
from rayllm_ctl.model.observed.health import Snapshot
from rayllm_ctl.model.workload import WorkloadKind

Found = tuple[WorkloadKind, str, str, Snapshot]
"""Kind, name, namespace and Snapshot of a service."""


def collect_all(cluster: Cluster, kinds: Sequence[WorkloadKind], namespace: str | None) -> list[Found]:
    """Every service of `kinds` in `namespace` (None: in all), sorted by namespace and name.

    If objects of two kinds have the same name, the first kind is the service. Raises UserError if objects of the first
    kind cannot be read at all; other unreadable objects are noted.
    """
    reader = Reader(cluster)

    def read(what: str, labels: str = "", fields: str = "") -> Objects:
        return reader.list(what, namespace, labels, fields)

    first, *others = kinds
    origins = f"{kuberay.ORIGIN_KIND} in ({','.join(kind.name for kind in kinds)})"
    with Tasks() as tasks:
        # A RayCluster may be a service or part of one.
        clusters = tasks.submit(partial(read, kuberay.RAY_CLUSTER, f"{kuberay.ORIGIN_KIND} notin (RayJob)"))
        parts = [
            tasks.submit(partial(read, "Pod", kuberay.CLUSTER)),
            tasks.submit(partial(read, "EndpointSlice", origins)),
            tasks.submit(partial(read, "Service", origins)),
            tasks.submit(partial(read, "Event", fields="type=Warning")),
        ]
        operator = [
            tasks.submit(partial(reader.list, what, None, kuberay.OPERATOR_SELECTOR)) for what in ("Deployment", "Pod")
        ]
        services = [(first, list_objects(cluster, first.name, namespace))]
        services += [(kind, clusters.result() if kind.is_cluster else read(kind.name)) for kind in others]
        owners = _Owners(services)
        selector = f"{COMPONENT}={DOWNLOAD_COMPONENT}"
        downloading = any(waits_for_model(item) for _, item in owners.services.values())
        downloads = [tasks.submit(partial(read, what, selector)) for what in ("Job", "Pod")] if downloading else []
        exposure = tasks.submit(list_exposure, reader, [item for _, item in owners.services.values()], namespace)
        for item in clusters.result():
            owners.add_cluster(item)
        for future in (*parts, *downloads):
            for item in future.result():
                owners.add(item)
        for service, (_, item) in owners.services.items():
            owners.parts[service] += in_front_of(exposure.result(), item)
        shared = [item for operator_objects in operator for item in operator_objects.result()]
    now, notes, unread = datetime.now(UTC), tuple(sorted(reader.notes)), frozenset(reader.unread)
    return [
        (kind, name, where, Snapshot((item, *owners.parts[where, name], *shared), now, {}, {}, notes, unread))
        for (where, name), (kind, item) in sorted(owners.services.items(), key=lambda service: service[0])
    ]


class _Owners:
    """Sorts objects by the service that they belong to, by (namespace, name)."""

    def __init__(self, listed: Iterable[tuple[WorkloadKind, Objects]]) -> None:
        self.services: dict[tuple[str, str], tuple[WorkloadKind, dict[str, Any]]] = {}
        self.parts: dict[tuple[str, str], Objects] = {}
        self._clusters: dict[tuple[str, str], str] = {}
        self._services: dict[tuple[str, str], str] = {}
        for kind, items in listed:
            for item in items:
                where, name = item["metadata"]["namespace"], item["metadata"]["name"]
                if (where, name) in self.services or not kind.is_service(item):
                    continue
                self.services[where, name] = kind, item
                self.parts[where, name] = []
                self._services[where, kind.serve_service(name)] = name
                for ray_cluster in kind.clusters_of(item):
                    self._clusters[where, ray_cluster] = name

    def add_cluster(self, item: dict[str, Any]) -> None:
        """A RayCluster that KubeRay made for a service; also registers its pods and events."""
        metadata = item["metadata"]
        owner = (metadata.get("labels") or {}).get(kuberay.ORIGIN_NAME, "")
        if (metadata["namespace"], owner) in self.parts:
            self._clusters[metadata["namespace"], metadata["name"]] = owner
            self.parts[metadata["namespace"], owner].append(item)

    def add(self, item: dict[str, Any]) -> None:
        """A pod, a Service, an EndpointSlice, a Job or an event, if it belongs to a service."""
        where, labels = item["metadata"]["namespace"], item["metadata"].get("labels") or {}
        if labels.get(COMPONENT) == DOWNLOAD_COMPONENT:
            name = self._downloaded_by(where, labels)
        elif item["kind"] == "Pod":
            name = self._clusters.get((where, labels.get(kuberay.CLUSTER, "")))
        elif item["kind"] == "EndpointSlice":
            name = self._services.get((where, labels.get(kuberay.SERVICE_NAME, "")))
        elif item["kind"] == "Service":
            name = self._services.get((where, item["metadata"]["name"]))
        else:
            subject = str((item.get("involvedObject") or {}).get("name", ""))
            name = next((prefix for prefix in _prefixes(subject) if self._concerns(where, prefix, subject)), None)
        if name is not None:
            self.parts[where, name].append(item)

    def _downloaded_by(self, where: str, labels: Mapping[str, str]) -> str | None:
        """The service whose model a Job downloads, or a pod of it."""
        name = labels.get(INSTANCE) or labels.get(SERVICE, "")
        return name if (where, name) in self.services and BATCH not in labels else None

    def _concerns(self, where: str, name: str, subject: str) -> bool:
        if (where, name) not in self.services:
            return False
        kind, _ = self.services[where, name]
        return name == subject or (kuberay.is_part if kind.is_cluster else kuberay.is_child)(subject, name)


def _prefixes(name: str) -> Iterator[str]:
    """`name` and its prefixes: KubeRay appends parts to the name of the owner."""
    while name:
        yield name
        name = name.rpartition("-")[0]
