"""The flags that every command has, before and after its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

from rayllm_ctl.console.style import Color


class GlobalFlags:
    """The values of the global flags, as far as the command line has been read."""

    debug: bool = False
    color: Color = "auto"

    def update(self, ctx: click.Context, given: Mapping[str, Any]) -> None:
        """Take over what the parser of one command found, invalid values excepted; at the root also the environment."""
        for option in GLOBAL_FLAGS:
            if option.name not in ("debug", "color") or (ctx.parent is not None and option.name not in given):
                continue
            try:
                value = option.type_cast_value(ctx, option.consume_value(ctx, given)[0])
            except click.UsageError:
                continue  # which is reported when the command itself reads its arguments
            setattr(self, option.name, value)


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keep a value for all commands. The environment and the default are those of the root."""
    assert param.name is not None
    if ctx.parent is None or ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE:
        ctx.meta[f"rayllm.{param.name}"] = value
        if param.name in ("verbose", "debug") and value:
            _log_requests(ctx.find_root())


def _log_requests(root: click.Context) -> None:
    """Print a line for each request to standard error, until the command ends."""
    import logging

    logger = logging.getLogger("rayllm_ctl.requests")
    if logger.handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    root.call_on_close(lambda: logger.removeHandler(handler))
    root.call_on_close(lambda: logger.setLevel(logging.NOTSET))


def _flag(*names: str, **settings: Any) -> click.Option:
    variable = f"RAYLLM_{names[-1][2:].upper()}"
    return click.Option(
        names, expose_value=False, callback=_keep, envvar=variable, allow_from_autoenv=False, **settings
    )


GLOBAL_FLAGS = (
    _flag("-v", "--verbose", is_flag=True, help="Print a line for each request to the cluster and to the Hub."),
    _flag("--debug", is_flag=True, help="As --verbose, and print a traceback when a command fails."),
    _flag(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="When to use colors. NO_COLOR takes precedence.",
    ),
)
"""The same objects for every command, before and after its name."""
