"""All settings with their values and where these are from."""

from __future__ import annotations

from collections.abc import Sequence

import click
from click.core import ParameterSource

from rayllm_ctl.cli.parsing.command import UnknownFlagError
from rayllm_ctl.cli.parsing.unknown_flags import near_flags
from rayllm_ctl.cli.settings.check import check_meaning
from rayllm_ctl.cli.settings.context import SettingContext
from rayllm_ctl.cli.settings.names import setting_fields, setting_options
from rayllm_ctl.cli.settings.sources import setting_text
from rayllm_ctl.cli.settings.taken import taken_settings
from rayllm_ctl.console.setup.config import SettingRow


class _ViewContext(SettingContext):
    """The context of all settings at once."""

    excludes = False


def all_settings(ctx: click.Context, flags: Sequence[str]) -> list[SettingRow]:
    """The settings as a command with `flags` would have them. Raises UserError for invalid ones, as it would."""
    options = setting_options()
    command = click.Command("view", params=list(options.values()), add_help_option=False)
    command.context_class = _ViewContext
    try:
        below = command.make_context("flags", list(flags), parent=ctx)
    except click.NoSuchOption as error:
        near = near_flags(error.option_name, (f"--{name}" for name in options))
        hint = [f"did you mean {' or '.join(near)}?"] if near else []
        raise UnknownFlagError(
            [error.option_name], ctx, [*hint, f"{ctx.command_path}    # lists all settings"]
        ) from None
    except click.UsageError as error:
        error.ctx = ctx
        raise
    with below:
        taken = taken_settings()
    fields = {setting_fields()[found.name]: found.value for found in taken.values()}
    for found in taken.values():
        check_meaning(found.name, found.value, found.label, fields)
    rows = []
    for name, option in options.items():
        key = option.name or ""
        if below.get_parameter_source(key) is ParameterSource.COMMANDLINE:
            rows.append(SettingRow(name, _text(below.params[key]), "flag", f"--{name}"))
        elif key in taken:
            found = taken[key]
            rows.append(SettingRow(name, found.text, "variable" if found.from_variable else "file", found.place))
        else:
            default = option.default if isinstance(option.default, (str, int, float)) else None
            rows.append(SettingRow(name, None if default is None else setting_text(default), "default", None))
    return rows


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_text, value))
    return setting_text(value)
