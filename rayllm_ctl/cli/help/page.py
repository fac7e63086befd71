"""A help page: what the command does, examples, the options that are used most, and the others by group."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from rayllm_ctl.cli.help.groups import GROUPS, MOST_USED, group_of

_HYPHEN = "\N{NON-BREAKING HYPHEN}"
"""In place of hyphens while lines are broken, so that no flag is broken."""

_NUMBER = re.compile(r"(?:INTEGER|FLOAT)(?: RANGE)?$")

PROGRAM = "rayllm-ctl"


def write_page(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter, *, everything: bool) -> None:
    """Write the help page of `command`. everything: describe all options instead of naming the less used ones."""
    program = ctx.find_root().info_name or PROGRAM
    text, examples = described(command)
    command.format_usage(ctx, formatter)
    if text:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(_unbroken(text, program))
    if examples:
        with formatter.section("Examples"):
            for line in examples:
                formatter.write(f"  {_named(line, program)}\n")
    if isinstance(command, click.Group):
        command.format_commands(ctx, formatter)
    _write_options(command, ctx, formatter, program, everything)
    if command.epilog:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(_unbroken(command.epilog, program))
    formatter.buffer = ["".join(formatter.buffer).replace(_HYPHEN, "-")]


def described(command: click.Command) -> tuple[str, list[str]]:
    """The help text of a command without its examples, and the lines of these."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    examples = [one for one in paragraphs if one.startswith("\b\n") and f"{PROGRAM} " in one]
    text = "\n\n".join(one for one in paragraphs if one not in examples)
    return text, [line.removeprefix("  ") for one in examples for line in one.splitlines()[1:]]


def _write_options(
    command: click.Command, ctx: click.Context, formatter: click.HelpFormatter, program: str, everything: bool
) -> None:
    name = ctx.command_path.removeprefix(f"{program} ")
    first: dict[str, tuple[str, str]] = {}
    others: dict[str, dict[str, tuple[str, str]]] = {title: {} for title in GROUPS}
    most_used = MOST_USED.get(name)
    for flag, record in _records(command, ctx, program):
        title = group_of(name, flag)
        is_first = title not in ("Cluster", "Global") if most_used is None else flag in most_used
        if is_first or title is None or ctx.parent is None:
            first[flag] = record
        else:
            others[title][flag] = record
    if most_used is not None:
        first = {flag: first[flag] for flag in (*most_used, *first) if flag in first}
    with formatter.section("Options"):
        formatter.write_dl(list(first.values()))
    titles = [title for title, records in others.items() if records]
    if everything or isinstance(command, click.Group):
        for title in titles:
            with formatter.section(f"{title} options"):
                formatter.write_dl([others[title][flag] for flag in GROUPS[title] if flag in others[title]])
    elif titles:
        with formatter.section(f"More options ({ctx.command_path} --help-all)"):
            formatter.write_dl([
                (title, _unbroken(", ".join(flag for flag in GROUPS[title] if flag in others[title]), program))
                for title in titles
            ])  # fmt: skip


def _records(command: click.Command, ctx: click.Context, program: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """The long name of each option, and its line of the page."""
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
        is_short = param.name == "help_all" and isinstance(command, click.Group)  # the page of a group has all options
        if record is not None and not is_short:
            names, text = record
            yield max(param.opts, key=len), (_NUMBER.sub("N", names), _unbroken(_range(text), program))


def _range(text: str) -> str:
    """`text` with the limits of a number, as Click writes them, in words."""
    return re.sub(r"\bx>=(\w+)", r"at least \1", re.sub(r"\b(\w+)<=x<=(\w+)", r"\1 to \2", text))


def _unbroken(text: str, program: str) -> str:
    return _named(text, program).replace("-", _HYPHEN)


def _named(text: str, program: str) -> str:
    """`text` with the program's name as the user calls it."""
    return re.sub(rf"\b{PROGRAM}(?= )", program, text)
