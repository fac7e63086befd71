"""`bench compare`: two results."""

from __future__ import annotations

from pathlib import Path

import click

from rayllm_ctl.cli.options import TABLE_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.errors import UsageError
from rayllm_ctl.files import STANDARD_INPUT

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True)


@click.command(cls=Command, name="compare", short_help="Compare two results, and show which differences are noise.")
@click.argument("first", type=_FILE)
@click.argument("second", type=_FILE)
@output_option(*TABLE_FORMATS)
@click.pass_context
def command(ctx: click.Context, first: Path, second: Path, output: str | None) -> None:
    """Compare the results FIRST and SECOND, files that bench wrote with -o json; - for standard input.

    \b
      rayllm-ctl bench qwen3-32b -o json > before.json
      rayllm-ctl bench qwen3-32b -o json > after.json
      rayllm-ctl bench compare before.json after.json

    A ratio is of SECOND to FIRST, with its bootstrap interval of 95 %. If it contains 1, the difference may be noise.
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document
    from rayllm_ctl.cli.session import printer
    from rayllm_ctl.console.bench.compare import comparison_lines
    from rayllm_ctl.workflows.bench.compare import compare_results

    if first == second == Path(STANDARD_INPUT):
        raise UsageError("standard input cannot be both results", hint="rayllm-ctl bench compare FILE -")
    found = compare_results(first, second)
    if output in MACHINE_FORMATS:
        print_document("BenchComparison", {"comparisons": found}, output)
        return
    style = printer(ctx)
    for line in comparison_lines(found, style):
        style.line(line)
