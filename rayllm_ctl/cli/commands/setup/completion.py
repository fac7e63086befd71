"""`completion`: completion scripts for shells."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from rayllm_ctl.cli.parsing.command import Command


@click.command(cls=Command, short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL, to be sourced by it.

    \b
      source <(rayllm-ctl completion bash)
    """
    root = ctx.find_root()
    complete = get_completion_class(shell)
    if complete is None:  # all choices above are shells that Click supports
        raise click.UsageError(f"no completion for {shell}")
    click.echo(complete(root.command, {}, "rayllm-ctl", "_RAYLLM_CTL_COMPLETE").source())
