"""Checks a value before it is written to the configuration file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from rayllm_ctl.cli.parsing.wording import in_our_words
from rayllm_ctl.cli.service import replaced, resolve_service
from rayllm_ctl.cli.settings.file import config_path, read_config_file, unknown_name
from rayllm_ctl.cli.settings.names import PATHS, setting_fields, setting_options
from rayllm_ctl.cli.settings.sources import from_yaml
from rayllm_ctl.cli.values import AUTO
from rayllm_ctl.errors import UsageError
from rayllm_ctl.files import STANDARD_INPUT
from rayllm_ctl.model.kube.names import namespace_problem
from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.service import LLMService, Model
from rayllm_ctl.model.text.json_form import camel
from rayllm_ctl.model.text.problems import quoted
from rayllm_ctl.workflows.plan.catalog import check_hardware_and_release, is_gpu, show_gpu


def checked(name: str, values: Sequence[str], others: Mapping[str, Any]) -> Any:
    """What the configuration file says for a setting that is given as `values`. Raises UsageError if it is invalid.
    others: as of `other_settings`."""
    if name not in setting_fields():
        raise unknown_name(name)
    option = setting_options()[name]
    if name in PATHS and STANDARD_INPUT in values:
        raise UsageError(
            f"{name}: standard input cannot be a default of all commands", hint=f"rayllm-ctl config set {name} FILE"
        )
    if len(values) > 1 and not option.multiple:
        raise UsageError(f"{name} takes one value, not {len(values)}", hint=f"rayllm-ctl config set {name} {values[0]}")
    try:
        written = _as_yaml(name, option, values)
        read = from_yaml(name, written, option, click.get_current_context(), "")
        check_meaning(name, read, name, others)
    except UsageError as error:
        error.hints = error.hints or (values_hint(name),)
        raise
    return written


def check_together(name: str, value: Any) -> None:
    """Raise UsageError for a value with which the settings of the configuration file, valid until now, contradict each
    other. The hints are the settings to remove."""
    entries = dict(read_config_file())
    if _contradiction({key: entry.value for key, entry in entries.items()}, {}):
        return
    entries.pop(name, None)
    others = {key: entry.value for key, entry in entries.items()}
    called = {key: f"{config_path()}:{entry.line}: {key}" for key, entry in entries.items()}
    found = _contradiction({**others, name: value}, called)
    if found is None:
        return
    removable = [
        key
        for key in others
        if not _contradiction({one: value for one, value in {**others, name: value}.items() if one != key}, {})
    ]
    raise UsageError(found.message, hint=[f"rayllm-ctl config unset {key}" for key in removable] or found.hints)


def _contradiction(values: Mapping[str, Any], called: Mapping[str, str]) -> UsageError | None:
    """What is wrong with a service of these settings alone. called: what messages call a setting, if not its name."""
    fields, options, ctx = setting_fields(), setting_options(), click.get_current_context()
    read = {name: from_yaml(name, value, options[name], ctx, "") for name, value in values.items() if fields[name]}
    overrides = {fields[name]: value for name, value in read.items() if value is not AUTO}
    flags = {fields[name]: called.get(name, name) for name in read}
    try:
        check_hardware_and_release(resolve_service(None, {"model.id": "any", **overrides}, None, flags))
    except UsageError as error:
        return error
    return None


def other_settings(name: str) -> dict[str, Any]:
    """The other settings of the configuration file, valid or not, by the field that they set."""
    fields = setting_fields()
    entries = read_config_file().items()
    return {
        fields[other]: _as_flag(other, entry.value) for other, entry in entries if other != name and fields.get(other)
    }


def _as_flag(name: str, value: Any) -> Any:
    """A value of the file as its flag reads it; as it is if that fails."""
    try:
        return from_yaml(name, value, setting_options()[name], click.get_current_context(), "")
    except UsageError:
        return value


def values_hint(name: str) -> str:
    """The hint at the values that a setting may have: the command that explains its field."""
    field = setting_fields()[name].replace("replicas.fixed", "replicas")
    if not field:
        return "rayllm-ctl config set --help"
    return f"rayllm-ctl explain spec.{'.'.join(map(camel, field.split('.')))}"


def _as_yaml(name: str, option: click.Option, values: Sequence[str]) -> Any:
    if name in PATHS:  # as seen from here, not from the folder of the file
        return str(Path(values[0]).expanduser().absolute())
    if option.multiple:
        if option.type.name != "key=value":
            return list(values)
        return dict(_pair(name, one) for one in values)
    kind = {"boolean": bool, "integer": int, "float": float}.get(option.type.name)
    if kind is None:
        return values[0]
    try:
        found: Any = option.type.convert(values[0], option, None)
    except click.UsageError as error:
        raise UsageError(f"{name}: {in_our_words(error.message)}") from None
    return found


def _pair(name: str, text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UsageError(f"{name}: expected KEY=VALUE")
    return key, value


def check_meaning(name: str, value: Any, where: str, others: Mapping[str, Any]) -> None:
    """Raise UsageError for a value that no spec may have. where: what the message begins with. others: the other
    settings, by the field that they set."""
    for message, hint in _problems(name, value, others):
        raise UsageError(f"{where}: {message}", hint=hint)


def _problems(name: str, value: Any, others: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if name == "namespace" and (problem := namespace_problem(value)):
        yield f"{quoted(value)} is not a valid namespace: {problem}", ""
    if name == "gpu" and not is_gpu(value):
        try:
            show_gpu(value)
        except UsageError as error:
            yield error.message, "; ".join(error.hints)
    field = setting_fields()[name]
    if not field or field == "gateway" or value is AUTO:
        return
    service = LLMService(name="any", model=Model("any"))
    if field == "replicas.min":
        service = replaced(service, ["replicas", "max"], max(value, 1))
    if field == "load.cached_tokens" and isinstance(others.get("load.input_tokens"), int):
        service = replaced(service, ["load", "input_tokens"], others["load.input_tokens"])
    changed = replaced(service, {"replicas.fixed": "replicas.max"}.get(field, field).split("."), value)
    for found in validate(changed):
        yield found.message, found.hint
