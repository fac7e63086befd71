"""Samples of a service during a load test, and their summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.observed.vllm_metrics import NO_METRICS, EngineFigures

_FIGURES = ("replicas", "wanted", "running", "waiting", "kvCacheUsage", "preemptions", "queued")


@dataclass(frozen=True)
class LoadLook:
    """A service at one moment. None: not known.

    replicas: that run; wanted: by Serve's controller. queued: requests that wait in the gateway. problems: why
    something is not known, with the right or the answer that stands in the way.
    """

    replicas: int | None = None
    wanted: int | None = None
    engine: EngineFigures | None = None
    queued: int | None = None
    problems: tuple[str, ...] = ()


def during(looks: Sequence[tuple[float, LoadLook]], begin: float, seconds: float) -> dict[str, Any]:
    """The `service` of a result: what `looks`, each with its moment, say of the `seconds` since `begin`.

    The last look before the load counts as one at its begin.
    """
    counted = [(max(0.0, moment - begin), look) for moment, look in _while_it_ran(looks, begin, begin + seconds)]
    preempted = _preemptions([look for _, look in counted])
    samples = [
        {
            "atSeconds": round(at, 1),
            "replicas": look.replicas,
            "wanted": look.wanted,
            "running": look.engine.running if look.engine else None,
            "waiting": look.engine.waiting if look.engine else None,
            "kvCacheUsage": look.engine.kv_cache_usage if look.engine else None,
            "preemptions": total,
            "queued": look.queued,
        }
        for (at, look), total in zip(counted, preempted, strict=True)
    ]
    problems = list(dict.fromkeys(problem for _, look in counted for problem in look.problems))
    if counted and not problems and all(look.engine is None for _, look in counted):
        problems = [NO_METRICS]
    return {
        "samples": samples,
        "scaling": _scaling(samples),
        "max": {name: max(_known(samples, name), default=None) for name in _FIGURES},
        "problems": problems,
    }


def steady_replicas(service: Mapping[str, Any] | None) -> int | None:
    """The number of replicas of a result's `service`; None if it is not known, or changed."""
    known = set(_known(service["samples"], "replicas")) if service else set()
    return int(known.pop()) if len(known) == 1 else None


def _while_it_ran(looks: Sequence[tuple[float, LoadLook]], begin: float, end: float) -> list[tuple[float, LoadLook]]:
    before = [one for one in looks if one[0] < begin]
    return [*before[-1:], *(one for one in looks if begin <= one[0] <= end)]


def _preemptions(looks: Iterable[LoadLook]) -> list[int | None]:
    """Since the first look. An engine that is gone keeps its count, and a new one has counted from 0."""
    first: dict[str, float] | None = None
    last: dict[str, float] = {}
    totals: list[int | None] = []
    for look in looks:
        if look.engine is None:
            totals.append(None)
            continue
        last |= look.engine.preemptions
        if first is None:
            first = dict(last)
        totals.append(round(sum(max(0.0, count - first.get(name, 0.0)) for name, count in last.items())))
    return totals


def _scaling(samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    known = [(sample["atSeconds"], sample["replicas"]) for sample in samples if sample["replicas"] is not None]
    return [{"atSeconds": at, "from": before, "to": now} for (_, before), (at, now) in pairwise(known) if before != now]


def _known(samples: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [sample[name] for sample in samples if sample[name] is not None]
