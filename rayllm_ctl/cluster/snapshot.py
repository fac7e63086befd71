"""Everything about one service that a reader of its health may look at, collected in a few rounds of parallel requests.

Only the RayService itself has to be readable. What else may not or cannot be read is left out and noted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rayllm_ctl.cluster import serve
from rayllm_ctl.cluster.client import Cluster
from rayllm_ctl.cluster.failures import INSTALL_KUBERAY, NotFoundError
from rayllm_ctl.cluster.logs import failed_logs, whole_logs
from rayllm_ctl.cluster.nodes import live_pods, short_node
from rayllm_ctl.cluster.ownership import OwnedResources
from rayllm_ctl.cluster.versions import OPERATOR
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.health import Snapshot

Objects = list[dict[str, Any]]

SLOW_SECONDS = 15.0
"""How long a Collector keeps what changes slowly or costs much: the operator, quotas, other pods on the nodes."""

WORKERS = 12
"""Requests at once: as many as the widest round has."""


def collect(cluster: Cluster, name: str, namespace: str) -> Snapshot:
    """All that there is about a service now. A service that does not exist gives a Snapshot without its RayService.

    Raises UserError when RayServices cannot be read at all: no such right, no KubeRay, no API server.
    """
    return Collector(cluster, name, namespace).collect()


class Collector:
    """Collects the same service again and again, asking less often for what changes slowly."""

    def __init__(self, cluster: Cluster, name: str, namespace: str) -> None:
        self._cluster = cluster
        self._name = name
        self._namespace = namespace
        self._kept: dict[str, tuple[float, Objects]] = {}
        self._notes: set[str] = set()

    def collect(self) -> Snapshot:
        """A Snapshot of now."""
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="collect") as pool:
            owned = self._owned(pool)
            found = self._round(pool, owned)
            pods = [item for item in found if item["kind"] == "Pod"]
            nodes = self._nodes(pool, pods)
            around = pool.submit(self._keep, "surroundings", self._surroundings)
            answers = self._serve_states(pool, owned, pods)
            objects = [*owned.clusters, *found, *around.result()]
            objects += [item for part in nodes for item in part.result()]
            logs = self._logs(pool, owned, pods, answers, around.result())
        if owned.service is not None:
            objects.insert(0, dict(owned.service))
        elif not owned.clusters:
            objects += self._keep("services", lambda: self._list("RayService"))  # one of them may have been meant
        notes = tuple(sorted(self._notes))
        return Snapshot(tuple(_tidy(objects)), datetime.now(UTC), serve=answers, logs=logs, notes=notes)

    def _owned(self, pool: Executor) -> OwnedResources:
        clusters = pool.submit(self._list, "RayCluster", f"ray.io/originated-from-cr-name={self._name}")
        service: dict[str, Any] | None = None
        try:
            service = self._cluster.get("RayService", self._name, self._namespace)
        except NotFoundError as error:
            if not error.about:
                raise UserError("KubeRay is not installed in this cluster", hint=INSTALL_KUBERAY) from error
        return OwnedResources(self._name, tuple(clusters.result()), service)

    def _round(self, pool: Executor, owned: OwnedResources) -> Objects:
        """Pods, services, endpoints, events and claims of the service."""
        selectors = [f"ray.io/originated-from-cr-name={self._name}"]
        if owned.pod_selector:
            selectors.append(owned.pod_selector)
        futures = [
            pool.submit(self._list, kind, selector) for kind in ("Service", "EndpointSlice") for selector in selectors
        ]
        futures.append(pool.submit(self._pods, owned))
        futures.append(pool.submit(self._events, owned))
        found = [item for future in futures for item in future.result()]
        claims = {claim for item in found if item["kind"] == "Pod" for claim in _claims(item)}
        if claims:
            found += [item for item in self._list("PersistentVolumeClaim") if item["metadata"]["name"] in claims]
        return found

    def _pods(self, owned: OwnedResources) -> Objects:
        if owned.service is not None and "deletionTimestamp" not in owned.service["metadata"]:
            return self._list("Pod", owned.pod_selector) if owned.pod_selector else []
        # RayClusters vanish before their pods do: then only the names of the pods' clusters tell whose they are.
        return [pod for pod in self._list("Pod", "ray.io/cluster") if owned.owns_pod(pod)]

    def _events(self, owned: OwnedResources) -> Objects:
        """Events as the core API shows them: it has those written through events.k8s.io as well."""
        found = []
        for event in self._list("Event"):
            about = event.get("involvedObject") or {}
            if about.get("kind") == "PersistentVolumeClaim" or owned.concerns(str(about.get("name", ""))):
                found.append(event)
        return found

    def _surroundings(self) -> Objects:
        """The operator, and the namespace with its limits."""
        found: Objects = []
        for kind in ("Deployment", "Pod"):
            read = partial(self._cluster.list, kind, label_selector=OPERATOR)
            found += self._try(read, f"{kind}s of the KubeRay operator")
        found += self._list("ResourceQuota") + self._list("LimitRange")
        return found + self._try(lambda: [self._cluster.get("Namespace", self._namespace)], "the namespace")

    def _nodes(self, pool: Executor, pods: Objects) -> list[Future[Objects]]:
        """The nodes of the service's pods; all nodes and what they hold while a pod waits for one."""
        if any(not pod["spec"].get("nodeName") for pod in pods):
            return [pool.submit(self._all_nodes, {pod["metadata"]["uid"] for pod in pods})]
        hosts = sorted({pod["spec"]["nodeName"] for pod in pods})
        return [pool.submit(self._node, host) for host in hosts]

    def _node(self, name: str) -> Objects:
        return self._try(lambda: [short_node(self._cluster.get("Node", name))], "nodes")

    def _all_nodes(self, known: set[str]) -> Objects:
        def read() -> Objects:
            nodes = self._try(lambda: [short_node(node) for node in self._cluster.list("Node")], "nodes")
            return nodes + self._try(partial(live_pods, self._cluster), "pods of other namespaces")

        return [item for item in self._keep("nodes", read) if item["metadata"].get("uid") not in known]

    def _serve_states(self, pool: Executor, owned: OwnedResources, pods: Objects) -> dict[str, Mapping[str, Any]]:
        running = {
            pod["metadata"]["labels"]["ray.io/cluster"]
            for pod in pods
            if pod["metadata"]["labels"].get("ray.io/node-type") == "head" and pod["status"].get("phase") == "Running"
        }
        heads = {
            item["metadata"]["name"]: _head_service(item)
            for item in owned.clusters
            if item["metadata"]["name"] in running
        }
        answers = pool.map(lambda head: serve.state(self._cluster, self._namespace, head), heads.values())
        return dict(zip(heads, answers, strict=True))

    def _logs(
        self,
        pool: Executor,
        owned: OwnedResources,
        pods: Objects,
        answers: Mapping[str, Mapping[str, Any]],
        surroundings: Objects,
    ) -> dict[str, str]:
        found: dict[str, str] = {}
        for item in owned.clusters:
            answer = answers.get(item["metadata"]["name"])
            if answer:
                head = _head_service(item)
                found |= serve.failed_replica_logs(self._cluster, self._namespace, head, answer, pool)
        found |= failed_logs(self._cluster, pods, pool)
        if _overlooked(owned.service):
            found |= whole_logs(self._cluster, [item for item in surroundings if item["kind"] == "Pod"], pool)
        return found

    def _list(self, kind: str, label_selector: str = "") -> Objects:
        read = partial(self._cluster.list, kind, self._namespace, label_selector=label_selector)
        return self._try(read, f"{kind}s of namespace {self._namespace}")

    def _try(self, read: Callable[[], Objects], what: str) -> Objects:
        try:
            return read()
        except NotFoundError:
            return []
        except UserError as error:
            self._notes.add(f"{what} could not be read: {error.message}")
            return []

    def _keep(self, key: str, read: Callable[[], Objects]) -> Objects:
        kept = self._kept.get(key)
        if kept is None or time.monotonic() - kept[0] > SLOW_SECONDS:
            kept = self._kept[key] = (time.monotonic(), read())
        return kept[1]


def _tidy(objects: Objects) -> Objects:
    """Each object once, in its first and fullest form, without managedFields."""
    unique: dict[tuple[str, str], dict[str, Any]] = {}
    for item in objects:
        item["metadata"].pop("managedFields", None)
        unique.setdefault((item["kind"], item["metadata"]["uid"]), item)
    return list(unique.values())


def _head_service(ray_cluster: Mapping[str, Any]) -> str:
    head = (ray_cluster.get("status") or {}).get("head") or {}
    return str(head.get("serviceName") or f"{ray_cluster['metadata']['name']}-head-svc")


def _overlooked(service: Mapping[str, Any] | None) -> bool:
    """Whether the operator has yet to look at the newest generation: then its own log is of interest."""
    if service is None:
        return False
    return bool((service.get("status") or {}).get("observedGeneration") != service["metadata"].get("generation"))


def _claims(pod: Mapping[str, Any]) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim:
            yield claim
