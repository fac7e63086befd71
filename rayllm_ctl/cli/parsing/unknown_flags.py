"""Hints for flags that a command does not have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from rayllm_ctl.cli.parsing.arguments import options_by_name

_MOST_NAMED = 3


def hints_for(
    command: click.Command, ctx: click.Context, option: str, words: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    """The unknown flag of `words`, and hints at what was meant. option: as Click knows it, -t for -tp."""
    place = next(index for index, word in enumerate(words) if word.partition("=")[0] == option or _begins(word, option))
    flag, equals, value = words[place].partition("=")
    after = words[place + 1] if place + 1 < len(words) else ""
    options = options_by_name(command, ctx)
    if "--engine-arg" in options:
        from rayllm_ctl.workflows.plan.engine_arguments import instead_of

        follows = value if equals else after if after and not after.startswith("-") else None
        instead = instead_of(flag, follows)
        if instead:
            return flag, (f"{instead}    # vLLM's {flag}" if instead.startswith("--") else instead,)
    near = near_flags(flag, (name for name in options if name.startswith("--")))
    return flag if flag.startswith("--") else option, (f"did you mean {' or '.join(near)}?",) if near else ()


def _begins(word: str, option: str) -> bool:
    """Whether `word` is short flags that begin with `option`."""
    return not word.startswith("--") and not option.startswith("--") and word.startswith(option)


def near_flags(flag: str, known: Iterable[str]) -> list[str]:
    """The flags that `flag` is a part of, as --min of --min-replicas, or that a typing error or two made it of."""
    from rayllm_ctl.model.kube.names import typing_errors

    word = flag.lstrip("-").replace("_", "-")
    names = [name.removeprefix("--") for name in known]
    allowed = max(1, len(word) // 4)
    errors = {name: typing_errors(word, name) for name in names}
    close = [name for name in names if errors[name] == min(errors.values()) <= allowed]
    parts = set(word.split("-"))
    near = close or [name for name in names if parts <= set(name.split("-"))]
    return [f"--{name}" for name in near] if len(near) <= _MOST_NAMED else []
