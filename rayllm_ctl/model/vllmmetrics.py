"""vLLM's metrics in the text form of Prometheus: its own, and those that Ray exports for it.

Names and labels: vllm/v1/metrics/loggers.py and ray_wrappers.py of vLLM 0.29. Ray puts `ray_` before a name, replaces
its colon, and exports a counter once it was counted up; each series of a Serve replica carries its ReplicaId.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import product

from rayllm_ctl.model.benchservice import EngineFigures

_PREFIXES = ("vllm:", "ray_vllm_")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
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


def _series(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Name, labels and value. A pod of Ray exports thousands of lines, of which a few count: they are searched for."""
    text = f"\n{text}\n"
    for prefix, name in product(_PREFIXES, _WANTED):
        start = f"\n{prefix}{name}{{"
        place = text.find(start)
        while place >= 0:
            labels, _, value = text[place + len(start) : text.find("\n", place + 1)].rpartition("} ")
            with suppress(ValueError, IndexError):
                yield name, dict(_LABEL.findall(labels)), float(value.split()[0])
            place = text.find(start, place + 1)
