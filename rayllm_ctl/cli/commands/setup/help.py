"""`help`: the help page of a command."""

from __future__ import annotations

import click

from rayllm_ctl.cli.parsing.command import Command


@click.command(cls=Command, name="help", short_help="Show the help page of a command.")
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show the help page of COMMAND, as COMMAND --help does; without COMMAND list all commands.

    \b
      rayllm-ctl help deploy
      rayllm-ctl help batch submit
    """
    shown = ctx.find_root()
    for word in words:
        if not isinstance(shown.command, click.Group):
            raise click.UsageError(f"{shown.command_path} has no commands below it", shown)
        name, found, _ = shown.command.resolve_command(shown, [word])
        assert found is not None
        shown = click.Context(found, parent=shown, info_name=name)
    click.echo(shown.get_help())
