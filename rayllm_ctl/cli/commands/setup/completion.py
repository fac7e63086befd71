"""`completion`: completion scripts for shells."""

from __future__ import annotations

import click

from rayllm_ctl.cli.parsing.command import Command


@click.command(cls=Command, short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of SHELL, to be sourced by it. `kubectl rayllm` needs none beside that of kubectl.

    \b
      source <(rayllm-ctl completion bash)
      source <(rayllm-ctl completion zsh)
      rayllm-ctl completion fish | source
    """
    from rayllm_ctl.cli.completion.answer import script

    click.echo(script(shell))
