"""Values of settings: from the environment, or from the configuration file below it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from rayllm_ctl.cli.parsing.wording import in_our_words
from rayllm_ctl.cli.settings.file import config_path, read_config_file
from rayllm_ctl.cli.settings.names import OTHER_VARIABLES, PATHS, VARIABLE_PREFIX, setting_fields, variable
from rayllm_ctl.cli.settings.taken import SettingValue
from rayllm_ctl.errors import UsageError


def find_setting(name: str, option: click.Option, ctx: click.Context) -> SettingValue | None:
    """The value of a setting as `option` reads it; None if it has only its default.

    Raises UsageError, with the variable or the line of the file, if the value is invalid.
    """
    text = os.environ.get(variable(name))
    if text:
        raw: Any = option.type.split_envvar_value(text) if option.multiple else text
        value = _converted(raw, option, ctx, variable(name), f"unset {variable(name)}")
        return SettingValue(name, text, value, variable(name), True)
    entry = read_config_file().get(name)
    if entry is None:
        return None
    place = f"{config_path()}:{entry.line}"
    return SettingValue(name, setting_text(entry.value), from_yaml(name, entry.value, option, ctx, place), place, False)


def setting_text(value: Any) -> str:
    """The value of a setting in the file, as its variable holds it."""
    if isinstance(value, Mapping):
        return " ".join(f"{key}={one}" for key, one in value.items())
    if isinstance(value, list):
        return " ".join(map(setting_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def from_yaml(name: str, value: Any, option: click.Option, ctx: click.Context, place: str) -> Any:
    """A value of the configuration file as `option` reads it. Raises UsageError, whose message begins with
    `place`, if any, and the name.
    """
    where, hint = (f"{place}: {name}", f"rayllm-ctl config unset {name}") if place else (name, "")
    if value is None:
        raise UsageError(f"{where}: a value is missing", hint=hint)
    if isinstance(value, Mapping):
        if not (option.multiple and option.type.name == "key=value"):
            raise UsageError(f"{where}: expected {_expected(option)}, not a mapping", hint=hint)
        value = [f"{key}={setting_text(one)}" for key, one in value.items()]
    if isinstance(value, list) and not option.multiple:
        raise UsageError(f"{where}: expected {_expected(option)}, not a list", hint=hint)
    values = value if isinstance(value, list) else [value]
    if any(isinstance(one, (list, Mapping)) or one is None for one in values):
        raise UsageError(f"{where}: expected a list of {_expected(option)}", hint=hint)
    if option.type.name == "text" and not all(isinstance(one, str) for one in values):
        # 0.10 is the number 0.1 in YAML: what was meant is lost.
        quoted = setting_text(next(one for one in values if not isinstance(one, str)))
        raise UsageError(f"{where}: {quoted} is not text", hint="write it in quotes")
    if any("\0" in one for one in values if isinstance(one, str)):
        raise UsageError(f"{where}: no value contains a NUL character", hint=hint)
    if name in PATHS:
        folder = (config_path() or Path()).parent
        values = [str(folder / Path(setting_text(one)).expanduser()) for one in values]
    texts = [setting_text(one) for one in values]
    return _converted(texts if option.multiple else texts[0], option, ctx, where, hint)


def _expected(option: click.Option) -> str:
    return "text" if option.type.name == "text" else str(option.type.name)


def _converted(raw: Any, option: click.Option, ctx: click.Context, where: str, hint: str) -> Any:
    try:
        return option.type_cast_value(ctx, raw)
    except click.UsageError as error:
        message = in_our_words(error.message)
        raise UsageError(f"{where}: {message[:1].lower()}{message[1:]}", hint=hint) from None


def is_anything_set() -> bool:
    """Whether there is a variable of a setting or a configuration file. Asks the environment and the disk."""
    if any(name.startswith(VARIABLE_PREFIX) for name in os.environ):
        return True
    path = config_path()
    return path is not None and path.exists()


def unknown_variables(command: str, flags: Mapping[str, click.Option]) -> list[str]:
    """A line for each RAYLLM_* variable that has no meaning.

    command: that which runs, with its `flags` by name. Raises UsageError for a variable of this command alone, such
    as RAYLLM_DEPLOY_GPU.
    """
    known = {variable(name) for name in setting_fields()} | OTHER_VARIABLES
    unknown = sorted(
        name
        for name in os.environ
        if name.startswith(VARIABLE_PREFIX) and name not in known and not name.startswith(f"{VARIABLE_PREFIX}ROUTER_")
    )
    own = f"{VARIABLE_PREFIX}{command.upper().replace(' ', '_').replace('-', '_')}_"
    for name in unknown:
        flag = name.removeprefix(own).lower().replace("_", "-")
        if name.startswith(own) and flag in flags:
            rest = f"--{flag} can be set by {variable(flag)}" if flag in setting_fields() else f"use --{flag}"
            raise UsageError(
                f"{name}: there are no variables of single commands; {rest}", hint=(f"unset {name}", *_renamed(name))
            )
    return [f"{name} is ignored: it is not a setting{_meant(name, known)}" for name in unknown]


def _renamed(name: str) -> tuple[str, ...]:
    """The command that sets the variable of the setting at the end of `name`, for all commands."""
    for one in sorted(setting_fields(), key=len, reverse=True):
        if name.endswith(variable(one)[len(VARIABLE_PREFIX) - 1 :]):
            return (f'export {variable(one)}="${name}"',)
    return ()


def _meant(name: str, known: set[str]) -> str:
    from rayllm_ctl.model.kube.names import did_you_mean

    for one in sorted(setting_fields(), key=len, reverse=True):
        if name.endswith(variable(one)[len(VARIABLE_PREFIX) - 1 :]):
            return f"; did you mean {variable(one)}?"
    for one in sorted(known):
        if one.startswith(f"{name}_"):
            return f"; did you mean {one}?"
    without = {one.removeprefix(VARIABLE_PREFIX): one for one in known}
    meant = did_you_mean(name.removeprefix(VARIABLE_PREFIX), without)
    for word in re.findall(r"[A-Z_]{2,}", meant):
        meant = meant.replace(word, without[word])
    return f"; {meant}" if meant else " (rayllm-ctl config view lists all)"
