"""Plots of a sweep: a bar for each variant, with its value beside it; hatching tells p50 and p99 apart."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

from rayllm_ctl.console.bench.plots import Plot
from rayllm_ctl.console.bench.sweep_figures import FIGURES, Figure, FigureRow, best, label, rows, several_loads, varied
from rayllm_ctl.console.drawing import BLUE, ORANGE, Format, images
from rayllm_ctl.model.bench.sweep import Sweep

_WIDTH = 6.4
_LABEL = 20
"""Characters of a line of a label: there has to be space for the bars."""
_BAR = 0.8
"""Share of a variant's height that its bars take."""

_FILLS: tuple[dict[str, str], ...] = (
    {"facecolor": BLUE, "edgecolor": BLUE},
    {"facecolor": "0.92", "hatch": "///", "edgecolor": ORANGE},
)
_TITLES = {
    "requests/s": "Requests answered per second",
    "tokens/s": "Output tokens per second",
    "TTFT": "Time to first token",
    "TPOT": "Time per output token",
    "end to end": "Request, end to end",
    "tokens/s per GPU": "Output tokens per second and GPU",
    "start-up": "Start-up",
}
_FILES = {"requests/s": "requests", "tokens/s": "tokens", "tokens/s per GPU": "tokens-per-gpu"}


def plots(sweep: Sweep, forms: Sequence[Format]) -> list[Plot]:
    """A plot of each figure that a variant has. Raises UsageError if matplotlib is missing."""
    found = [row for row in rows(sweep) if row.run is not None]
    labels = [textwrap.fill(label(row, varied(sweep), several_loads(found)), _LABEL) for row in found]
    drawn = []
    for name, group in groupby(FIGURES, lambda figure: figure.name):
        figures = tuple(group)
        if any(figures[0].value(row) is not None for row in found):
            height = 1.3 + len(found) * (0.3 + 0.3 * len(figures))
            draw = partial(_bars, found=found, labels=labels, figures=figures)
            title = f"{_TITLES[name]}, {'higher' if figures[0].higher_is_better else 'lower'} is better"
            file = _FILES.get(name, name.lower().replace(" ", "-"))
            drawn.append(Plot(file, title, images(title, forms, draw, (_WIDTH, height))))
    return drawn


def _bars(figure: Any, found: Sequence[FigureRow], labels: Sequence[str], figures: Sequence[Figure]) -> None:
    axes, thick = figure.add_subplot(), _BAR / len(figures)
    for number, shown in enumerate(figures):
        for place, row in enumerate(found):
            value, at = shown.value(row), place + thick * (number - (len(figures) - 1) / 2)
            text = "unknown"
            if value is not None:
                name = f"{shown.part} " if len(figures) > 1 else ""
                text = f"{name}{shown.text(value)}{' (best)' if best(shown, found, row) else ''}"
                axes.barh(at, value, 0.9 * thick, **_FILLS[number])
            axes.annotate(text, (value or 0, at), xytext=(4, 0), textcoords="offset points", va="center", fontsize=11)
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.grid(False)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    # The text beside the longest bar needs some space.
    longest = max(shown.value(row) or 0 for shown in figures for row in found)
    axes.set_xlim(0, 1.35 * longest or 1)
