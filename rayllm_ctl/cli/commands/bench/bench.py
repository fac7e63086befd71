"""`bench`: load tests."""

from __future__ import annotations

import importlib

import click

from rayllm_ctl.cli.subcommands import Subcommands

COMMANDS = {
    "run": "Send load to a service and measure the answers.",
    "sweep": "Deploy, measure and remove variants of a service.",
    "offline": "Measure the engine without a server, in a Job.",
    "compare": "Compare two results, and show which differences are noise.",
    "report": "Write a result as a page with plots.",
}
"""Each is a module of this folder."""


def _load(name: str) -> click.Command:
    command: click.Command = importlib.import_module(f"rayllm_ctl.cli.commands.bench.{name}").command
    return command


class _BenchGroup(Subcommands):
    """`run` if the first word is not a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.table, "-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(name="bench", cls=_BenchGroup, table=COMMANDS, load=_load, short_help="Measure a service under load.")
def command() -> None:
    """Measure a service, or any OpenAI-compatible server, under load.

    \b
      rayllm-ctl bench qwen3-32b                          # the same as: bench run qwen3-32b
      rayllm-ctl bench --url http://127.0.0.1:8000/v1 --concurrency 1,4,16
    """
