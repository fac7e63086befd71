"""The metrics that pods export for Prometheus, through the API server."""

from __future__ import annotations

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.model.kube.api_kinds import kind

RAY_METRICS_PORT = 8080
"""The port at which KubeRay's pods export Ray's metrics (utils/constant.go, DefaultMetricsPort)."""


def metrics_text(cluster: Cluster, namespace: str, pod: str, port: int, timeout: float) -> str:
    """The response of a pod to GET /metrics. Raises UserError."""
    path = f"{kind('Pod').path(namespace, f'{pod}:{port}')}/proxy/metrics"
    return cluster.request_text(path, doing=f"read the metrics of pod {pod} at port {port}", timeout=timeout)
