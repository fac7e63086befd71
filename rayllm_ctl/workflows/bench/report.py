"""The page and the plots of a load test, as files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from rayllm_ctl.console.bench import sweep
from rayllm_ctl.console.bench import sweep_plots as sweepplots
from rayllm_ctl.console.bench.plots import Format, Plot, plots
from rayllm_ctl.console.bench.report import html
from rayllm_ctl.console.bench.results import result_lines
from rayllm_ctl.console.style import Printer
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.bench.load import Results
from rayllm_ctl.workflows.bench.compare import read_result
from rayllm_ctl.workflows.bench.sweep.folder import read_folder


def write_report(result: Path, output: Path, images: Path | None) -> Iterator[Path]:
    """Write the files and yield their paths. result: of a load test, or the folder of a sweep.

    Raises UsageError if `result` is not a result or the files cannot be written.
    """
    forms: tuple[Format, ...] = ("svg",) if images is None else ("svg", "png")
    title, text, drawn = (_sweep if result.is_dir() else _load_test)(result, forms)
    yield _written(output, html(title, text, drawn).encode())
    if images is None:
        return
    for plot in drawn:
        for form, image in plot.images.items():
            yield _written(images / f"{plot.name}.{form}", image)


def _load_test(result: Path, forms: tuple[Format, ...]) -> tuple[str, list[str], list[Plot]]:
    data, runs = read_result(result)
    shown = Results(
        str(data.get("target", result.name)), tuple(data.get("models", ())), tuple(runs),
        searched="highestRate" in data, highest_rate=data.get("highestRate"),
    )  # fmt: skip
    return f"Load test of {shown.target}", list(result_lines(shown, _plain())), plots(runs, forms)


def _sweep(folder: Path, forms: tuple[Format, ...]) -> tuple[str, list[str], list[Plot]]:
    found = read_folder(folder).sweep()
    if not found.records:
        raise UsageError(f"{folder} has no results yet", hint="rayllm-ctl bench sweep")
    title = f"Sweep of {found.service} over {', '.join(found.vary)}"
    return title, list(sweep.sweep_lines(found, _plain())), sweepplots.plots(found, forms)


def _plain() -> Printer:
    return Printer(io.StringIO(), colors=False, terminal=False)


def _written(path: Path, content: bytes) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    return path
