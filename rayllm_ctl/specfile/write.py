"""A service or a batch job as the canonical spec file: what differs from the defaults, in the order of the schema."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rayllm_ctl.model.kube.quantities import parse_duration
from rayllm_ctl.model.spec.form import Unit
from rayllm_ctl.model.spec.service import API_VERSION, LLMService
from rayllm_ctl.model.text.yaml_text import dump
from rayllm_ctl.specfile.form import Field, fields_of, metadata_fields, spec_fields

if TYPE_CHECKING:
    from rayllm_ctl.model.spec.batch import BatchJob


def to_document(service: LLMService | BatchJob) -> dict[str, Any]:
    """The spec file of `service` as plain data. Reading it back gives an equal service."""
    kind = type(service)
    return {
        "apiVersion": API_VERSION,
        "kind": kind.__name__,
        "metadata": _fields(service, metadata_fields(kind)),
        "spec": _fields(service, spec_fields(kind)),
    }


def to_yaml(service: LLMService | BatchJob) -> str:
    """The spec file of `service` as YAML, always the same bytes for equal services."""
    return dump(to_document(service), sort=False)


def _fields(section: Any, fields: Mapping[str, Field]) -> dict[str, Any]:
    defaults = {field.name: _default(field) for field in dataclasses.fields(section)}
    values = ((key, field, getattr(section, field.name)) for key, field in fields.items())
    left_out = {name for field in fields.values() if field.instead for name in _left_out(section, field)}
    return {
        key: _value(field, value)
        for key, field, value in values
        if value != defaults[field.name] and field.name not in left_out
    }


def _left_out(section: Any, field: Field) -> tuple[str, ...]:
    """The fields in place of which `field` stands; or itself, where they were changed since it was read."""
    value = getattr(section, field.name)
    if value is None or all(getattr(section, name) == value for name in field.instead):
        return () if value is None else field.instead
    return (field.name,)


def _value(field: Field, value: Any) -> Any:
    if field.wrapped:
        return {field.wrapped: value}
    if field.unit is Unit.SECONDS and value is not None:
        return _duration(value)
    if isinstance(value, tuple):
        return [_section(item) if dataclasses.is_dataclass(item) else item for item in value]
    if isinstance(value, Mapping):
        return dict(sorted(value.items()))
    return _section(value) if dataclasses.is_dataclass(value) else value


def _section(section: object) -> dict[str, Any]:
    kind: type = type(section)
    return _fields(section, fields_of(kind))


def _duration(seconds: float) -> str | float:
    """Seconds as a Go duration, where that says exactly the same."""
    if not math.isfinite(seconds):
        return seconds
    short, exact = f"{seconds:g}s", f"{Decimal(repr(seconds)):f}s"
    try:
        return short if parse_duration(short) == seconds else exact
    except ValueError:  # 1e-05
        return exact if seconds >= 0 else seconds


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else dataclasses.MISSING
