"""The numbers of waiting and running requests of a service with a gateway.

Without API keys the gateway is asked (GET /queue). With keys it answers only clients with a key, and the API server's
proxy does not forward one: then Serve's controller is asked, which counts the requests of each deployment for
autoscaling and exports them on the head (ray_serve_autoscaling_total_requests, Ray 2.60,

ray/serve/_private/autoscaling_state.py).
Those figures are averages of its look-back period and up to ten seconds old; what exceeds the capacity of the running
replicas waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.service_proxy import proxy_path, request_json
from rayllm_ctl.cluster.ray.dashboard import TIMEOUT
from rayllm_ctl.cluster.ray.gateway import LiveGateway, gateway_of
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed.prometheus import series
from rayllm_ctl.model.observed.serve_state import ServeState

_TOTAL = "ray_serve_autoscaling_total_requests"

SLOW_SECONDS = 10.0
"""Seconds between two readings of a slow source."""

QUEUE_RETRY_SECONDS = 20.0
"""Seconds until a retry after a failure: a forbidden source stays forbidden."""


@dataclass(frozen=True)
class QueueSource:
    """read: a list of one mapping with pending, running and maxPending (None: not bounded); it raises UserError.

    slow: the response is large and changes only every ten seconds.
    """

    read: Callable[[], list[dict[str, Any]]]
    slow: bool


def queue_source(
    cluster: Cluster,
    rayservice: Mapping[str, Any],
    clusters: Sequence[Mapping[str, Any]],
    serve: Mapping[str, ServeState],
) -> QueueSource | None:
    """The source of a service's queue; None without a gateway, or while its ingress does not run.

    serve: Serve's own state by the names of the RayClusters.
    """
    gateway = gateway_of(rayservice)
    if gateway is None:
        return None
    name, namespace = rayservice["metadata"]["name"], rayservice["metadata"]["namespace"]
    for ray_cluster in clusters:
        state = serve.get(ray_cluster["metadata"]["name"])
        ingress = state.application(name) if state else None
        if state is None or ingress is None or ingress.status != "RUNNING":
            continue
        if not gateway.config.get("keys"):
            return QueueSource(partial(_of_gateway, cluster, name, namespace), slow=False)
        head = (ray_cluster.get("status") or {}).get("head") or {}
        service = str(head.get("serviceName") or kuberay.head_service(ray_cluster["metadata"]["name"]))
        return QueueSource(partial(_of_metrics, cluster, service, namespace, gateway, state), slow=True)
    return None


class QueueReader:
    """The queue of one service, read repeatedly, as often as it changes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._source: QueueSource | None = None
        self._next = 0.0
        self._last: Mapping[str, Any] | None = None

    def read(
        self, rayservice: Mapping[str, Any], ray_cluster: Mapping[str, Any], serve: ServeState
    ) -> Mapping[str, Any] | None:
        """pending, running and maxPending; None without a gateway, or while its ingress does not run.

        serve: Serve's own state. Raises UserError; for some seconds after that it returns None without a request.
        """
        now = time.monotonic()
        if now < self._next:
            return self._last
        if self._source is None or self._source.slow:  # computed with the current replicas
            name = ray_cluster["metadata"]["name"]
            self._source = queue_source(self._cluster, rayservice, [ray_cluster], {name: serve})
        self._last = None
        if self._source is None:
            return None
        self._next = now + QUEUE_RETRY_SECONDS
        self._last = self._source.read()[0]
        self._next = now + SLOW_SECONDS if self._source.slow else 0.0
        return self._last


def _of_gateway(cluster: Cluster, name: str, namespace: str) -> list[dict[str, Any]]:
    service = kuberay.serve_service(name)
    return [request_json(cluster, namespace, service, kuberay.SERVE, "/queue", timeout=TIMEOUT)]


def _of_metrics(
    cluster: Cluster, head: str, namespace: str, gateway: LiveGateway, serve: ServeState
) -> list[dict[str, Any]]:
    path = proxy_path(namespace, head, kuberay.METRICS, "/metrics")
    figures = dict(_totals(cluster.request_text(path, doing="read Serve's metrics", timeout=TIMEOUT)))
    pending = running = 0
    for application, deployment in gateway.deployments:
        total = round(figures.get((application, deployment), 0.0))
        held = min(total, _capacity(serve, application, deployment))
        running, pending = running + held, pending + total - held
    most = (gateway.config.get("queue") or {}).get("maxPending")
    return [{"pending": pending, "running": running, "maxPending": most}]


def _totals(text: str) -> Iterator[tuple[tuple[str, str], float]]:
    """Application, deployment, and its running and waiting requests."""
    for _, labels, value in series(text, [_TOTAL]):
        yield (labels.get("application", ""), labels.get("deployment", "")), value


def _capacity(serve: ServeState, application: str, deployment: str) -> int:
    """The number of concurrent requests of the running replicas of a deployment."""
    state = serve.deployment(application, deployment)
    return len(state.running) * state.requests if state else 0
