"""Snapshots of one service, collected in a few rounds of parallel requests.

Only the service's own object has to be readable. Other unreadable objects are skipped and noted.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.follower import Subscription
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.api.reader import Objects, Reader
from rayllm_ctl.cluster.api.watch import Watch
from rayllm_ctl.cluster.lookup.services import find
from rayllm_ctl.cluster.ray import serve
from rayllm_ctl.cluster.ray.queue import queue_source
from rayllm_ctl.cluster.snapshot.collector import SnapshotCollector, claims_of
from rayllm_ctl.cluster.snapshot.container_logs import failed_logs, whole_logs
from rayllm_ctl.cluster.snapshot.downloads import (
    download_job_names,
    download_logs,
    download_pods,
    is_about_download,
    list_downloads,
    waits_for_model,
)
from rayllm_ctl.cluster.snapshot.events import OwnEvents, is_well
from rayllm_ctl.cluster.snapshot.exposure import in_front_of
from rayllm_ctl.cluster.snapshot.ownership import OwnedResources
from rayllm_ctl.cluster.snapshot.serve_states import ServeStates, denied
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Snapshot
from rayllm_ctl.model.observed.serve_state import read_serve
from rayllm_ctl.model.workload import WorkloadKind

RECENT_SECONDS = 5.0
"""How long unwatched data is considered current after a change of other objects."""


def collect(
    cluster: Cluster, kind: WorkloadKind, name: str, namespace: str, known: dict[str, Any] | None = None
) -> Snapshot:
    """A current Snapshot of a service. If it does not exist, the Snapshot has no object of it.

    known: the service's own object, where it was read a moment ago.

    Raises UserError when objects of the kind cannot be read at all: no such right, no KubeRay, no API server.
    """
    return Collector(cluster, kind, name, namespace, known=known).collect()


class Collector(SnapshotCollector):
    """Collects the same service repeatedly, and slowly changing objects less often.

    following: read nothing about other services. A single Snapshot lists all events of the namespace, including those
    of deleted pods; a follower has seen those pods and remembers their names.
    watch: receives the subscriptions, and then has the objects that need not be requested.
    around: by kind, the operator's Deployments and the namespace, if they were just read. known: the
    service's own object, likewise.
    """

    def __init__(
        self,
        cluster: Cluster,
        kind: WorkloadKind,
        name: str,
        namespace: str,
        *,
        following: bool = False,
        watch: Watch | None = None,
        around: Mapping[str, Sequence[dict[str, Any]]] = MappingProxyType({}),
        known: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(cluster, name, namespace, around)
        self.kind = kind
        self._known = known
        self._following = following
        self._watch = watch
        self._seen_clusters: frozenset[str] = frozenset()
        self._events = OwnEvents(self._events_of)
        self._serve = ServeStates(cluster)
        self._last: tuple[float, Snapshot, Objects] | None = None

    def collect(self, answers: Mapping[str, Mapping[str, Any]] | None = None) -> Snapshot:
        """A current Snapshot. answers: Serve's, if it was just asked."""
        self._reader = Reader(self._cluster)
        self._follow()
        begun = time.monotonic()
        with Tasks() as tasks:
            owned = self._owned(tasks)
            exposure = tasks.submit(in_front_of, self._reader.get, owned.workload) if owned.workload else None
            around = tasks.submit(self._keep, "surroundings", self._surroundings)
            # A service is applied after its models have been downloaded.
            downloading = waits_for_model(owned.workload) if owned.workload else not owned.clusters
            asked = list_downloads(tasks, self._list, self._name) if downloading else []
            pods, endpoints, others = self._round(tasks, owned, asked)
            downloads = [item for future in asked for item in future.result()]
            nodes = self._nodes(tasks, [*pods, *download_pods(downloads)])
            if answers is None:
                answers = self._serve_states(tasks, owned, pods)
            rest = [*others, *downloads, *around.result()]
            rest += [item for part in nodes for item in part.result()]
            rest += exposure.result() if exposure else []
            waiting = tasks.submit(self._queue, owned, answers)
            logs = self._logs(tasks, owned, pods, answers, around.result())
            if downloading:
                logs |= download_logs(self._reader, downloads, pods, tasks)
            queue = waiting.result()
        if owned.workload is None and not owned.clusters:
            rest += self._keep("services", self._namesakes)
        objects = [*_workload_and_clusters(owned), *pods, *endpoints, *rest]
        snapshot = self._snapshot(objects, answers, logs, queue)
        self._last = (begun, snapshot, rest)
        return snapshot

    def refresh(self) -> Snapshot | None:
        """A Snapshot after a change: watched objects and Serve's state are current, others from the last collection.

        None if not possible: the collection is too old, a watch is interrupted, or there is another RayCluster.
        """
        if self._watch is None or self._last is None or time.monotonic() - self._last[0] > RECENT_SECONDS:
            return None
        _, last, rest = self._last
        watched = {one.kind: self._watch.objects(one) for one in self.subscriptions()}
        found = {kind: items for kind, items in watched.items() if items is not None}
        if len(found) < len(watched) or "Pod" not in found:
            return None
        workload = next(iter(found[self.kind.name]), None)
        owned = self._owned_by(workload, found[kuberay.RAY_CLUSTER])
        if owned.cluster_names != self._seen_clusters:
            return None
        with Tasks() as tasks:
            answers = self._serve_states(tasks, owned, found["Pod"])
        objects = [*_workload_and_clusters(owned), *found["Pod"], *found["EndpointSlice"], *rest]
        return self._snapshot(objects, answers, last.logs, last.queue)

    def _namesakes(self) -> Objects:
        """The services of the namespace, for a suggestion."""
        return [item for item in self._list(self.kind.name) if self.kind.is_service(item)]

    def subscriptions(self) -> list[Subscription]:
        """The subscriptions for changes of this service only, as far as its parts are known."""
        found = [
            Subscription(self.kind.name, field_selector=f"metadata.name={self._name}"),
            Subscription("EndpointSlice", label_selector=self._endpoints),
        ]
        if not self.kind.is_cluster:
            found.append(Subscription(kuberay.RAY_CLUSTER, label_selector=self.kind.made_for(self._name)))
        pods = kuberay.part_of(self._seen_clusters)
        return [*found, Subscription("Pod", label_selector=pods)] if pods else found

    def _follow(self) -> None:
        if self._watch is not None:
            self._watch.follow(self.subscriptions())

    @property
    def _endpoints(self) -> str:
        return f"{kuberay.SERVICE_NAME}={self.kind.serve_service(self._name)}"

    def _owned(self, tasks: Tasks) -> OwnedResources:
        """Read the service's object even if it is watched, to detect an API server that does not answer."""
        kind = self.kind
        if self._watch is not None:
            self._watch.objects(self.subscriptions()[0])  # A response is at least as new.
        made = None if kind.is_cluster else tasks.submit(self._list, kuberay.RAY_CLUSTER, kind.made_for(self._name))
        known, self._known = self._known, None  # it is as old as this collector
        workload = find(self._cluster, kind, self._name, self._namespace) if known is None else known
        owned = self._owned_by(workload, made.result() if made else [])
        if self._following:
            self._seen_clusters = owned.cluster_names
            self._follow()
        return owned

    def _owned_by(self, workload: dict[str, Any] | None, made: Objects) -> OwnedResources:
        """made: the RayClusters that KubeRay created for the workload."""
        named = frozenset(self.kind.clusters_of(workload)) if workload else frozenset()
        clusters = tuple(made) if not self.kind.is_cluster else (workload,) if workload else ()
        return OwnedResources(self._name, clusters, workload, named | self._seen_clusters, self.kind.is_cluster)

    def _round(
        self, tasks: Tasks, owned: OwnedResources, asked: Sequence[Future[Objects]]
    ) -> tuple[Objects, Objects, Objects]:
        """Pods and addresses of the service; and its Services, events and claims, those of downloads included.

        asked: the downloads.
        """
        listed = [tasks.submit(self._list, "Service", self.kind.made_for(self._name))]
        if owned.cluster_names:
            listed.append(tasks.submit(self._list, "Service", kuberay.part_of(owned.cluster_names)))
        endpoints = tasks.submit(self._list, "EndpointSlice", self._endpoints)
        pods = self._pods(owned)
        downloads = [item for future in asked for item in future.result()]
        unfinished = download_pods(downloads)
        claims = {claim for pod in (*pods, *unfinished) for claim in claims_of(pod)}
        listed += self._claims(tasks, claims)
        events: list[Objects] | None = None
        if self._following:
            named = {self._name, *owned.cluster_names, *claims}
            if fields.mapping(owned.workload or {}, "spec", "serveService"):  # a load balancer has events of its own
                named.add(self.kind.serve_service(self._name))
            if unfinished:
                named |= download_job_names(downloads)
            events = self._events.ask(tasks, named, [*pods, *unfinished])
        if events is None:
            events = tasks.map(lambda _: self._events_of_namespace(owned, download_job_names(downloads)), (None,))
        found = [item for future in listed for item in future.result()]
        return pods, endpoints.result(), [*found, *(item for part in events for item in part)]

    def _pods(self, owned: OwnedResources) -> Objects:
        if owned.alive or self._seen_clusters:
            selector = kuberay.part_of(owned.cluster_names)
            return self._list("Pod", selector) if selector else []
        # RayClusters are deleted before their pods: then only their names identify the pods' owner.
        return [pod for pod in self._list("Pod", kuberay.CLUSTER) if owned.owns_pod(pod)]

    def _events_of_namespace(self, owned: OwnedResources, jobs: Collection[str]) -> Objects:
        """Events as the core API shows them: it has those written through events.k8s.io as well. jobs: names of
        those that download its models."""
        found = []
        for event in self._list("Event"):
            about = event.get("involvedObject") or {}
            name = str(about.get("name", ""))
            if about.get("kind") == "PersistentVolumeClaim" or is_about_download(name, jobs) or owned.concerns(name):
                found.append(event)
        return found

    def _events_of(self, subject: str) -> Objects:
        return self._list("Event", "", f"involvedObject.name={subject}")

    def _serve_states(self, tasks: Tasks, owned: OwnedResources, pods: Objects) -> Mapping[str, Mapping[str, Any]]:
        if self.kind.is_cluster:
            return {}
        answers = self._serve.ask(tasks, owned.clusters, pods)
        self._reader.notes.update(denied(answers))
        return answers

    def _queue(self, owned: OwnedResources, answers: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        """The queue of a serving gateway; empty if there is none."""
        source = None
        if owned.workload is not None and not self.kind.is_cluster:
            states = {name: read_serve(answer) for name, answer in answers.items()}
            source = queue_source(self._cluster, owned.workload, owned.clusters, states)
        if source is None:
            return {}
        look = partial(self._reader.attempt, source.read, "the queue")
        found = self._keep("queue", look) if source.slow else look()
        return next(iter(found), {})

    def _logs(
        self,
        tasks: Tasks,
        owned: OwnedResources,
        pods: Objects,
        answers: Mapping[str, Mapping[str, Any]],
        surroundings: Objects,
    ) -> dict[str, str]:
        found: dict[str, str] = {}
        for item in owned.clusters:
            answer = answers.get(item["metadata"]["name"])
            if answer:
                with suppress(UserError):  # noted with Serve's state
                    found |= serve.failed_replica_logs(self._serve.dashboard(item), read_serve(answer), tasks)
        found |= failed_logs(self._reader, pods, tasks)
        if self.kind.is_cluster:
            found |= whole_logs(self._reader, [pod for pod in pods if _is_starting(pod)], tasks)
        if _overlooked(owned.workload):
            # The operator may not have had time yet. Few users may read its log, in another namespace.
            operator = [item for item in surroundings if item["kind"] == "Pod"]
            found |= whole_logs(self._reader, operator, tasks, whose="")
        return found

    def _list(self, kind: str, label_selector: str = "", field_selector: str = "") -> Objects:
        if self._watch is not None:
            watched = self._watch.objects(Subscription(kind, label_selector, field_selector))
            if watched is not None:
                return watched
        return super()._list(kind, label_selector, field_selector)


def _workload_and_clusters(owned: OwnedResources) -> Objects:
    own = [dict(owned.workload)] if owned.workload is not None else []
    return own if owned.is_cluster else [*own, *owned.clusters]


def _overlooked(workload: Mapping[str, Any] | None) -> bool:
    """Whether the operator has not processed the newest generation: then its own log is relevant."""
    if workload is None:
        return False
    return bool((workload.get("status") or {}).get("observedGeneration") != workload["metadata"].get("generation"))


def _is_starting(pod: Mapping[str, Any]) -> bool:
    """Whether a server in the pod does not accept requests yet: its log shows the progress."""
    labels, status = pod["metadata"].get("labels") or {}, pod.get("status") or {}
    return labels.get(kuberay.GROUP) == kuberay.SERVERS and status.get("phase") == "Running" and not is_well(pod)
