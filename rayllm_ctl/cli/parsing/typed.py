"""What a user typed to set a value: a flag, an argument, a variable, or a line of the configuration file."""

from __future__ import annotations

import os

import click
from click.core import ParameterSource

from rayllm_ctl.cli.settings.taken import TAKEN


def name_as_typed(param: click.Parameter, ctx: click.Context) -> str:
    """The variable or the line that set an option, its longest flag, or the name of an argument."""
    if isinstance(param, click.Argument):
        return (param.metavar or param.name or "").strip("[].").upper()
    if param.name in ctx.meta.get(TAKEN, {}):
        return str(ctx.meta[TAKEN][param.name].label)
    if param.name is not None and ctx.get_parameter_source(param.name) is ParameterSource.ENVIRONMENT:
        return _variable(param)
    return max(param.opts, key=len)


def flag_as_typed(flag: str, argument: str | None = None) -> str:
    """As name_as_typed, for a flag of the current command. argument: the parameter that stands for it, if given."""
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return flag
    if argument is not None and ctx.params.get(argument) is not None:
        return next(name_as_typed(param, ctx) for param in ctx.command.params if param.name == argument)
    option = next((param for param in ctx.command.params if flag in param.opts), None)
    return flag if option is None else name_as_typed(option, ctx)


def _variable(param: click.Parameter) -> str:
    """The environment variable from which an option took its value."""
    own = [param.envvar] if isinstance(param.envvar, str) else list(param.envvar or ())
    return next(name for name in own if os.environ.get(name))
