"""A dataclass of the model as plain JSON data with camelCase keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any

OMIT_NONE = {"omit-none": True}
"""Metadata of a dataclass field that has no key where its value is None."""

_SPELLED = {"kv_cache_gib": "kvCacheGiB", "max_memory_per_gpu": "maxMemoryPerGPU"}


def camel(name: str) -> str:
    """snake_case as camelCase."""
    if name in _SPELLED:
        return _SPELLED[name]
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def to_json(value: Any) -> Any:
    """Plain JSON data: dataclasses become mappings with camelCase keys, tuples lists, times ISO 8601 text.

    Mappings keep their keys (they are names, such as engine arguments). Numbers have 12 digits: the last ones of a sum
    differ between versions of Python (3.12 adds floats more exactly), and equal input is to give equal bytes.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            camel(field.name): to_json(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if not (field.metadata.get("omit-none") and getattr(value, field.name) is None)
        }
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float):
        return float(f"{value:.12g}")
    return value
