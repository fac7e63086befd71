"""Compare two results of load tests: ratios, and whether they are significant."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.bench.load import Comparison, Ratio
from rayllm_ctl.workflows.bench.loads import load_differences

RESAMPLES = 1000
"""Bootstrap resamples of each figure."""

_MOST = 1000
"""Values of each figure that are resampled; of more, so many at random, which widens the interval a little."""

_INTERVAL = (2.5, 97.5)
"""Percentiles of the ratios of resamples: an interval of 95 %."""


def compare_results(first: Path, second: Path) -> tuple[Comparison, ...]:
    """The comparison of each load of two results. UsageError for files that are not results, or with other loads."""
    (head, before), (other, after) = (read_result(path) for path in (first, second))
    if len(before) != len(after):
        raise UsageError(
            f"{first} has {len(before)} loads and {second} has {len(after)}",
            hint="measure both with the same --concurrency or --rate",
        )
    models = [{"models": data.get("models")} for data in (head, other)]
    return tuple(_compared({**models[0], **one}, {**models[1], **two}) for one, two in zip(before, after, strict=True))


def read_result(path: Path) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """A file that bench wrote with -o json: all of it, and the result of each load. UsageError for any other file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}", hint="rayllm-ctl bench NAME -o json > FILE") from error
    results = data.get("runs") if isinstance(data, dict) else None
    if (
        not isinstance(results, list)
        or not results
        or not all(isinstance(result, dict) and {"load", "samples", "timeline"} <= set(result) for result in results)
    ):
        raise UsageError(f"{path} is not a result of bench", hint="rayllm-ctl bench NAME -o json > FILE")
    return data, list(results)


def _compared(first: Mapping[str, Any], second: Mapping[str, Any]) -> Comparison:
    chance = random.Random(0)  # noqa: S311
    ratios = []
    for name, unit, values, better in _FIGURES:
        pair = [values(result) for result in (first, second)]
        if all(len(samples) > 1 for samples in pair):
            for label, statistic in (_MEAN,) if better else (_MEAN, _MEDIAN):
                ratio = _ratio(f"{name} {label}".strip(), unit, pair[0], pair[1], statistic, better, chance)
                ratios += [ratio] if ratio else []
    same, notes = load_differences(first, second)
    return Comparison(tuple(ratios), (*notes, *_notes(first, second)), same)


def _ratio(
    name: str,
    unit: str,
    first: Sequence[float],
    second: Sequence[float],
    statistic: Callable[[Sequence[float]], float],
    higher_is_better: bool,
    chance: random.Random,
) -> Ratio | None:
    before, after = statistic(first), statistic(second)
    if not before:
        return None
    first, second = (chance.sample(values, _MOST) if len(values) > _MOST else values for values in (first, second))
    ratios = []
    for _ in range(RESAMPLES):
        base = statistic(chance.choices(first, k=len(first)))
        if base:
            ratios.append(statistic(chance.choices(second, k=len(second))) / base)
    if not ratios:
        return None
    ratios.sort()
    low, high = (ratios[min(len(ratios) - 1, int(len(ratios) * percent / 100))] for percent in _INTERVAL)
    return Ratio(name, unit, before, after, after / before, low, high, higher_is_better)


def _per_second(name: str) -> Callable[[Mapping[str, Any]], list[float]]:
    """Counts per whole second, resampled instead of requests: their sum is the throughput."""

    def values(result: Mapping[str, Any]) -> list[float]:
        return [float(second[name]) for second in result["timeline"][:-1]]

    return values


def _seconds(name: str) -> Callable[[Mapping[str, Any]], list[float]]:
    def values(result: Mapping[str, Any]) -> list[float]:
        return [value for value in result["samples"][name] if value is not None]

    return values


_MEAN, _MEDIAN = ("", fmean), ("p50", median)
_FIGURES: tuple[tuple[str, str, Callable[[Mapping[str, Any]], list[float]], bool], ...] = (
    ("requests/s", "", _per_second("succeeded"), True),
    ("output tokens/s", "", _per_second("outputTokens"), True),
    ("TTFT", "s", _seconds("ttft"), False),
    ("TPOT", "s", _seconds("tpot"), False),
    ("end to end", "s", _seconds("e2e"), False),
)


def _notes(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    notes = []
    for label, result in (("first", first), ("second", second)):
        if result.get("generator", {}).get("saturated"):
            notes.append(f"the generator was saturated in the {label}: its figures are not the server's alone")
        if failed := result["requests"]["failed"]:
            notes.append(f"{failed} requests of the {label} failed; only successful requests are compared")
    return notes
