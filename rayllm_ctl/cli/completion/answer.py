"""What the shell is told when the TAB key is pressed. Nothing else is printed, whatever happens.

The protocol of bash, zsh and fish is Click's; that of kubectl for plugins is Cobra's (kubectl_complete-rayllm, see
k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    _resolve_context,
    _resolve_incomplete,
)

from rayllm_ctl.cli.completion import COMPLETION_VARIABLE
from rayllm_ctl.cli.completion.values import known_values
from rayllm_ctl.cli.parsing.command import CommandGroup

_PROGRAM = "rayllm-ctl"

_NO_FILES, _FOLDERS = 4, 16
"""Cobra's ShellCompDirectiveNoFileComp and ShellCompDirectiveFilterDirs."""


def answer_shell(instruction: str) -> None:
    """Print the completions that a shell asks for with `instruction`, such as bash_complete."""
    shell = SHELLS.get(instruction.partition("_")[0])
    if shell is not None and instruction.endswith("_complete"):
        text = _silently(lambda: shell(_root(), {}, _PROGRAM, COMPLETION_VARIABLE).complete())
        click.echo(text.encode())


def answer_kubectl(words: Sequence[str]) -> None:
    """Print the completions of the last of `words`, those of the command line after `kubectl rayllm`."""
    *arguments, typed = words or [""]
    text = _silently(lambda: _Cobra(_root(), {}, _PROGRAM, COMPLETION_VARIABLE).lines(arguments, typed))
    click.echo(text.encode())


def script(shell: str) -> str:
    """The completion script of a shell."""
    return SHELLS[shell](_root(), {}, _PROGRAM, COMPLETION_VARIABLE).source()


def _root() -> click.Command:
    from rayllm_ctl.cli.app import group

    return group


def _silently(work: Callable[[], str]) -> str:
    """What `work` returns, with nothing on standard error; empty if it fails."""
    saved = os.dup(2)
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 2)
        os.close(nothing)
        return work()
    except Exception:  # a wrong command line, too
        return ""
    finally:
        os.dup2(saved, 2)
        os.close(saved)


class _Values(ShellComplete):
    """Completion with the values that are known here. With --gpu=H, zsh and fish replace the whole word."""

    whole_words = True

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        args = [word for word in args if word != "="]  # bash splits there
        ctx = _resolve_context(self.cli, self.ctx_args, self.prog_name, args)
        if isinstance(ctx.command, CommandGroup) and ctx.command.usual and incomplete.startswith("-"):
            args.append(ctx.command.usual)
            ctx = _resolve_context(self.cli, self.ctx_args, self.prog_name, args)
        param, typed = _resolve_incomplete(ctx, args, incomplete)
        known = known_values(param, ctx, typed) if isinstance(param, click.Parameter) else None
        items = param.shell_complete(ctx, typed) if known is None else [CompletionItem(value) for value in known]
        flag, equals, _ = incomplete.partition("=")
        if self.whole_words and equals and flag.startswith("--"):
            for item in items:
                item.value = f"{flag}={item.value}"
        return items


class _Bash(_Values, BashComplete):
    whole_words = False


class _Zsh(_Values, ZshComplete):
    pass


class _Fish(_Values, FishComplete):
    pass


class _Cobra(_Values):
    name = "cobra"

    def lines(self, args: list[str], typed: str) -> str:
        """A line for each completion, with its help, and the directive."""
        items = self.get_completions(args, typed)
        if any(item.type == "file" for item in items):
            return ":0"
        if any(item.type == "dir" for item in items):
            return f":{_FOLDERS}"
        return "\n".join([*map(self.format_completion, items), f":{_NO_FILES}"])

    def format_completion(self, item: CompletionItem[str]) -> str:
        return f"{item.value}\t{' '.join(item.help.split())}" if item.help else item.value


SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}
