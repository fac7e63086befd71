"""Hints for flags that a command does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import click

from rayllm_ctl.cli.parsing.arguments import options_by_name, takes_value

_MOST_NAMED = 3

_SHORTENED = {"min": "min-replicas", "max": "max-replicas"}
"""Flags of kubectl autoscale. Others of ours have the same word."""


def unknown_flags(
    command: click.Command, ctx: click.Context, option: str, words: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The unknown flags of `words`, and hints at what was meant. option: the first, as Click knows it: -t for -tp."""
    options = options_by_name(command, ctx)
    found = dict(_unknown(words, options, ctx.allow_interspersed_args)) or {option: None}
    of_vllm = _of_vllm(found) if "--engine-arg" in options else {}
    hints = list(of_vllm.values())
    for flag in found:
        near = near_flags(flag, (name for name in options if name.startswith("--"))) if flag not in of_vllm else []
        if near:
            hints.append(("" if len(found) == 1 else f"{flag}: ") + f"did you mean {' or '.join(near)}?")
    if len(found) == 1 and not of_vllm and not option.startswith("--"):
        return (option,), tuple(hints)
    return tuple(found), tuple(hints)


def _unknown(
    words: Sequence[str], options: Mapping[str, click.Option], interspersed: bool
) -> Iterator[tuple[str, str | None]]:
    """Each unknown flag, and the value that follows it. interspersed: flags may follow an argument."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        is_flag = word.startswith("-") and word != "-"
        if word == "--" or not (is_flag or interspersed):
            return
        if not is_flag:
            continue
        if name in options:
            del rest[: options[name].nargs if takes_value(options[name]) and not equals else 0]
        elif word.startswith("--") or word[:2] not in options:
            follows = rest[0] if rest and not rest[0].startswith("-") else None
            yield name, value if equals else follows


def _of_vllm(found: Mapping[str, str | None]) -> dict[str, str]:
    """What to type instead of each flag that vLLM has."""
    from rayllm_ctl.workflows.plan.engine_arguments import instead_of

    instead = {flag: instead_of(flag, value) for flag, value in found.items()}
    return {
        flag: f"{text}    # vLLM's {flag}" if text.startswith("--") else text for flag, text in instead.items() if text
    }


def near_flags(flag: str, known: Iterable[str]) -> list[str]:
    """The flags that `flag` is a part of, as --min of --min-replicas, or that a typing error or two made it of."""
    from rayllm_ctl.model.kube.names import typing_errors

    word = flag.lstrip("-").replace("_", "-")
    names = [name.removeprefix("--") for name in known]
    allowed = max(1, len(word) // 4)
    errors = {name: typing_errors(word, name) for name in names}
    close = [name for name in names if errors[name] == min(errors.values()) <= allowed]
    parts = set(word.split("-"))
    if (meant := _SHORTENED.get(word)) in names:
        close = [str(meant)]
    near = close or [name for name in names if parts <= set(name.split("-"))]
    return [f"--{name}" for name in near] if len(near) <= _MOST_NAMED else []
