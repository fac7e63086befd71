"""Ray's metrics of a pod other than vLLM's: the pod's GPUs, and the requests in its Serve replicas.

Names and units: dashboard/modules/reporter/reporter_agent.py and gpu_providers.py, serve/_private/replica.py of Ray
2.60. Ray renews these values and vLLM's every `metrics_report_interval_ms`. A gauge that was not set for two of these
intervals is no longer exported (_private/telemetry/open_telemetry_metric_recorder.py), and vLLM sets its gauges at
steps of the engine only: an engine without requests has no gauges, and keeps its counters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.observed.prometheus import series

_UTILIZATION, _USED, _FREE = "ray_node_gpus_utilization", "ray_node_gram_used", "ray_node_gram_available"
_PROCESSING = "ray_serve_replica_processing_queries"
_MIB = 2**20

_INTERVAL = re.compile(r"metrics_report_interval_ms\W+(?:value\W+)?(\d+)")
_DEFAULT_INTERVAL = 10.0
_SHORTEST_INTERVAL = 1.0


@dataclass(frozen=True)
class PodGPUs:
    """The GPUs of a pod. utilization: their mean, from 0 to 1; memory of all together."""

    count: int
    utilization: float
    memory_used_bytes: int
    memory_total_bytes: int


def pod_gpus(text: str) -> PodGPUs | None:
    """The GPUs in the metrics of a pod; None if Ray reports none."""
    found: dict[str, list[float]] = {_UTILIZATION: [], _USED: [], _FREE: []}
    for name, _, value in series(text, found):
        found[name].append(value)
    count = len(found[_USED])
    if not count or len(found[_UTILIZATION]) != count:
        return None
    used, free = (round(sum(found[name]) * _MIB) for name in (_USED, _FREE))
    return PodGPUs(count, round(sum(found[_UTILIZATION]) / count / 100, 4), used, used + free)


def requests_in_replicas(text: str) -> dict[str, int]:
    """The requests that each Serve replica of a pod processes, by its id."""
    return {labels.get("replica", ""): round(value) for _, labels, value in series(text, [_PROCESSING])}


def report_interval(ray_cluster: Mapping[str, Any]) -> float:
    """Seconds between two reports of the Ray cluster, as its RayCluster sets them: environment or system-config."""
    found = _INTERVAL.search(json.dumps(ray_cluster.get("spec")))
    return max(int(found[1]) / 1000, _SHORTEST_INTERVAL) if found else _DEFAULT_INTERVAL
