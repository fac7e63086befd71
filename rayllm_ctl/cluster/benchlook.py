"""A look at a service under load, through the API server: Serve's state, vLLM's metrics, the gateway's queue.

Serve's state is one small answer. Ray's metrics are a large one for each pod, of which Ray renews its part every ten
seconds, so they are asked for less often, and those that came last count until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.cluster import serve
from rayllm_ctl.cluster.client import Cluster
from rayllm_ctl.cluster.dashboard import Dashboard, dashboard_of
from rayllm_ctl.cluster.failures import ForbiddenError
from rayllm_ctl.cluster.parallel import Tasks
from rayllm_ctl.cluster.queue import QueueSource, queue_source
from rayllm_ctl.errors import UserError
from rayllm_ctl.model import kuberay
from rayllm_ctl.model.apikinds import kind
from rayllm_ctl.model.benchservice import EngineFigures, Look
from rayllm_ctl.model.names import engine_deployment
from rayllm_ctl.model.vllmmetrics import engine_figures

RAY_METRICS_PORT = 8080
"""Where the pods of KubeRay export Ray's metrics (utils/constant.go, DefaultMetricsPort)."""

RAY_METRICS_SECONDS = 4.0
"""Between two readings of Ray's metrics, which change every ten seconds (metrics_report_interval_ms)."""

AFTER_A_FAILURE_SECONDS = 20.0
"""Between two readings where the last one failed: what is forbidden stays so."""

_TIMEOUT = 2.0
_QUEUE_SECONDS = 10.0
_MODELS = "LLMServer:"


class EngineMetrics:
    """vLLM's metrics of pods at `port`, read every `seconds` at most."""

    def __init__(self, cluster: Cluster, namespace: str, port: int, seconds: float) -> None:
        self._cluster, self._namespace, self._port, self._seconds = cluster, namespace, port, seconds
        self._next = 0.0
        self._last: EngineFigures | None = None

    def read(self, pods: Sequence[str], replicas: Sequence[str] | None, problems: list[str]) -> EngineFigures | None:
        """The figures of `pods`; None, and the reason among `problems`, where one of them cannot be read."""
        now = time.monotonic()
        if now < self._next:
            return self._last
        self._next, self._last = now + self._seconds, None
        try:
            with Tasks() as tasks:
                texts = dict(zip(pods, tasks.map(self._text, pods), strict=True))
        except UserError as error:
            self._next = now + AFTER_A_FAILURE_SECONDS
            problems.append(f"vLLM's metrics could not be read: {_why(error)}")
            return None
        self._last = engine_figures(texts, replicas)
        return self._last

    def _text(self, pod: str) -> str:
        path = f"{kind('Pod').path(self._namespace, f'{pod}:{self._port}')}/proxy/metrics"
        return self._cluster.request_text(path, doing=f"read the metrics of pod {pod}", timeout=_TIMEOUT)


