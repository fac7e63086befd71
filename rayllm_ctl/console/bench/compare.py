"""Comparisons of load tests as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rayllm_ctl.console.bench.results import load_in_words
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.bench.load import Comparison, Ratio


def comparison_lines(found: Sequence[Comparison], style: Printer) -> Iterator[str]:
    """A table for each load."""
    for number, comparison in enumerate(found):
        if number:
            yield ""
        yield style.paint(_loads(comparison), "bold")
        for note in comparison.notes:
            yield f"{style.symbol('warning')} {note}"
        rows = [("", "first", "second", "ratio", "95 % interval", "")]
        rows += [
            (
                ratio.name, _value(ratio.first, ratio.unit), _value(ratio.second, ratio.unit), f"{ratio.ratio:.3f}",
                f"{ratio.low:.3f} to {ratio.high:.3f}", _verdict(ratio, comparison.same_load),
            )
            for ratio in comparison.ratios
        ]  # fmt: skip
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        for row in rows:
            cells = [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:5], widths[1:], strict=True)),
            ]
            yield "  ".join([*cells, row[5]]).rstrip()


def _loads(comparison: Comparison) -> str:
    first, second = (load_in_words(load) for load in (comparison.first_load, comparison.second_load))
    return first if first == second else f"{first} and {second}"


def _verdict(ratio: Ratio, same_load: bool | None) -> str:
    """The verdict on a figure; empty for different loads."""
    if same_load is False:
        return "another load"
    if ratio.noise:
        return "may be noise"
    verdict = "better" if (ratio.ratio > 1) == ratio.higher_is_better else "worse"
    return verdict if same_load else f"{verdict}, if the loads are the same"


def _value(value: float, unit: str) -> str:
    return f"{value * 1e3:.4g} ms" if unit == "s" and value < 1 else f"{value:.4g} {unit}".strip()
