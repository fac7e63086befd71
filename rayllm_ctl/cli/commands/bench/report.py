"""`bench report`: a result, or those of a sweep, as a page with plots."""

from __future__ import annotations

from pathlib import Path

import click

from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.values import OutputPath

_RESULT = click.Path(path_type=Path, exists=True, allow_dash=True)


@click.command(cls=Command, name="report", short_help="Write a result as a page with plots.")
@click.argument("result", type=_RESULT)
@click.option("--output", "-o", type=OutputPath(path_type=Path, dir_okay=False), default="report.html",
              show_default=True, help="File to write.")  # fmt: skip
@click.option("--images", type=click.Path(path_type=Path, file_okay=False),
              help="Folder for the plots as additional PNG and SVG files; it is created.")  # fmt: skip
def command(result: Path, output: Path, images: Path | None) -> None:
    """Write RESULT, a file that bench wrote with -o json (- for standard input) or the directory of a sweep, as one
    HTML file with plots.

    \b
      rayllm-ctl bench qwen3-32b --concurrency 1,4,16 -o json > result.json
      rayllm-ctl bench report result.json
      rayllm-ctl bench report qwen3-32b-sweep --output sweep.html

    Plots need the package matplotlib, which the extra bench installs.
    """
    from rayllm_ctl.workflows.bench.report import write_report

    for path in write_report(result, output, images):
        click.echo(path)
