"""The figures of one load as JSON data."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rayllm_ctl.loadtest.driver import Driver
from rayllm_ctl.loadtest.samples import Samples, distribution, histogram
from rayllm_ctl.loadtest.settings import Load, Objective

LATENCIES = ("ttft", "tpot", "itl", "e2e")
_KEYS = {name: f"{name}Seconds" for name in (*LATENCIES, "duration", "ramp", "timeout")}
"""Keys of fields in seconds."""

MOST_SAMPLES = 10_000
"""Requests whose own figures are part of the result, for comparisons and plots; of more, this many at random."""


MOST_GAPS = 1_000
"""Gaps between chunks that are part of the result, for the plot of the inter-token latency."""


def result(driver: Driver, load: Load, objective: Objective, interrupted: bool) -> dict[str, Any]:
    """What was measured; docs/how-to/bench.md has the definitions. Times are in seconds, missing figures are null."""
    samples = driver.samples
    seconds = samples.seconds
    per_second = 1 / seconds if seconds else 0.0
    counted = samples.counted
    found: dict[str, Any] = {
        "load": {_KEYS.get(name, name): value for name, value in asdict(load).items() if value is not None},
        "requests": {
            "total": samples.total,
            "succeeded": samples.succeeded,
            "failed": samples.errors.total(),
            "unfinished": driver.started - load.warmup - samples.total if interrupted else 0,
        },
        "durationSeconds": seconds,
        "throughput": {
            "requestsPerSecond": samples.succeeded * per_second,
            "inputTokensPerSecond": samples.input_tokens * per_second,
            "outputTokensPerSecond": samples.output_tokens * per_second,
        },
        "tokens": {
            "input": samples.input_tokens,
            "output": samples.output_tokens,
            "countedBy": counted.pop() if len(counted) == 1 else ("mixed" if counted else None),
        },
        "latencySeconds": {name: distribution(getattr(samples, name)) for name in LATENCIES},
        "histogram": histogram(samples.e2e),
        "timeline": timeline(samples),
        "samples": some(samples, MOST_SAMPLES),
        "errors": dict(sorted(samples.errors.items())),
        "errorMessages": dict(sorted(samples.messages.items())),
        "generator": driver.overhead.figures(),
        "interrupted": interrupted,
    }
    if load.rate is not None:
        found["generator"]["lateStartSeconds"] = distribution(samples.late)
    if objective.set:
        limits = {_KEYS.get(name, name): value for name, value in asdict(objective).items() if value is not None}
        share = samples.good / samples.total if samples.total else 0.0
        found["goodput"] = {
            "objective": limits,
            "requests": samples.good,
            "requestsPerSecond": samples.good * per_second,
            "share": share,
            "met": bool(samples.total) and share >= objective.share,
        }
    return found


def timeline(samples: Samples) -> list[dict[str, Any]]:
    """What ended in each second since the first request that counts."""
    seconds: list[dict[str, Any]] = []

    def second(moment: float) -> dict[str, Any]:
        place = max(0, int(moment - samples.first))
        while len(seconds) <= place:
            seconds.append({"succeeded": 0, "failed": 0, "outputTokens": 0})
        return seconds[place]

    for begin, _, _, e2e, tokens in samples.rows:
        found = second(begin + e2e)
        found["succeeded"] += 1
        found["outputTokens"] += tokens or 0
    for moment in samples.failures:
        second(moment)["failed"] += 1
    return seconds


def some(samples: Samples, most: int) -> dict[str, list[Any]]:
    """Figures of single requests, by kind: seconds from the first one to each one's begin, and its own times. itl: gaps
    between chunks of all requests, in order of their length."""
    rows = samples.rows
    if len(rows) > most:
        rows = sorted(random.Random(0).sample(rows, most))  # noqa: S311
    names = ("begin", "ttft", "tpot", "e2e", "outputTokens")
    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in names]
    columns[0] = [begin - samples.first for begin in columns[0]]
    rounded = [[value if value is None else round(value, 6) for value in column] for column in columns]
    gaps = evenly(sorted(samples.itl), MOST_GAPS)
    return {**dict(zip(names, rounded, strict=True)), "itl": [round(gap, 6) for gap in gaps]}


def evenly(ordered: Sequence[float], most: int) -> Sequence[float]:
    """At most `most` of the values, at even distances, with the first and the last: they are distributed as all are."""
    if len(ordered) <= most:
        return ordered
    return [ordered[round(place * (len(ordered) - 1) / (most - 1))] for place in range(most)]
