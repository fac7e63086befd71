"""Samples of a service under load, through the API server: Serve's state, vLLM's metrics, the gateway's queue.

Serve's state is one small response. Ray's metrics are a large one per pod, which Ray updates every ten seconds, so they
are read less often, and the last ones count until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import short_reason
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.ray import serve
from rayllm_ctl.cluster.ray.active import ActiveServe, active_serve
from rayllm_ctl.cluster.ray.metrics import RAY_METRICS_PORT, metrics_text
from rayllm_ctl.cluster.ray.queue import QUEUE_RETRY_SECONDS, QueueReader
from rayllm_ctl.cluster.ray.vllm_servers import ready_servers
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.bench.service import LoadLook
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.names import engine_deployment
from rayllm_ctl.model.observed.serve_state import Deployment, ServeState
from rayllm_ctl.model.observed.vllm_metrics import EngineFigures, engine_figures

RAY_METRICS_SECONDS = 4.0
"""Seconds between two readings of Ray's metrics, which change every ten seconds (metrics_report_interval_ms)."""

_TIMEOUT = 2.0


class EngineMetrics:
    """vLLM's metrics of pods at `port`, read at most every `seconds`."""

    def __init__(self, cluster: Cluster, namespace: str, port: int, seconds: float) -> None:
        self._cluster, self._namespace, self._port, self._seconds = cluster, namespace, port, seconds
        self._next = 0.0
        self._last: EngineFigures | None = None

    def read(self, pods: Sequence[str], replicas: Sequence[str] | None, problems: list[str]) -> EngineFigures | None:
        """The figures of `pods`; None, with the reason among `problems`, if one of them cannot be read."""
        now = time.monotonic()
        if now < self._next:
            return self._last
        self._next, self._last = now + self._seconds, None
        try:
            with Tasks() as tasks:
                texts = dict(zip(pods, tasks.map(self._text, pods), strict=True))
        except UserError as error:
            self._next = now + QUEUE_RETRY_SECONDS
            problems.append(f"vLLM's metrics could not be read: {short_reason(error)}")
            return None
        self._last = engine_figures(texts, replicas)
        return self._last

    def _text(self, pod: str) -> str:
        return metrics_text(self._cluster, self._namespace, pod, self._port, _TIMEOUT)


class RayServiceLook:
    """Samples a RayService. models: those under load; all of its models if none of them has its own deployment, as an
    adapter has none."""

    def __init__(self, cluster: Cluster, name: str, namespace: str, models: Sequence[str]) -> None:
        self._cluster, self._name, self._namespace = cluster, name, namespace
        self._wanted = {engine_deployment(model) for model in models}
        self._metrics = EngineMetrics(cluster, namespace, RAY_METRICS_PORT, RAY_METRICS_SECONDS)
        self._where: ActiveServe | None = None
        self._queue = QueueReader(cluster)

    def __call__(self) -> LoadLook:
        problems: list[str] = []
        state = self._state(problems)
        if state is None:
            return LoadLook(problems=tuple(problems))
        deployments = self._deployments(state)
        running = [replica for deployment in deployments for replica in deployment.running]
        pods = sorted({replica.pod for replica in running if replica.pod})
        ids = [replica.id for replica in running]
        return LoadLook(
            replicas=len(running),
            wanted=sum(deployment.target for deployment in deployments),
            engine=self._metrics.read(pods, ids, problems) if pods else None,
            queued=self._gateway(state, problems),
            problems=tuple(problems),
        )

    def _state(self, problems: list[str]) -> ServeState | None:
        """Serve's state; None if it cannot be read. Another cluster may be active after a failure."""
        try:
            if self._where is None:
                self._where = active_serve(self._cluster, self._cluster.get("RayService", self._name, self._namespace))
        except UserError as error:
            problems.append(f"Serve's state could not be read: {short_reason(error)}")
            return None
        try:
            return serve.read_state(self._where.dashboard)
        except UserError as error:
            self._where = None
            problems.append(f"Serve's state could not be read: {serve.unread(error)}")
            return None

    def _deployments(self, state: ServeState) -> Sequence[Deployment]:
        return [deployment for deployment in state.engines if deployment.name in self._wanted] or state.engines

    def _gateway(self, state: ServeState, problems: list[str]) -> int | None:
        """Requests that wait in the gateway; None without one."""
        assert self._where is not None
        try:
            figures = self._queue.read(self._where.rayservice, self._where.ray_cluster, state)
        except UserError as error:
            problems.append(f"the gateway's queue could not be read: {short_reason(error)}")
            return None
        return figures.get("pending") if figures else None


def ray_cluster_look(cluster: Cluster, name: str, namespace: str) -> Callable[[], LoadLook]:
    """Samples vLLM's own servers on a RayCluster: each pod of their group is a replica."""
    metrics = EngineMetrics(cluster, namespace, kuberay.SERVE_PORT, 0.0)

    def look() -> LoadLook:
        problems: list[str] = []
        try:
            ray_cluster = cluster.get(kuberay.RAY_CLUSTER, name, namespace)
            pods = ready_servers(cluster, name, namespace)
        except UserError as error:
            return LoadLook(problems=(f"the RayCluster could not be read: {short_reason(error)}",))
        ready = [pod["metadata"]["name"] for pod in pods]
        return LoadLook(
            replicas=len(ready),
            wanted=next(_servers(ray_cluster), None),
            engine=metrics.read(ready, None, problems) if ready else None,
            problems=tuple(problems),
        )

    return look


def _servers(ray_cluster: Mapping[str, Any]) -> Iterator[int]:
    for group in ray_cluster["spec"].get("workerGroupSpecs") or ():
        if group.get("groupName") == kuberay.SERVERS:
            # The API server defaults replicas to 0, and KubeRay then uses the minimum.
            yield max(int(group.get("replicas") or 0), int(group.get("minReplicas") or 0))
