"""Hints as they can be pasted: with the cluster and the namespace that were typed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from shlex import quote

import click
from click.core import ParameterSource

_NAMESPACE = "--namespace"
_CLUSTER = (_NAMESPACE, "--context", "--kubeconfig", "--as", "--as-group")
_END = re.compile(r"\s+(?:[#|>]|-- ).*|\s*$", re.S)
"""What follows the flags of a command: a remark, a redirection, or what is handed on as it is."""


def with_flags_typed(hints: Sequence[str], ctx: click.Context) -> tuple[str, ...]:
    """`hints`, whose commands have the flags of the cluster that the current command was given: without them they would
    be about another cluster or namespace."""
    typed = dict(_typed(ctx))
    return tuple(_complete(hint, typed, ctx) for hint in hints) if typed else tuple(hints)


def _typed(ctx: click.Context) -> Iterator[tuple[str, str]]:
    """The flags that say where a service is, and as whom it is asked for, each with its value as a shell reads it."""
    for option in ctx.command.params:
        flag = next((name for name in option.opts if name in _CLUSTER), None)
        if (
            flag is None
            or option.name is None
            or ctx.get_parameter_source(option.name) is not ParameterSource.COMMANDLINE
        ):
            continue
        values = ctx.params[option.name]
        short = "-n" if flag == _NAMESPACE else flag
        many = values if isinstance(values, tuple) else (values,)
        yield flag, " ".join(f"{short} {quote(str(value))}" for value in many)


def _complete(hint: str, typed: dict[str, str], ctx: click.Context) -> str:
    program, _, rest = hint.partition(" ")
    if program == "kubectl":
        words = [text for flag, text in typed.items() if flag != _NAMESPACE and f"{flag} " not in rest]
        return " ".join((program, *words, rest))
    if program != "rayllm-ctl" or "--help" in rest:
        return hint
    end = _END.search(rest)
    command, remark = (rest[: end.start()], end[0]) if end else (rest, "")
    taken = _flags_of(command.split(), ctx)
    words = [text for flag, text in typed.items() if flag in taken and f"{text.split()[0]} " not in f"{command} "]
    return " ".join((program, command, *words)) + remark


def _flags_of(words: Sequence[str], ctx: click.Context) -> set[str]:
    """The flags of the command that `words` begin with."""
    found = ctx.find_root().command
    for word in words:
        below = found.get_command(ctx, word) if isinstance(found, click.Group) else None
        if below is None:
            break
        found = below
    return {name for param in found.params for name in param.opts}
