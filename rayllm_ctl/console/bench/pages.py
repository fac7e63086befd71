"""The pages of a load test and of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.console.bench.configuration import configuration_rows
from rayllm_ctl.console.bench.plots import Plot
from rayllm_ctl.console.bench.report import Column, Page, Table
from rayllm_ctl.console.bench.results import NAMES, load_in_words, number, remark_lines, seconds, share_in_words
from rayllm_ctl.console.bench.service import rows_by_load
from rayllm_ctl.console.bench.sweep import best_lines, problem_lines, variant_cells
from rayllm_ctl.console.bench.sweep_figures import FIGURES, rows, several_loads, varied
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.bench.load import Results
from rayllm_ctl.model.bench.sweep import Sweep, short_names

_STATISTICS = ("mean", "p50", "p90", "p95", "p99", "max")
_SHOWN = ("p50", "p99")


def load_test_page(results: Results, plots: Sequence[Plot], plain: Printer) -> Page:
    """The page of the loads of one test."""
    runs = results.runs
    service = rows_by_load([(load_in_words(run["load"]), run) for run in runs])
    configuration = [
        ("Target", results.target),
        ("Model" if len(results.models) == 1 else "Models", ", ".join(results.models) or "unknown"),
        *configuration_rows(runs),
        *((label.capitalize(), text) for label, text in service),
    ]
    tables = [_loads(runs)]
    if len(runs) == 1 and any(runs[0]["latencySeconds"].values()):
        tables.append(_latencies(runs[0]["latencySeconds"]))
    return Page(f"Load test of {results.target}", configuration, tables, list(remark_lines(results, plain)), plots)


def sweep_page(sweep: Sweep, plots: Sequence[Plot], plain: Printer) -> Page:
    """The page of the variants of a service."""
    found, vary = rows(sweep), varied(sweep)
    with_load = several_loads(found)
    measured = [row.run for row in found if row.run is not None]
    models = dict.fromkeys(model for record in sweep.records if record.result for model in record.result["models"])
    configuration = [
        ("Service", sweep.service),
        ("Varied", ", ".join(sweep.vary)),
        ("Model" if len(models) == 1 else "Models", ", ".join(models) or "unknown"),
        *(configuration_rows(measured) if measured else ()),
    ]
    short = short_names(vary)
    columns = [
        *(Column(short[name], text=True) for name in vary),
        *((Column("load", text=True),) if with_load else ()),
        *(Column(*((figure.part, figure.name) if figure.part else (figure.name,))) for figure in FIGURES[:-2]),
        Column("failed"),
        Column("GPUs"),
        *(Column(figure.name) for figure in FIGURES[-2:]),
    ]
    cells = [variant_cells(row, found, vary, with_load) for row in found]
    # A variant without a result has its state in the first column of figures.
    padded = [[*line, *[""] * (len(columns) - len(line))] for line in cells]
    best = [f"Best: {line}" for line in best_lines(found, vary, with_load)]
    problems = [line for record in sweep.records for line in problem_lines(record, plain, vary)]
    title = f"Sweep of {sweep.service} over {', '.join(sweep.vary)}"
    return Page(title, configuration, [Table("Variants", columns, padded)], [*best, *problems], plots)


def _loads(runs: Sequence[Mapping[str, Any]]) -> Table:
    columns = [Column("load", text=True), Column("requests/s"), Column("tokens/s")]
    columns += [Column(part, name) for name in NAMES.values() for part in _SHOWN]
    columns += [Column("answered"), Column("failed")]
    good = all("goodput" in run for run in runs)
    columns += [Column("within limits")] if good else []
    return Table("Loads", columns, [list(_load(run, good)) for run in runs])


def _load(run: Mapping[str, Any], good: bool) -> Iterator[str]:
    yield load_in_words(run["load"])
    yield number(run["throughput"]["requestsPerSecond"])
    counted = run["tokens"]["countedBy"] not in (None, "none")
    yield number(run["throughput"]["outputTokensPerSecond"]) if counted else "-"
    for name in NAMES:
        found = run["latencySeconds"][name]
        yield from (seconds(found[part]) if found else "-" for part in _SHOWN)
    yield f"{run['requests']['succeeded']:,}"
    yield f"{run['requests']['failed']:,}"
    if good:
        yield share_in_words(run)


def _latencies(latencies: Mapping[str, Any]) -> Table:
    cells = [
        [label, *(seconds(latencies[name][part]) if latencies[name] else "-" for part in _STATISTICS)]
        for name, label in NAMES.items()
    ]
    return Table("Latency", [Column("figure", text=True), *map(Column, _STATISTICS)], cells)
