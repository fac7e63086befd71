"""Compare two results of load tests: ratios, and whether they are significant."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median
from typing import Any, Generic, TypeVar

from rayllm_ctl.errors import UsageError
from rayllm_ctl.files import input_name, read_input
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.bench.load import Comparison, Ratio
from rayllm_ctl.workflows.bench.loads import load_differences

RESAMPLES = 1000
"""Bootstrap resamples of each figure."""

_MOST = 1000
"""Values of each figure that are resampled; of more, so many at random, which widens the interval a little."""

_INTERVAL = (2.5, 97.5)
"""Percentiles of the ratios of resamples: an interval of 95 %."""


_NEEDED = {"load", "requests", "durationSeconds", "throughput", "latencySeconds", "samples", "timeline"}
"""Keys of a result."""

_SHORTEST = 0.5
"""Seconds below which the end of a load is not a sample of its own, but counts with the second before."""

T = TypeVar("T")
Statistic = Callable[[Sequence[T]], float]


@dataclass(frozen=True)
class _Figure(Generic[T]):
    """A figure of results. point: its value, as bench prints it. sample: what is resampled for the interval, and
    statistic: makes the figure of it."""

    name: str
    unit: str
    point: Callable[[Mapping[str, Any]], float | None]
    sample: Callable[[Mapping[str, Any]], list[T]]
    statistic: Statistic[T]
    higher_is_better: bool


def compare_results(first: Path, second: Path) -> tuple[Comparison, ...]:
    """The comparison of each load of two results. UsageError for files that are not results, or with other loads."""
    with reading_results(first, second):
        return _comparisons(first, second)


@contextmanager
def reading_results(*paths: Path) -> Iterator[None]:
    """Report what is wrong in files whose form bench does not write: somebody has edited them."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        names = " or ".join(map(input_name, paths))
        raise UsageError(
            f"{names} is not a result of bench: {type(error).__name__}: {error}",
            hint="rayllm-ctl bench NAME -o json > FILE",
        ) from error


def _comparisons(first: Path, second: Path) -> tuple[Comparison, ...]:
    (head, before), (other, after) = (read_result(path) for path in (first, second))
    if len(before) != len(after):
        raise UsageError(
            f"{input_name(first)} has {len(before)} loads and {input_name(second)} has {len(after)}",
            hint="measure both with the same --concurrency or --rate",
        )
    models = [{"models": data.get("models")} for data in (head, other)]
    return tuple(_compared({**models[0], **one}, {**models[1], **two}) for one, two in zip(before, after, strict=True))


def read_result(path: Path) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """A file that bench wrote with -o json: all of it, and the result of each load. UsageError for any other file."""
    name = input_name(path)
    try:
        data = json.loads(read_input(path, "rayllm-ctl bench NAME -o json > FILE").decode("utf-8"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{name} cannot be read: {reason}", hint="rayllm-ctl bench NAME -o json > FILE") from error
    except ValueError as error:
        raise UsageError(f"{name} is not JSON: {error}", hint="rayllm-ctl bench NAME -o json > FILE") from error
    results = data.get("runs") if isinstance(data, dict) else None
    if (
        not isinstance(results, list)
        or not results
        or not all(isinstance(result, dict) and set(result) >= _NEEDED for result in results)
    ):
        raise UsageError(f"{name} is not a result of bench", hint="rayllm-ctl bench NAME -o json > FILE")
    return data, list(results)


def _compared(first: Mapping[str, Any], second: Mapping[str, Any]) -> Comparison:
    chance = random.Random(0)  # noqa: S311
    ratios, too_short = [], []
    for figure in _FIGURES:
        pair = [figure.sample(result) for result in (first, second)]
        points = [figure.point(result) for result in (first, second)]
        if not points[0] or points[1] is None:
            continue
        if not all(len(values) > 1 for values in pair):
            too_short += [figure.name] if figure.higher_is_better else []
            continue
        interval, ratio = _interval(pair[0], pair[1], figure.statistic, chance), points[1] / points[0]
        if interval is not None:
            # With few values the resamples may all lie on one side of the figures.
            low, high = min(interval[0], ratio), max(interval[1], ratio)
            ratios.append(
                Ratio(figure.name, figure.unit, points[0], points[1], ratio, low, high, figure.higher_is_better)
            )
    same, notes = load_differences(first, second)
    if too_short:
        notes = [*notes, f"{' and '.join(too_short)} are not compared: a load took less than two seconds"]
    return Comparison(first["load"], second["load"], tuple(ratios), (*notes, *_notes(first, second)), same)


def _interval(
    first: Sequence[T], second: Sequence[T], statistic: Statistic[T], chance: random.Random
) -> tuple[float, float] | None:
    """The interval that holds the ratios of 95 % of the resamples; None if those of `first` are all 0."""
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
    return low, high


def _rate(counts: Sequence[tuple[float, float]]) -> float:
    """Counts, each with the seconds it took, as a number per second."""
    return sum(count for count, _ in counts) / sum(seconds for _, seconds in counts)


def _counts(name: str) -> Callable[[Mapping[str, Any]], list[tuple[float, float]]]:
    """Counts by second with the length of each, which are resampled instead of requests. Together they are the
    throughput. The last second is not whole, so one shorter than half a second counts with the one before."""

    def values(result: Mapping[str, Any]) -> list[tuple[float, float]]:
        counts = [(float(second[name]), 1.0) for second in result["timeline"]]
        if not counts:
            return []
        *whole, (last, _) = counts
        rest = max(0.0, result["durationSeconds"] - len(whole))
        if rest < _SHORTEST and whole:
            return [*whole[:-1], (whole[-1][0] + last, 1.0 + rest)]
        return [*whole, (last, rest)]

    return values


def _times(name: str) -> Callable[[Mapping[str, Any]], list[float]]:
    def values(result: Mapping[str, Any]) -> list[float]:
        return [value for value in result["samples"][name] if value is not None]

    return values


def _throughput(name: str) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda result: float(result["throughput"][name])


def _latency(name: str, part: str) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda result: (result["latencySeconds"][name] or {}).get(part)


def _latency_figures() -> Iterator[_Figure[Any]]:
    for key, name in (("ttft", "TTFT"), ("tpot", "TPOT"), ("e2e", "end to end")):
        yield _Figure(f"{name}", "s", _latency(key, "mean"), _times(key), fmean, False)
        yield _Figure(f"{name} p50", "s", _latency(key, "p50"), _times(key), median, False)


_FIGURES: tuple[_Figure[Any], ...] = (
    _Figure("requests/s", "", _throughput("requestsPerSecond"), _counts("succeeded"), _rate, True),
    _Figure("output tokens/s", "", _throughput("outputTokensPerSecond"), _counts("outputTokens"), _rate, True),
    *_latency_figures(),
)


def _notes(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    notes = []
    for label, result in (("first", first), ("second", second)):
        if result.get("generator", {}).get("saturated"):
            notes.append(f"the generator was saturated in the {label}: its figures are not the server's alone")
        if failed := result["requests"]["failed"]:
            notes.append(f"{failed} requests of the {label} failed; only successful requests are compared")
    return notes
