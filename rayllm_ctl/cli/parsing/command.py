"""The classes of all commands and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from rayllm_ctl.cli.parsing.arguments import moved_behind, normalized, options_by_name
from rayllm_ctl.cli.parsing.global_flags import GLOBAL_FLAGS

ALL = "rayllm.help_all"
"""In the meta of a context: its help page is the one with all options."""

BEGUN = "rayllm.begun"
"""In the meta of a context: its command does its work, other than to print help."""


class UnknownFlagError(click.UsageError):
    """Flags that a command does not have, with hints at those that were probably meant."""

    def __init__(self, flags: Sequence[str], ctx: click.Context, hints: Sequence[str]) -> None:
        super().__init__(f"unknown flag{'s' if len(flags) > 1 else ''}: {', '.join(flags)}", ctx)
        self.hints = tuple(hints)


def _show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001
    if value and not ctx.resilient_parsing:
        ctx.meta[ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def _require_single_keys(param: click.Parameter, ctx: click.Context) -> None:
    """Raise UsageError for two values of an option that have the same key (see KeyValue.key_of) and differ.

    The values are not shown: they may be secrets.
    """
    key_of = getattr(param.type, "key_of", None)
    values = ctx.params.get(param.name or "") if getattr(param, "multiple", False) else None
    if key_of is None or not values:
        return
    found: dict[str, Any] = {}
    for value in values:
        key = key_of(value)
        if repr(found.setdefault(key, value)) != repr(value):
            from rayllm_ctl.cli.parsing.typed import name_as_typed

            raise click.UsageError(f"{name_as_typed(param, ctx)} {key} is given twice, with different values", ctx)


HELP_ALL = click.Option(
    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_all, allow_from_autoenv=False,
    help="Show all options and exit.",
)  # fmt: skip


class _Base(click.Command):
    """Global flags, pflag's forms, and help pages."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *GLOBAL_FLAGS, HELP_ALL]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        words = normalized(args, options_by_name(self, ctx), ctx)
        try:
            rest = super().parse_args(ctx, list(words))
        except click.NoSuchOption as error:
            from rayllm_ctl.cli.parsing.unknown_flags import unknown_flags

            flags, hints = unknown_flags(self, ctx, error.option_name, words)
            raise UnknownFlagError(flags, ctx, hints) from None
        for param in self.params:
            _require_single_keys(param, ctx)
        return rest

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from rayllm_ctl.cli.help.page import write_page

        write_page(self, ctx, formatter, everything=bool(ctx.meta.get(ALL)))


class Command(_Base):
    """A command that does something."""

    def invoke(self, ctx: click.Context) -> Any:
        ctx.meta[BEGUN] = True
        return super().invoke(ctx)


class CommandGroup(_Base, click.Group):
    """A command with commands below it. Without one of them it prints its help, as kubectl does.

    usual: the command that flags and arguments belong to where none is named, if any.
    """

    usual: str | None = None

    def below(self, ctx: click.Context, arguments: Sequence[str]) -> list[str]:
        """`arguments` as they are parsed: flags of the cluster before a command, as kubectl takes them, follow it."""
        return moved_behind(arguments, options_by_name(self, ctx))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self.below(ctx, args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if not name.startswith("-") and name not in self.list_commands(ctx):
            raise self.unknown(name, ctx)
        return super().resolve_command(ctx, args)

    def unknown(self, name: str, ctx: click.Context) -> click.UsageError:
        """The error for a command that the group does not have."""
        from rayllm_ctl.model.kube.names import did_you_mean

        known = [f'"{one}"' for one in self.list_commands(ctx)]
        meant = [f'"{one}"' for one in SYNONYMS.get(name, ()) if f'"{one}"' in known]
        asked = f"did you mean {' or '.join(meant)}?" if meant else did_you_mean(name, known)
        return click.UsageError(f'unknown command "{name}"' + (f", {asked}" if asked else ""), ctx)


SYNONYMS: dict[str, tuple[str, ...]] = {
    "create": ("deploy", "submit"),
    "describe": ("status",),
    "get": ("status", "list"),
    "install": ("deploy",),
    "kill": ("cancel",),
    "ls": ("status", "list"),
    "ps": ("status", "list"),
    "remove": ("delete", "revoke", "cancel"),
    "rm": ("delete", "revoke", "cancel"),
    "delete": ("revoke", "cancel"),
    "run": ("deploy", "submit"),
    "serve": ("deploy",),
    "show": ("status",),
    "stop": ("suspend", "cancel"),
    "start": ("resume", "submit"),
    "template": ("render",),
    "uninstall": ("delete",),
    "up": ("deploy",),
    "upgrade": ("deploy",),
    "undo": ("rollback",),
    "validate": ("check",),
}
"""Words of kubectl, helm and others for commands that have another name here."""


def arguments_as_parsed(command: click.Command, ctx: click.Context, arguments: Sequence[str]) -> list[str]:
    """`arguments` in the form that the parser of `command` reads; unchanged if it is not one of these classes."""
    if not isinstance(command, _Base):
        return list(arguments)
    words = command.below(ctx, arguments) if isinstance(command, CommandGroup) else list(arguments)
    try:
        return normalized(words, options_by_name(command, ctx), ctx)
    except click.UsageError:
        return words  # which is reported when the command itself reads its arguments
