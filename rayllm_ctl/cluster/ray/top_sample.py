"""A sample of a service's replicas: their pods and nodes, and the metrics of the pods.

Only changing data is read again. Ray's metrics of a pod are some 500 KB, or 20 KB compressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError, UnreachableError, short_reason
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.ray import serve
from rayllm_ctl.cluster.ray.active import ActiveServe, active_cluster, active_serve
from rayllm_ctl.cluster.ray.metrics import RAY_METRICS_PORT, metrics_text
from rayllm_ctl.cluster.ray.model import has_gpus
from rayllm_ctl.cluster.ray.queue import QueueReader
from rayllm_ctl.cluster.ray.vllm_servers import ready_servers
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import MODEL
from rayllm_ctl.model.kube.llm_applications import described_models
from rayllm_ctl.model.kube.names import ENGINE_DEPLOYMENT
from rayllm_ctl.model.observed.health import QueueState, queue_of
from rayllm_ctl.model.observed.ray_metrics import report_interval
from rayllm_ctl.model.observed.serve_state import Replica, ServeState
from rayllm_ctl.model.observed.top import ReplicaLook, ServiceLook

_TIMEOUT = 5.0


class RayServiceReplicas:
    """A sample of a RayService, given as its current object, on the active RayCluster. Raises UserError if Serve's
    state cannot be read, or reading metrics is not permitted."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._where: ActiveServe | None = None
        self._queue = QueueReader(cluster)
        self._pods: dict[str, Mapping[str, Any]] = {}

    def __call__(self, rayservice: Mapping[str, Any]) -> ServiceLook:
        active = self._active(rayservice)
        namespace = str(rayservice["metadata"]["namespace"])
        state = self._state(active)
        problems: list[str] = []
        ids = dict(_model_ids(state))
        replicas = [
            (ids.get(engine.name) or engine.name.removeprefix(ENGINE_DEPLOYMENT), replica)
            for engine in state.engines
            for replica in engine.running
        ]
        names = sorted({replica.place for _, replica in replicas})
        self._find_pods(active, names, problems)
        queue = self._queued(rayservice, active, state, problems)
        texts = _texts(self._cluster, namespace, names, RAY_METRICS_PORT, problems)
        rows = [self._replica(model, replica, texts) for model, replica in replicas]
        rows.sort(key=lambda row: (row.model, row.pod, row.replica or ""))
        return ServiceLook(tuple(rows), report_interval(active.ray_cluster), queue, tuple(problems))

    def _active(self, rayservice: Mapping[str, Any]) -> ActiveServe:
        if self._where is None or self._where.ray_cluster["metadata"]["name"] != active_cluster(rayservice):
            self._where = active_serve(self._cluster, rayservice)
        return self._where

    def _state(self, active: ActiveServe) -> ServeState:
        try:
            return serve.read_state(active.dashboard)
        except ForbiddenError:
            raise
        except UserError as error:
            self._where = None  # the token may have changed
            service = active.rayservice["metadata"]
            raise UserError(
                f"Serve's state could not be read: {serve.unread(error)}",
                hint=f"rayllm-ctl status {service['name']} -n {service['namespace']}",
            ) from error

    def _find_pods(self, active: ActiveServe, names: Iterable[str], problems: list[str]) -> None:
        if not set(names) - set(self._pods):
            return
        ray_cluster = active.ray_cluster["metadata"]
        selector = kuberay.part_of([ray_cluster["name"]])
        try:
            pods = self._cluster.list("Pod", ray_cluster["namespace"], label_selector=selector)
        except UserError as error:
            problems.append(f"the nodes of pods could not be read: {short_reason(error)}")
            return
        self._pods = {str(pod["metadata"]["name"]): pod for pod in pods}

    def _replica(self, model: str, replica: Replica, texts: Mapping[str, str]) -> ReplicaLook:
        name = replica.place
        pod = self._pods.get(name)
        return ReplicaLook(
            model=model,
            replica=replica.id,
            pod=name,
            node=pod["spec"].get("nodeName") if pod else None,
            has_gpus=has_gpus(pod["spec"]) if pod else None,
            engine=texts.get(name),
            ray=texts.get(name),
        )

    def _queued(
        self, rayservice: Mapping[str, Any], active: ActiveServe, state: ServeState, problems: list[str]
    ) -> QueueState | None:
        try:
            figures = self._queue.read(rayservice, active.ray_cluster, state)
        except UserError as error:
            problems.append(f"the gateway's queue could not be read: {short_reason(error)}")
            return None
        return queue_of(figures) if figures else None


def ray_cluster_replicas(cluster: Cluster, ray_cluster: Mapping[str, Any]) -> ServiceLook:
    """A sample of vLLM's own servers. Raises UserError if pods cannot be read, or reading metrics is not permitted."""
    metadata = ray_cluster["metadata"]
    name, namespace = str(metadata["name"]), str(metadata["namespace"])
    pods = {str(pod["metadata"]["name"]): pod for pod in ready_servers(cluster, name, namespace)}
    problems: list[str] = []
    on_gpus = [pod for pod in pods if has_gpus(pods[pod]["spec"])]
    gpus = _texts(cluster, namespace, on_gpus, RAY_METRICS_PORT, problems)
    engines = _texts(cluster, namespace, list(pods), kuberay.SERVE_PORT, problems)
    model = str((metadata.get("annotations") or {}).get(MODEL) or name)
    rows = [
        ReplicaLook(
            model, None, pod, pods[pod]["spec"].get("nodeName"), pod in on_gpus, engines.get(pod), gpus.get(pod)
        )
        for pod in pods
    ]
    return ServiceLook(tuple(rows), None, problems=tuple(problems))


def _texts(cluster: Cluster, namespace: str, pods: Sequence[str], port: int, problems: list[str]) -> dict[str, str]:
    """The metrics of pods; unreadable ones are missing, with the reason among `problems`."""

    def read(pod: str) -> str | UserError:
        try:
            return metrics_text(cluster, namespace, pod, port, _TIMEOUT)
        except ForbiddenError:
            raise
        except UserError as error:
            if isinstance(error, UnreachableError) and error.silent:
                return UserError(f"pod {pod} did not answer at port {port} within {_TIMEOUT:g} s")
            return error

    with Tasks() as tasks:
        answers = dict(zip(pods, tasks.map(read, pods), strict=True))
    problems += [answer.message for answer in answers.values() if isinstance(answer, UserError)]
    return {pod: answer for pod, answer in answers.items() if isinstance(answer, str)}


def _model_ids(state: ServeState) -> Iterator[tuple[str, str]]:
    """The deployment of each model and the model's id, from the configuration of the applications."""
    for application in state.applications:
        for entry in described_models(application.config):
            if entry.deployment is not None and entry.model_id is not None:
                yield entry.deployment, entry.model_id