class RayServiceLook:
    """Looks at a RayService. models: those under load; all of its models count where none of them has a deployment of
    its own, as an adapter has none."""

    def __init__(self, cluster: Cluster, name: str, namespace: str, models: Sequence[str]) -> None:
        self._cluster, self._name, self._namespace = cluster, name, namespace
        self._wanted = {engine_deployment(model) for model in models}
        self._metrics = EngineMetrics(cluster, namespace, RAY_METRICS_PORT, RAY_METRICS_SECONDS)
        self._where: tuple[Mapping[str, Any], Mapping[str, Any], Dashboard] | None = None
        self._queue: QueueSource | None = None
        self._queue_next, self._queued = 0.0, None

    def __call__(self) -> Look:
        problems: list[str] = []
        state = self._state(problems)
        if state is None:
            return Look(problems=tuple(problems))
        deployments = self._deployments(state)
        running = [one for deployment in deployments for one in _running(deployment)]
        pods = sorted({str(one["node_instance_id"]) for one in running if one.get("node_instance_id")})
        ids = [str(one.get("replica_id")) for one in running]
        return Look(
            replicas=len(running),
            wanted=sum(int(deployment.get("target_num_replicas") or 0) for deployment in deployments),
            engine=self._metrics.read(pods, ids, problems) if pods else None,
            queued=self._gateway(state, problems),
            problems=tuple(problems),
        )

    def _state(self, problems: list[str]) -> Mapping[str, Any] | None:
        """Serve's; None where it cannot be read. Another cluster may be active after a failure."""
        try:
            if self._where is None:
                self._where = self._active()
            state = serve.state(self._where[2])
        except UserError as error:
            problems.append(f"Serve's state could not be read: {_why(error)}")
            return None
        if "error" in state:
            self._where = None
            problems.append(f"Serve's state could not be read: {state['error']}")
            return None
        return state

    def _active(self) -> tuple[Mapping[str, Any], Mapping[str, Any], Dashboard]:
        service = self._cluster.get("RayService", self._name, self._namespace)
        active = ((service.get("status") or {}).get("activeServiceStatus") or {}).get("rayClusterName")
        if not active:
            raise UserError("the RayService has no active RayCluster")
        ray_cluster = self._cluster.get(kuberay.RAY_CLUSTER, active, self._namespace)
        return service, ray_cluster, dashboard_of(self._cluster, ray_cluster)

    def _deployments(self, state: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        found = {
            name: deployment
            for application in (state.get("applications") or {}).values()
            for name, deployment in (application.get("deployments") or {}).items()
            if name.startswith(_MODELS)
        }
        return [one for name, one in found.items() if name in self._wanted] or list(found.values())

    def _gateway(self, state: Mapping[str, Any], problems: list[str]) -> int | None:
        """Requests that wait in the gateway; None without one."""
        assert self._where is not None
        service, ray_cluster, _ = self._where
        now = time.monotonic()
        if now < self._queue_next:
            return self._queued
        if self._queue is None or self._queue.slow:  # which counts with the replicas of this moment
            name = ray_cluster["metadata"]["name"]
            self._queue = queue_source(self._cluster, service, [ray_cluster], {name: state})
        if self._queue is None:
            self._queue_next = float("inf")
            return None
        self._queue_next = now + _QUEUE_SECONDS if self._queue.slow else 0.0
        try:
            self._queued = self._queue.read()[0].get("pending")
        except UserError as error:
            self._queued, self._queue_next = None, now + AFTER_A_FAILURE_SECONDS
            problems.append(f"the gateway's queue could not be read: {_why(error)}")
        return self._queued


def ray_cluster_look(cluster: Cluster, name: str, namespace: str) -> Callable[[], Look]:
    """Looks at vLLM's own servers on a RayCluster: each pod of their group is a replica."""
    metrics = EngineMetrics(cluster, namespace, kuberay.SERVE_PORT, 0.0)
    selector = f"{kuberay.CLUSTER}={name},{kuberay.GROUP}={kuberay.SERVERS}"

    def look() -> Look:
        problems: list[str] = []
        try:
            item = cluster.get(kuberay.RAY_CLUSTER, name, namespace)
            pods = cluster.list("Pod", namespace, label_selector=selector)
        except UserError as error:
            return Look(problems=(f"the RayCluster could not be read: {_why(error)}",))
        ready = sorted(pod["metadata"]["name"] for pod in pods if _ready(pod))
        return Look(
            replicas=len(ready),
            wanted=next(_servers(item), None),
            engine=metrics.read(ready, None, problems) if ready else None,
            problems=tuple(problems),
        )

    return look


def _servers(item: Mapping[str, Any]) -> Iterator[int]:
    for group in item["spec"].get("workerGroupSpecs") or ():
        if group.get("groupName") == kuberay.SERVERS:
            # The API server sets replicas to 0 where they are not given, and KubeRay then takes the fewest.
            yield max(int(group.get("replicas") or 0), int(group.get("minReplicas") or 0))


def _ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _running(deployment: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in deployment.get("replicas") or () if one.get("state") == "RUNNING"]


def _why(error: UserError) -> str:
    return f"not permitted to {error.right}" if isinstance(error, ForbiddenError) else error.message
