"""vLLM's metrics in the text form of Prometheus: its own, and those that Ray exports for it.

Names and labels: vllm/v1/metrics/loggers.py and ray_wrappers.py of vLLM 0.29. Ray puts `ray_` before a name, replaces
its colon, and exports a counter once it was counted up; each series of a Serve replica carries its ReplicaId.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from rayllm_ctl.model.benchservice import EngineFigures
from rayllm_ctl.model.prometheus import series

_PREFIXES = ("vllm:", "ray_vllm_")
_CACHE = ("kv_cache_usage_perc", "gpu_cache_usage_perc")
"""The second is the name before vLLM 0.10."""

_PREEMPTIONS = "num_preemptions_total"
_WANTED = ("num_requests_running", "num_requests_waiting", *_CACHE, _PREEMPTIONS)


def engine_figures(texts: Mapping[str, str], replicas: Collection[str] | None = None) -> EngineFigures | None:
    """What the engines of `texts` (metrics by pod) say together; None where they say nothing of requests.

    replicas: ids of the Serve replicas that count; series of others are of replicas that have ended.
    """
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for pod, text in texts.items():
        for name, labels, value in _series(text):
            replica = labels.get("ReplicaId", "")
            if not replica or replicas is None or replica in replicas:
                found[name][f"{pod}/{replica}/{labels.get('engine', '')}"] = value
    running, waiting = found["num_requests_running"], found["num_requests_waiting"]
    if not running:
        return None
    usage = [value for name in _CACHE for value in found[name].values()]
    return EngineFigures(
        running=round(sum(running.values())),
        waiting=round(sum(waiting.values())),
        kv_cache_usage=round(max(usage), 4) if usage else None,
        # Ray's counter is not there until it was counted up.
        preemptions={**dict.fromkeys(running, 0.0), **found[_PREEMPTIONS]},
    )


def _series(text: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Name without prefix, labels and value."""
    for prefix in _PREFIXES:
        for name, labels, value in series(text, [prefix + one for one in _WANTED]):
            yield name.removeprefix(prefix), labels, value
