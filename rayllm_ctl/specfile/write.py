"""An LLMService as the canonical spec file: what differs from the defaults, in the order of the schema."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.jsonform import camel
from rayllm_ctl.model.quantities import parse_duration
from rayllm_ctl.model.service import API_VERSION, KIND, LLMService, Volume
from rayllm_ctl.model.yamltext import dump

_SECONDS = frozenset({"upscale_delay", "downscale_delay", "look_back_period", "ttft", "tpot"})
_SOURCES = {
    "persistent_volume_claim": ("persistentVolumeClaim", "claimName"),
    "host_path": ("hostPath", "path"),
    "config_map": ("configMap", "name"),
    "secret": ("secret", "secretName"),
}


def to_document(service: LLMService) -> dict[str, Any]:
    """The spec file of `service` as plain data. Reading it back gives an equal service."""
    metadata = {"name": service.name}
    if service.namespace is not None:
        metadata["namespace"] = service.namespace
    sections = [field.name for field in dataclasses.fields(service) if field.name not in ("name", "namespace")]
    spec = {camel(name): _section(getattr(service, name)) for name in sections}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": {name: section for name, section in spec.items() if section},
    }


def to_yaml(service: LLMService) -> str:
    """The spec file of `service` as YAML, always the same bytes for equal services."""
    return dump(to_document(service), sort=False)


def _section(section: Any) -> dict[str, Any]:
    if isinstance(section, Volume):
        return _volume(section)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if value != _default(field):
            values[camel(field.name)] = _value(field.name, value)
    return values


def _value(name: str, value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return _section(value)
    if isinstance(value, tuple):
        return [_section(item) for item in value]
    if isinstance(value, Mapping):
        return dict(sorted(value.items()))
    return _duration(value) if name in _SECONDS else value


def _volume(volume: Volume) -> dict[str, Any]:
    values: dict[str, Any] = {"name": volume.name, "mountPath": volume.mount_path}
    if not volume.read_only:
        values["readOnly"] = False
    for field, (key, inner) in _SOURCES.items():
        source = getattr(volume, field)
        if source is not None:
            values[key] = {inner: source}
    return values


def _duration(seconds: float) -> str | float:
    """Seconds as a Go duration, where that says exactly the same."""
    text = f"{seconds:g}s"
    try:
        return text if parse_duration(text) == seconds else seconds
    except ValueError:
        return seconds


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else dataclasses.MISSING
