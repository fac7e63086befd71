"""All that the rules look at for one service: the Snapshot read, sorted and joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from rayllm_ctl.health.objects import rayservice
from rayllm_ctl.health.objects.cluster_spec import ClusterSpec, read_cluster_spec
from rayllm_ctl.health.objects.events import EventLog
from rayllm_ctl.health.objects.model_jobs import ModelJob, read_model_jobs
from rayllm_ctl.health.objects.node import Node, read_nodes
from rayllm_ctl.health.objects.operator import Operator, is_operator, read_operator
from rayllm_ctl.health.objects.pod import Pod, read_pod
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.objects.rayservice import Service, read_service
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.cluster_spec import cluster_spec
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object, Snapshot
from rayllm_ctl.model.observed.serve_state import (
    NO_CONTROLLER,
    NOT_ASKED,
    ServeState,
    read_serve,
    read_status_applications,
)

NEVER = float("inf")

ReplicasOf = Callable[[Object], tuple[int, int] | None]
"""From a Serve configuration to the replicas of its models that it asks for at first, and at most; None if it does
not say."""


class ServiceContext:
    """One service in a Snapshot. Everything is read once and lazily; nothing raises on odd objects."""

    kind = rayservice.KIND
    by_serve = True
    """Whether Ray Serve runs the model; otherwise it is vLLM's own server, or a batch job."""

    of_batch = False
    """Whether it is a batch job."""

    of_fetch = False
    """Whether it is a download without a service."""

    deploy = "rayllm-ctl deploy …"
    """The command that changes its settings, for hints."""

    def __init__(self, snapshot: Snapshot, name: str, namespace: str, replicas_of: ReplicasOf | None = None) -> None:
        """replicas_of: reads what a Serve configuration asks for, which takes a parser."""
        self.snapshot = snapshot
        self._replicas_of = replicas_of
        self.name = name
        self.namespace = namespace
        self.now: datetime = snapshot.now
        self._by_kind: dict[str, list[Object]] = {}
        for item in snapshot.objects:
            if isinstance(item, Mapping):
                self._by_kind.setdefault(fields.kind(item), []).append(item)

    def of_kind(self, kind: str, everywhere: bool = False) -> list[Object]:
        """Objects of a kind, in the service's namespace unless `everywhere`."""
        found = self._by_kind.get(kind, [])
        return found if everywhere else [item for item in found if fields.namespace(item) == self.namespace]

    def age(self, moment: datetime | None) -> float:
        """Seconds from `moment` to the time of the snapshot; infinite if the moment is unknown."""
        return NEVER if moment is None else (self.now - moment).total_seconds()

    def unread(self, *kinds: str) -> bool:
        """Whether objects of one of the kinds may exist that are missing here: their absence means nothing then."""
        return not self.snapshot.unread.isdisjoint(kinds)

    @property
    def pods_unread(self) -> bool:
        """Whether the service may have pods although none is here."""
        return self.unread("Pod") and not self.pods

    @property
    def lacks_namespace(self) -> bool:
        """Whether the service's namespace is known not to exist."""
        if self.unread("Namespace"):
            return False
        items = (item for found in self._by_kind.values() for item in found)
        return not any(
            fields.namespace(item) == self.namespace
            or (fields.kind(item) == "Namespace" and fields.name(item) == self.namespace)
            for item in items
        )

    @property
    def resource(self) -> str:
        """The service's object as kubectl takes it."""
        return f"{self.kind.lower()} {self.name}"

    @property
    def serve_service(self) -> str:
        """The Service that clients use."""
        return kuberay.serve_service(self.name)

    @cached_property
    def service(self) -> Service | None:
        found = [item for item in self.of_kind(rayservice.KIND) if fields.name(item) == self.name]
        return read_service(found[0]) if found else None

    @cached_property
    def events(self) -> EventLog:
        """Events of the namespace, and those of Nodes, which live in the namespace default."""
        mine = [
            item for item in self._by_kind.get("Event", [])
            if fields.namespace(item) == self.namespace or fields.text(item, "involvedObject", "kind") == "Node"
        ]  # fmt: skip
        return EventLog(mine)

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """Nodes by name; empty if they cannot be read."""
        return read_nodes(self.of_kind("Node", everywhere=True), self.of_kind("Pod", everywhere=True))

    @cached_property
    def operator(self) -> Operator:
        deployments = [item for item in self.of_kind("Deployment", everywhere=True) if is_operator(item)]
        pods = [item for item in self.of_kind("Pod", everywhere=True) if is_operator(item)]
        return read_operator(deployments, pods, self.snapshot.logs)

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """The pods of the service's RayClusters, old and new, by name."""
        mine = self.cluster_names
        found = (item for item in self.of_kind("Pod") if fields.label(item, kuberay.CLUSTER) in mine)
        return tuple(sorted((read_pod(item) for item in found), key=lambda pod: (not pod.head, pod.name)))

    @cached_property
    def cluster_names(self) -> frozenset[str]:
        """Names of all RayClusters of the service, those included of which only pods are left."""
        objects = {fields.name(item) for item in self.ray_clusters}
        foreign = {fields.name(item) for item in self.of_kind("RayCluster")} - objects
        labels = {fields.label(item, kuberay.CLUSTER) for item in self.of_kind("Pod")}
        named = {label for label in labels - foreign if kuberay.is_child_cluster(label, self.name)}
        status = {self.service.active, self.service.pending} - {""} if self.service else set()
        return frozenset(objects | named | status)

    @cached_property
    def ray_clusters(self) -> tuple[Object, ...]:
        """The RayCluster objects that this service made, oldest first."""
        found = [
            item for item in self.of_kind("RayCluster")
            if fields.label(item, kuberay.ORIGIN_NAME) == self.name
            and fields.label(item, kuberay.ORIGIN_KIND) in (rayservice.KIND, "")
        ]  # fmt: skip
        return tuple(
            sorted(found, key=lambda item: (fields.text(item, "metadata", "creationTimestamp"), fields.name(item)))
        )

    @cached_property
    def clusters(self) -> tuple[RayCluster, ...]:
        """The RayClusters that count now: the active one, then the pending one.

        Where the status names none (the first seconds, or after the initializing timeout emptied it), the newest one.
        The first cluster counts as active as soon as requests reach it: the status says so a moment later.
        """
        service = self.service
        if service is None:
            return ()
        named = [(name, role) for name, role in ((service.active, "active"), (service.pending, "pending")) if name]
        if not named:
            alive = [item for item in self.ray_clusters if fields.deleted(item) is None]
            named = [(fields.name(item), "pending") for item in alive[-1:]]
        if self.by_serve and not service.active and any(self._is_reached(name) for name, _ in named):
            named = [(name, "active") for name, _ in named]
        return tuple(self._cluster(name, role) for name, role in named)

    @cached_property
    def retired(self) -> tuple[RayCluster, ...]:
        """RayClusters of the service that KubeRay is about to remove, or of which only pods are left."""
        kept = {cluster.name for cluster in self.clusters}
        return tuple(self._cluster(name, "retired") for name in sorted(self.cluster_names - kept))

    def cluster_of(self, pod: Pod) -> RayCluster | None:
        """The RayCluster that counts now and to which the pod belongs."""
        return next((cluster for cluster in self.clusters if cluster.name == pod.cluster), None)

    @property
    def changed(self) -> bool:
        """Whether the RayService is newer than what the operator has looked at."""
        return self.service is not None and self.service.observed < self.service.generation

    @property
    def active(self) -> RayCluster | None:
        return next((cluster for cluster in self.clusters if cluster.role == "active"), None)

    @property
    def pending(self) -> RayCluster | None:
        return next((cluster for cluster in self.clusters if cluster.role == "pending"), None)

    @cached_property
    def slices(self) -> list[Object]:
        """The EndpointSlices of the service's Service."""
        found = self.of_kind("EndpointSlice")
        return [item for item in found if fields.label(item, kuberay.SERVICE_NAME) == self.serve_service]

    @property
    def endpoints(self) -> int:
        """Addresses behind the serve service that take requests; the operator's count where no slice was collected."""
        if not self.slices:
            return self.service.endpoints if self.service else 0
        return sum(len(fields.words(endpoint, "addresses")) for endpoint in self._ready_endpoints)

    @property
    def _ready_endpoints(self) -> Iterator[Object]:
        """Those of the slices that take requests.

        A slice without ports holds the pods that lack the Service's ports: workers, where the head alone has a proxy.
        """
        for item in self.slices:
            if item.get("ports", True):
                for endpoint in fields.items(item, "endpoints"):
                    if fields.at(endpoint, "conditions", "ready") is not False:
                        yield endpoint

    @cached_property
    def spec(self) -> ClusterSpec:
        """The cluster that the RayService asks for."""
        return read_cluster_spec(cluster_spec(self.service.item) if self.service else {})

    @cached_property
    def replicas_asked(self) -> tuple[int, int] | None:
        """Replicas that the Serve configuration asks for at first, and at most; None if it does not say."""
        return self._replicas_of(self.service.item) if self._replicas_of is not None and self.service else None

    def _is_reached(self, cluster: str) -> bool:
        """Whether an address of the service that takes requests is that of a pod of the cluster."""
        pods = {pod.name for pod in self.pods if pod.cluster == cluster}
        return any(fields.text(endpoint, "targetRef", "name") in pods for endpoint in self._ready_endpoints)

    def claim(self, name: str) -> Object | None:
        """The PersistentVolumeClaim of that name, if it was collected."""
        return next((item for item in self.of_kind("PersistentVolumeClaim") if fields.name(item) == name), None)

    @cached_property
    def model_jobs(self) -> tuple[ModelJob, ...]:
        """The Jobs that download its models, by name."""
        objects = [*self.of_kind("Job"), *self.of_kind("Pod")]
        return read_model_jobs(objects, self.name, self.snapshot.logs, batch=self.of_batch)

    def logs_of(self, pods: Iterable[str], prefix: str) -> list[str]:
        """Logs of the named pods whose file name starts with `prefix`."""
        wanted = tuple(f"{pod}/{prefix}" for pod in pods)
        return [text for key, text in sorted(self.snapshot.logs.items()) if key.startswith(wanted)] if wanted else []

    def container_log(self, pod: str, container: str, *, current: bool = False) -> str:
        """The log of a container's last life, or of its present one; of the present one alone with `current`."""
        logs = self.snapshot.logs
        if current:
            return logs.get(f"{pod}/{container}.log", "")
        return logs.get(f"{pod}/{container}.previous.log") or logs.get(f"{pod}/{container}.log", "")

    def _cluster(self, name: str, role: str) -> RayCluster:
        item = next((one for one in self.of_kind("RayCluster") if fields.name(one) == name), None)
        spec = read_cluster_spec(fields.mapping(item, "spec")) if item is not None else self.spec
        pods = tuple(pod for pod in self.pods if pod.cluster == name)
        return RayCluster(
            name,
            role,
            item,
            spec,
            pods,
            self._serve(name, role),
            frozenset(pod.name for pod in pods if self.node_down(pod)),
            self.by_serve,
            unseen=self.unread("Pod") and not pods,
        )

    def _serve(self, name: str, role: str) -> ServeState:
        answer: Any = self.snapshot.serve.get(name)
        state = read_serve(answer) if answer is not None else ServeState(error=NOT_ASKED)
        if role == "active" and state.no_controller:
            return ServeState(error=NO_CONTROLLER)  # the operator's copy is of such an answer, or older
        copied = self.service.applications(f"{role}ServiceStatus") if self.service else {}
        if state.error and copied:
            return read_status_applications(copied, state.error)
        return state

    def node_down(self, pod: Pod) -> bool:
        """Whether the pod's node is down, gone or silent; where nodes cannot be read, whether it is silent."""
        if pod.node in self.silent_nodes:
            return True
        if not self.nodes or not pod.node:
            return False
        return pod.node not in self.nodes or not self.nodes[pod.node].ready

    @cached_property
    def silent_nodes(self) -> dict[str, str]:
        """Nodes of heads that do not answer, neither the head nor the kubelet; and how Serve was missed there."""
        states = (read_serve(answer) for answer in self.snapshot.serve.values())
        return {state.silent_node: state.error for state in states if state.silent_node}
