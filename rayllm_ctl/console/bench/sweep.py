"""A sweep as text: a row for each variant, and the best variant for each figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rayllm_ctl.console.bench.sweep_figures import FIGURES, Figure, FigureRow, best, label, rows, several_loads, varied
from rayllm_ctl.console.rows import labelled
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.bench.sweep import Sweep, VariantRecord, in_words, short_names, shown

_STATES = {"failed": "failed", "rejected": "rejected", "interrupted": "interrupted", "waiting": "not measured yet"}
_MARK = " *"


def sweep_lines(sweep: Sweep, style: Printer) -> Iterator[str]:
    """The table, the best variant for each figure, and why a variant has no result."""
    found, vary = rows(sweep), varied(sweep)
    with_load = several_loads(found)
    yield from _table(found, vary, with_load)
    winners = list(best_lines(found, vary, with_load))
    if winners:
        yield ""
        yield from labelled([("* best", line) for line in winners])
    problems = [line for record in sweep.records for line in problem_lines(record, style, vary)]
    if problems:
        yield ""
        yield from problems


def _table(found: Sequence[FigureRow], vary: Sequence[str], with_load: bool) -> Iterator[str]:
    short = short_names(vary)
    head = [short[name] for name in vary] + (["load"] if with_load else [])
    left = len(head)
    head += [_column(place) for place in range(len(FIGURES) - 2)]
    head += ["failed", "GPUs", FIGURES[-2].name, FIGURES[-1].name]
    cells = [variant_cells(row, found, vary, with_load) for row in found]
    whole = [head, *(line for line in cells if len(line) == len(head))]
    widths = [
        max(len(line[column]) for line in ((head, *cells) if column < left else whole)) for column in range(len(head))
    ]
    for line in (head, *cells):
        padded = [
            cell.ljust(width) if place < left or len(line) == left + 1 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=False))
        ]
        yield "  " + "  ".join(padded).rstrip()


def _column(place: int) -> str:
    """TTFT p50, p99, TPOT p50: a name stands once."""
    figure = FIGURES[place]
    if place and FIGURES[place - 1].name == figure.name:
        return figure.part
    return f"{figure.name} {figure.part}".rstrip()


def variant_cells(row: FigureRow, found: Sequence[FigureRow], vary: Sequence[str], with_load: bool) -> list[str]:
    """The cells of a row; of a variant without a result they end with its state."""
    cells = [shown(row.record.values[name]) for name in vary]
    if row.run is None:
        state = _STATES.get(row.record.state, "no rate meets the limits")
        return [*cells, *([""] if with_load else []), state]
    cells += [row.load] if with_load else []
    figures = [_cell(figure, row, found) for figure in FIGURES]
    return [*cells, *figures[:-2], f"{row.run['requests']['failed']:,}", _gpus(row.record), *figures[-2:]]


def _cell(figure: Figure, row: FigureRow, found: Sequence[FigureRow]) -> str:
    value = figure.value(row)
    if value is None:
        return "-"
    return figure.text(value) + (_MARK if best(figure, found, row) else "")


def _gpus(record: VariantRecord) -> str:
    if record.gpus is None:
        return "-"
    low, high = record.gpus
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def best_lines(found: Sequence[FigureRow], vary: Sequence[str], with_load: bool) -> Iterator[str]:
    """The figures for which each variant is the best."""
    for row in found:
        names = [f"{figure.name} {figure.part}".rstrip() for figure in FIGURES if best(figure, found, row)]
        if names:
            yield f"{label(row, vary, with_load)}: {', '.join(names)}"


def problem_lines(record: VariantRecord, style: Printer, vary: Sequence[str]) -> Iterator[str]:
    """Why a variant has no result, or which of its requests failed."""
    words = in_words({name: record.values[name] for name in vary})
    if record.message:
        kind = "warning" if record.state == "rejected" else "error"
        yield f"{style.symbol(kind)} {words}: {record.state}: {record.code}: {record.message}"
        return
    for run in record.runs:
        for kind, count in run["errors"].items():
            yield f"{style.symbol('error')} {words}: {count:,} × {kind}: {run['errorMessages'][kind]}"
        if run["generator"]["saturated"]:
            yield f"{style.symbol('warning')} {words}: the load generator was saturated: its figures are too low"
