"""vLLM's metrics in the text form of Prometheus: its own, and those that Ray exports for it.

Names and labels: vllm/v1/metrics/loggers.py and ray_wrappers.py of vLLM 0.29. Ray puts `ray_` before a name, replaces
its colon, and exports a counter once it was counted up; each series of a Serve replica carries its ReplicaId.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import product

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.observed.prometheus import series

NO_METRICS = "no metrics of vLLM: the engine exports none, or none yet (they begin some seconds after a request)"
"""Ray exports them every 10 s (metrics_report_interval_ms), some of them only once there was a request."""

_PREFIXES = ("vllm:", "ray_vllm_")
_CACHE = ("kv_cache_usage_perc", "gpu_cache_usage_perc")
"""The second is the name before vLLM 0.10."""

_RUNNING, _WAITING = "num_requests_running", "num_requests_waiting"
_PREEMPTIONS = "num_preemptions_total"
_PROMPT, _GENERATED = "prompt_tokens_total", "generation_tokens_total"


@dataclass(frozen=True)
class EngineFigures:
    """vLLM's figures on requests. Counts are of all engines together.

    kv_cache_usage: of the fullest engine, from 0 to 1. preemptions: of each engine since it started.
    """

    running: int
    waiting: int
    kv_cache_usage: float | None
    preemptions: Mapping[str, float]


@dataclass(frozen=True)
class EngineReading:
    """Figures of the engines of one replica at one moment. None: unknown.

    kv_cache_usage: of the fullest, from 0 to 1. *_tokens: since they started.
    """

    running: int | None
    waiting: int | None
    kv_cache_usage: float | None
    prompt_tokens: float
    generation_tokens: float


def engine_figures(texts: Mapping[str, str], replicas: Collection[str] | None = None) -> EngineFigures | None:
    """The sums of the engines in `texts` (metrics by pod); None if they have no figures on requests.

    replicas: ids of the Serve replicas that count; series of others are of replicas that have ended.
    """
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for pod, text in texts.items():
        for name, labels, value in _series(text, (_RUNNING, _WAITING, *_CACHE, _PREEMPTIONS)):
            replica = labels.get("ReplicaId", "")
            if not replica or replicas is None or replica in replicas:
                found[name][f"{pod}/{replica}/{labels.get('engine', '')}"] = value
    running, waiting = found[_RUNNING], found[_WAITING]
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


def replica_readings(text: str) -> dict[str, EngineReading]:
    """The figures of the engines in one pod by ReplicaId; "" where a series has none, as those of vLLM's own server."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, labels, value in _series(text, (_RUNNING, _WAITING, *_CACHE, _PROMPT, _GENERATED)):
        found[labels.get("ReplicaId", "")][name].append(value)
    return {replica: _reading(values) for replica, values in found.items()}


def _reading(values: Mapping[str, list[float]]) -> EngineReading:
    usage = [value for name in _CACHE for value in values.get(name, ())]
    return EngineReading(
        running=round(sum(values[_RUNNING])) if _RUNNING in values else None,
        waiting=round(sum(values[_WAITING])) if _WAITING in values else None,
        kv_cache_usage=round(max(usage), 4) if usage else None,
        # Ray's counters are not there until they were counted up.
        prompt_tokens=sum(values.get(_PROMPT, ())),
        generation_tokens=sum(values.get(_GENERATED, ())),
    )


def _series(text: str, wanted: Iterable[str]) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Name without prefix, labels and value of the metrics `wanted`."""
    for prefix, name in product(_PREFIXES, wanted):
        for _, labels, value in series(text, [prefix + name]):
            yield name, labels, value
