"""The page and the plots of a load test, as files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from rayllm_ctl.console.bench import sweep_plots as sweepplots
from rayllm_ctl.console.bench.pages import load_test_page, sweep_page
from rayllm_ctl.console.bench.plots import plots
from rayllm_ctl.console.bench.report import Page, html
from rayllm_ctl.console.drawing import Format
from rayllm_ctl.console.style import Printer
from rayllm_ctl.errors import UsageError, not_written
from rayllm_ctl.model.bench.load import Results
from rayllm_ctl.workflows.bench.compare import read_result, reading_results
from rayllm_ctl.workflows.bench.sweep.folder import read_folder


def write_report(result: Path, output: Path, images: Path | None) -> Iterator[Path]:
    """Write the files and yield their paths. result: of a load test, or the folder of a sweep. images: a folder, which
    is created.

    Raises UsageError if `result` is not a result, UserError if the files cannot be written.
    """
    if not output.parent.is_dir():
        raise UsageError(
            f"{output} cannot be written: there is no directory {output.parent}", hint=f"mkdir -p {output.parent}"
        )
    forms: tuple[Format, ...] = ("svg",) if images is None else ("svg", "png")
    with reading_results(result):
        page = (_sweep if result.is_dir() else _load_test)(result, forms)
        text = html(page)
    yield _written(output, text.encode())
    if images is None:
        return
    try:
        images.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{images} cannot be created: {error.strerror}") from error
    for plot in page.plots:
        for form, image in plot.images.items():
            yield _written(images / f"{plot.name}.{form}", image)


def _load_test(result: Path, forms: tuple[Format, ...]) -> Page:
    data, runs = read_result(result)
    shown = Results(
        str(data.get("target", result.name)), tuple(data.get("models", ())), tuple(runs),
        searched="highestRate" in data, highest_rate=data.get("highestRate"),
    )  # fmt: skip
    return load_test_page(shown, plots(runs, forms), _plain())


def _sweep(folder: Path, forms: tuple[Format, ...]) -> Page:
    found = read_folder(folder).sweep()
    if not found.records:
        raise UsageError(f"{folder} has no results yet", hint="rayllm-ctl bench sweep")
    return sweep_page(found, sweepplots.plots(found, forms), _plain())


def _plain() -> Printer:
    return Printer(io.StringIO(), colors=False, terminal=False)


def _written(path: Path, content: bytes) -> Path:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise not_written(path, error) from error
    return path
