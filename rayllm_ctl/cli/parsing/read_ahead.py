"""Reads the command line once before Click does: for the global flags, for options given twice that take one value, and
for empty values.

Click would silently use the last value of such an option, and reports an error before it has read what follows. An
empty value is mostly a variable of a shell that is not set; Click takes "" for the path "." and for an argument that
is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

from rayllm_ctl.cli.parsing.command import arguments_as_parsed
from rayllm_ctl.cli.parsing.global_flags import GLOBAL_FLAGS, GlobalFlags

_SEVERAL_FILES = "rayllm-ctl apply -f FILE -f FILE    # applies several"


class RepeatedOption(click.UsageError):
    """An option that takes one value was given more than once. `hint`: the alternative, if any."""

    def __init__(self, option: click.Option, ctx: click.Context) -> None:
        name = max(option.opts, key=len)
        super().__init__(f"{name} is given more than once, and takes one value", ctx)
        self.hint = _SEVERAL_FILES if option.name == "file" else ""


class EmptyValue(click.UsageError):
    """An option or an argument has an empty value."""

    hint = ""

    def __init__(self, param: click.Parameter, ctx: click.Context) -> None:
        from rayllm_ctl.cli.parsing.typed import name_as_typed

        super().__init__(f"{name_as_typed(param, ctx)}: must not be empty", ctx)


def read_ahead(
    command: click.Command,
    arguments: Sequence[str],
    name: str,
    flags: GlobalFlags,
    parent: click.Context | None = None,
    above: Sequence[click.Parameter] = (),
) -> None:
    """Set `flags`, and raise RepeatedOption or EmptyValue for the first such option of `command` or of the called
    subcommand.

    above: the global flags given before the name of `command`.
    """
    settings = {**command.context_settings, "resilient_parsing": True, "ignore_unknown_options": True}
    ctx = click.Context(command, parent, name, **settings)
    words = arguments_as_parsed(command, ctx, arguments)
    given, rest, order = command.make_parser(ctx).parse_args(words)
    flags.update(ctx, given)
    counted = Counter([*above, *order])
    for parameter, count in counted.items():
        if isinstance(parameter, click.Option) and count > 1 and not _may_repeat(parameter):
            raise RepeatedOption(parameter, ctx)
    for parameter in order:
        if parameter.type is not click.UNPROCESSED and _is_empty(given.get(parameter.name or "")):
            raise EmptyValue(parameter, ctx)
    if not isinstance(command, click.Group):
        return
    start = next((index for index, word in enumerate(rest) if not word.startswith("-")), len(rest))
    below = command.get_command(ctx, rest[start]) if start < len(rest) else None
    if below is not None:
        earlier = [option for option in counted if option in GLOBAL_FLAGS]
        read_ahead(below, rest[start + 1 :], rest[start], flags, ctx, earlier)


def _may_repeat(option: click.Option) -> bool:
    """Whether an option may be repeated: it takes several values, or is a flag without a value."""
    return option.multiple or option.count or (option.is_flag and not option.secondary_opts)


def _is_empty(value: object) -> bool:
    """Whether a value, or one of several, is empty text."""
    return value == "" or (isinstance(value, (list, tuple)) and any(map(_is_empty, value)))
