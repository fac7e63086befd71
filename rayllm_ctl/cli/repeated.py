"""Rejects options given twice that take one value: Click would silently use the last value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

_SEVERAL_FILES = "rayllm-ctl apply -f FILE -f FILE    # applies several"


class RepeatedOption(click.UsageError):
    """An option that takes one value was given more than once. `hint`: the alternative, if any."""

    def __init__(self, option: click.Option, ctx: click.Context) -> None:
        name = max(option.opts, key=len)
        super().__init__(f"{name} is given more than once, and takes one value", ctx)
        self.hint = _SEVERAL_FILES if option.name == "file" else ""


def reject_repeated(command: click.Command, arguments: Sequence[str], name: str, parent: click.Context | None) -> None:
    """Raise RepeatedOption for the first such option of `command` or of the called subcommand."""
    ctx = click.Context(command, parent, name, **command.context_settings)
    try:
        _, rest, order = command.make_parser(ctx).parse_args(list(arguments))
    except click.UsageError:
        return  # which is reported when the command itself reads its arguments
    for parameter, count in Counter(order).items():
        if isinstance(parameter, click.Option) and count > 1 and not _may_repeat(parameter):
            raise RepeatedOption(parameter, ctx)
    if isinstance(command, click.Group) and rest:
        below = command.get_command(ctx, rest[0])
        if below is not None:
            reject_repeated(below, rest[1:], rest[0], ctx)


def _may_repeat(option: click.Option) -> bool:
    """Whether an option may be repeated: it takes several values, or is a flag without a value."""
    return option.multiple or option.count or (option.is_flag and not option.secondary_opts)
