"""Settings below a spec: what flags and the spec file say takes precedence over the environment and the
configuration file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from rayllm_ctl.cli.settings.names import setting_fields
from rayllm_ctl.cli.settings.taken import SettingValue, taken_settings
from rayllm_ctl.cli.values import AUTO
from rayllm_ctl.model.text.json_form import camel

_REPLICAS = ("replicas.fixed", "replicas.min", "replicas.max")

_OF_PODS = ("engine.image", "model.token_secret", "storage.", "scheduling.", "resources.")
"""Fields that a batch job on an existing RayCluster does not have."""

_SHARED = ("engine.image", "engine.vllm_version", "storage.", "scheduling.", "security.", "gateway")
"""Fields that the models of a service share; each has the others for itself."""


def below_spec(
    file: Path | None,
    given: Mapping[str, Any],
    flags: Mapping[str, str],
    known: Collection[str] | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """`given` (field -> value of a flag) with the settings of the current command below it, and `flags` (field ->
    what messages call it) with their variables and lines.

    A setting has no effect on a field that the spec file sets, or that contradicts what a flag or the file says.
    known: the fields that apply at all.
    """
    found = applied_settings(file, given, known)
    return (
        {**{field: one.value for field, one in found.items()}, **given},
        {**flags, **{field: one.label for field, one in found.items()}},
    )


def applied_settings(
    file: Path | None, given: Mapping[str, Any], known: Collection[str] | None = None
) -> dict[str, SettingValue]:
    """The settings of the current command, by the field that they set, that have an effect; as for `below_spec`."""
    settings = _spec_settings()
    if not settings:
        return {}
    in_file = _fields_of(file)

    def is_given(field: str) -> bool:
        return field in given or in_file(field)

    def says(field: str, value: str) -> bool:
        return given.get(field) == value or in_file(field, value)

    fields = {field for field in settings if not is_given(field) and (known is None or field in known)}
    fields -= {field for field in fields if settings[field].value is AUTO}
    if any(map(is_given, (*_REPLICAS, "replicas.count"))):
        fields -= set(_REPLICAS)
    elif any(settings[field].from_variable for field in fields.intersection(_REPLICAS)):
        fields -= {field for field in _REPLICAS if field in settings and not settings[field].from_variable}
    if says("accelerator.kind", "cpu"):
        fields.discard("accelerator.gpu")
    if is_given("accelerator.gpu"):
        fields.discard("accelerator.kind")
    if is_given("cluster"):
        fields -= {field for field in fields if field.startswith(_OF_PODS)}
    if in_file("models"):
        fields = {field for field in fields if field.startswith(_SHARED)}
    return {field: settings[field] for field in settings if field in fields}


def namespace_below(namespace: str | None, in_file: str | None) -> str | None:
    """`namespace` of the command line, or of a setting where the spec file has none; None: that of the spec file."""
    return None if in_file is not None and "namespace" in taken_settings() else namespace


def without_effect(file: Path | None, given: Mapping[str, Any]) -> set[str]:
    """The names of the settings that flags (field -> value) or the spec file override. UsageError for a file that
    cannot be read."""
    applied = applied_settings(file, given)
    names = {one.name for field, one in _spec_settings().items() if field not in applied}
    if file is not None:
        from rayllm_ctl.specfile.load import namespace_of_file

        names |= set() if namespace_of_file(file) is None else {"namespace"}
    return names


def _fields_of(file: Path | None) -> Callable[..., bool]:
    """Whether a spec file sets a field, or sets it to a value."""
    if file is None:
        return lambda field, value=None: False  # noqa: ARG005
    from rayllm_ctl.specfile.load import spec_of_file

    spec = spec_of_file(file)

    def sets(field: str, value: Any = None) -> bool:
        node: Any = spec
        for part in field.split("."):
            node = node.get(camel(part)) if isinstance(node, Mapping) else None
        return node is not None and (value is None or node == value)

    return sets


def _spec_settings() -> dict[str, SettingValue]:
    """The settings that the current command took, by the field of the spec that they set."""
    found = {setting_fields()[one.name]: one for one in taken_settings().values()}
    found.pop("", None)
    return found
