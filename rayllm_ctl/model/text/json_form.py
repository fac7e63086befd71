"""A dataclass of the model as plain JSON data with camelCase keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any

OMIT_NONE = {"omit-none": True}
"""Metadata of a dataclass field that has no key where its value is None."""


def json_key(name: str, *, formerly: str = "") -> dict[str, str]:
    """Metadata of a dataclass field whose key is not its name in camelCase, such as one with the unit of its value.

    formerly: a key that readers of earlier versions know, which holds the same value.
    """
    return {"key": name, "formerly": formerly}


_SPELLED = {"kv_cache_gib": "kvCacheGiB", "max_memory_per_gpu": "maxMemoryPerGPU"}


def camel(name: str) -> str:
    """snake_case as camelCase."""
    if name in _SPELLED:
        return _SPELLED[name]
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def key_of(field: dataclasses.Field[Any]) -> str:
    """The key of a dataclass field."""
    return field.metadata.get("key") or camel(field.name)


def field_keys(field: dataclasses.Field[Any]) -> tuple[str, ...]:
    """The key of a dataclass field, and the one that it had before, if any."""
    before = field.metadata.get("formerly")
    return (key_of(field), before) if before else (key_of(field),)


def rfc3339(time: datetime) -> str:
    """RFC 3339 in UTC, as the Kubernetes API writes times, with fractions of a second if there are any."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def to_json(value: Any) -> Any:
    """Plain JSON data: dataclasses become mappings with camelCase keys, tuples lists, times RFC 3339 text in UTC.

    Mappings keep their keys (they are names, such as engine arguments). Numbers have 12 digits: the last ones of a sum
    differ between versions of Python (3.12 adds floats more exactly), and equal input is to give equal bytes.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            key: to_json(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if not (field.metadata.get("omit-none") and getattr(value, field.name) is None)
            for key in field_keys(field)
        }
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, float):
        return float(f"{value:.12g}")
    return value
