"""Groups of commands that are imported when one runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from rayllm_ctl.cli.parsing.command import CommandGroup
from rayllm_ctl.cli.settings.context import with_settings


class Subcommands(CommandGroup):
    """A group that knows its commands by name and short help; `load` imports the one of a name."""

    def __init__(
        self, *args: Any, table: Mapping[str, str], load: Callable[[str], click.Command], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.table, self._load = table, load

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        return with_settings(self._load(cmd_name)) if cmd_name in self.table else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(self.table.items()))
