"""`bench`: load tests."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import click

from rayllm_ctl.cli.parsing.arguments import options_by_name, takes_value
from rayllm_ctl.cli.parsing.command import UnknownFlagError
from rayllm_ctl.cli.subcommands import Subcommands
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube.names import nearest

COMMANDS = {
    "run": "Send load to a service and measure the answers.",
    "sweep": "Deploy, measure and remove variants of a service.",
    "offline": "Measure the engine without a server, in a Job.",
    "compare": "Compare two results, and show which differences are noise.",
    "report": "Write a result as a page with plots.",
}
"""Each is a module of this folder."""

_NAME = "rayllm.bench.name"
"""In the meta of a context: the word that is taken for the name of a service."""


def _load(name: str) -> click.Command:
    command: click.Command = importlib.import_module(f"rayllm_ctl.cli.commands.bench.{name}").command
    return command


class _BenchGroup(Subcommands):
    """`run` if no command follows the global flags."""

    usual = "run"

    def below(self, ctx: click.Context, arguments: Sequence[str]) -> list[str]:
        words = super().below(ctx, arguments)
        options = options_by_name(self, ctx)
        place = 0
        while place < len(words) and words[place] not in ctx.help_option_names:
            name, equals, _ = words[place].partition("=")
            if name not in options:
                break
            place += 2 if takes_value(options[name]) and not equals else 1
        if place < len(words) and words[place] not in (*self.table, *ctx.help_option_names):
            ctx.meta[_NAME] = words[place]
            words.insert(place, self.usual)
        return words

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. An error names the command that NAME resembles, if there is one."""
        try:
            return super().invoke(ctx)
        except (click.UsageError, UserError) as error:
            near = nearest(ctx.meta.get(_NAME, ""), self.table)
            if near and isinstance(error, (UserError, UnknownFlagError)):
                error.hints = (*error.hints, f"did you mean {ctx.command_path} {near}?")
            elif near and error.message.startswith("Got unexpected extra argument"):
                raise self.unknown(ctx.meta[_NAME], ctx) from None
            raise


@click.group(name="bench", cls=_BenchGroup, table=COMMANDS, load=_load, short_help="Measure a service under load.",
             epilog="`rayllm-ctl bench run --help` shows the flags of a test.")  # fmt: skip
def command() -> None:
    """Measure a service, or any OpenAI-compatible server, under load.

    \b
      rayllm-ctl bench qwen3-32b              # the same as: bench run qwen3-32b
      rayllm-ctl bench qwen3-32b --rate 4 --duration 2m
      rayllm-ctl bench --url http://127.0.0.1:8000/v1 --concurrency 1,4,16
    """
