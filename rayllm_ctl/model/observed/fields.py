"""Accessors for incomplete objects: they return an empty value instead of raising."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rayllm_ctl.model.observed.health import Object

_EMPTY: Mapping[str, Any] = {}


def at(value: Any, *path: str) -> Any:
    """The value at `path`, or None if a step is missing or not a mapping."""
    for step in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """The mapping at `path`, or an empty one."""
    found = at(value, *path)
    return found if isinstance(found, Mapping) else _EMPTY


def items(value: Any, *path: str) -> tuple[Mapping[str, Any], ...]:
    """The mappings of the list at `path`; anything else in it is left out."""
    found = at(value, *path)
    if not isinstance(found, Sequence) or isinstance(found, str):
        return ()
    return tuple(item for item in found if isinstance(item, Mapping))


def words(value: Any, *path: str) -> tuple[str, ...]:
    """The strings of the list at `path`."""
    found = at(value, *path)
    if not isinstance(found, Sequence) or isinstance(found, str):
        return ()
    return tuple(item for item in found if isinstance(item, str))


def text(value: Any, *path: str) -> str:
    """The string at `path`, or an empty one."""
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def number(value: Any, *path: str) -> float | None:
    """The number at `path`, or None. A boolean is not a number."""
    found = at(value, *path)
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def integer(value: Any, *path: str, default: int = 0) -> int:
    """The whole number at `path`, or `default`."""
    found = at(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def flag(value: Any, *path: str) -> bool:
    """Whether true stands at `path`."""
    return at(value, *path) is True


def when(value: Any, *path: str) -> datetime | None:
    """The RFC 3339 time at `path`, timezone-aware, or None."""
    found = text(value, *path)
    if not found:
        return None
    try:
        moment = datetime.fromisoformat(found)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def epoch(value: Any, *path: str) -> datetime | None:
    """The time in seconds since 1970 at `path` (as Serve writes it), or None."""
    found = number(value, *path)
    if found is None:
        return None
    try:
        return datetime.fromtimestamp(found, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def kind(value: Object) -> str:
    return text(value, "kind")


def name(value: Object) -> str:
    return text(value, "metadata", "name")


def namespace(value: Object) -> str:
    return text(value, "metadata", "namespace")


def label(value: Object, key: str) -> str:
    return text(mapping(value, "metadata", "labels"), key)


def annotation(value: Object, key: str) -> str:
    return text(mapping(value, "metadata", "annotations"), key)


def created(value: Object) -> datetime | None:
    return when(value, "metadata", "creationTimestamp")


def deleted(value: Object) -> datetime | None:
    """When the object has to be gone: the time of the request plus its grace period; None if nobody deleted it."""
    return when(value, "metadata", "deletionTimestamp")


def condition(value: Object, type_: str) -> Mapping[str, Any]:
    """The status condition of that type, or an empty mapping."""
    for found in items(value, "status", "conditions"):
        if found.get("type") == type_:
            return found
    return _EMPTY
