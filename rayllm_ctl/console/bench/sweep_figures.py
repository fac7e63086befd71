"""The figures for comparing the variants of a sweep, and the best variant of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rayllm_ctl.console.bench.results import NAMES, load_in_words, number, seconds
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.bench.sweep import Sweep, VariantRecord, in_words

Run = Mapping[str, Any]


@dataclass(frozen=True)
class FigureRow:
    """A variant under one load. run: its result, if any."""

    record: VariantRecord
    run: Run | None

    @property
    def load(self) -> str:
        return load_in_words(self.run["load"]) if self.run is not None else ""


@dataclass(frozen=True)
class Figure:
    """A figure of a Row, None if it is unknown. part: what it is a part of, as the p50 of TTFT."""

    name: str
    part: str
    value: Callable[[FigureRow], float | None]
    text: Callable[[float], str]
    higher_is_better: bool


def rows(sweep: Sweep) -> list[FigureRow]:
    """A row for each load of each variant, and one for a variant without a result."""
    return [FigureRow(record, run) for record in sweep.records for run in (record.runs or (None,))]


def several_loads(found: Sequence[FigureRow]) -> bool:
    """Whether rows have to say their load."""
    return len({row.load for row in found if row.run is not None}) > 1


def label(row: FigureRow, vary: Sequence[str], with_load: bool) -> str:
    """The variant for people, and its load. vary: the fields to name."""
    words = in_words({name: row.record.values[name] for name in vary})
    return f"{words}, {row.load}" if with_load else words


def varied(sweep: Sweep) -> tuple[str, ...]:
    """The fields that differ among the variants; all where none does."""
    values = {name: [record.values[name] for record in sweep.records] for name in sweep.vary}
    return tuple(name for name, all_ in values.items() if any(one != all_[0] for one in all_)) or sweep.vary


def best(figure: Figure, found: Sequence[FigureRow], row: FigureRow) -> bool:
    """Whether no other variant has a better value, at the same load unless that was searched.

    Only variants that answered every request are compared, and only where there are two of them.
    """
    if row.run is None or row.run["requests"]["failed"]:
        return False
    searched = "highestRate" in (row.record.result or {})
    rivals = [
        value
        for other in found
        if other.run is not None and not other.run["requests"]["failed"] and (searched or other.load == row.load)
        if (value := figure.value(other)) is not None
    ]
    value = figure.value(row)
    if value is None or len(rivals) < 2 or len(set(rivals)) == 1:
        return False
    return value == (max(rivals) if figure.higher_is_better else min(rivals))


def tokens_per_gpu(row: FigureRow) -> float | None:
    """Output tokens per second and GPU, if the number of GPUs is constant."""
    gpus = row.record.gpus
    tokens = _throughput("outputTokensPerSecond")(row)
    if gpus is None or gpus[0] != gpus[1] or not gpus[0] or tokens is None:
        return None
    return tokens / gpus[0]


def _throughput(name: str) -> Callable[[FigureRow], float | None]:
    def value(row: FigureRow) -> float | None:
        if row.run is None or (name != "requestsPerSecond" and row.run["tokens"]["countedBy"] in (None, "none")):
            return None
        return float(row.run["throughput"][name])

    return value


def _latency(name: str, percentile: str) -> Callable[[FigureRow], float | None]:
    def value(row: FigureRow) -> float | None:
        found = row.run["latencySeconds"][name] if row.run is not None else None
        return float(found[percentile]) if found else None

    return value


def _startup(row: FigureRow) -> float | None:
    return row.record.startup_seconds


FIGURES = (
    Figure("requests/s", "", _throughput("requestsPerSecond"), number, True),
    Figure("tokens/s", "", _throughput("outputTokensPerSecond"), number, True),
    Figure(NAMES["ttft"], "p50", _latency("ttft", "p50"), seconds, False),
    Figure(NAMES["ttft"], "p99", _latency("ttft", "p99"), seconds, False),
    Figure(NAMES["tpot"], "p50", _latency("tpot", "p50"), seconds, False),
    Figure(NAMES["e2e"], "p50", _latency("e2e", "p50"), seconds, False),
    Figure(NAMES["e2e"], "p99", _latency("e2e", "p99"), seconds, False),
    Figure("tokens/s per GPU", "", tokens_per_gpu, number, True),
    Figure("start-up", "", _startup, seconds, False),
)
