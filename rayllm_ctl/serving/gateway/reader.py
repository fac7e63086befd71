"""Strict reading of plain JSON values: every error names the path of the field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class SettingsError(ValueError):
    """A value of the settings is invalid; the message begins with its path."""


def fields(value: object, path: str, known: Mapping[str, Any] | set[str]) -> dict[str, Any]:
    """`value` as a mapping with known fields alone."""
    if not isinstance(value, dict):
        raise SettingsError(f"{path}: must be a mapping, not {kind(value)}")
    for name in value:
        if name not in known:
            raise SettingsError(f"{path}.{name}: unknown field; known are {', '.join(sorted(known))}")
    return value


def kind(value: object) -> str:
    """What a JSON value is, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    return {int: "an integer", float: "a number", str: "a string", list: "a list", dict: "a mapping"}[type(value)]


def text(value: object, path: str) -> str:
    """A string that is not empty."""
    if not isinstance(value, str):
        raise SettingsError(f"{path}: must be a string, not {kind(value)}")
    if not value:
        raise SettingsError(f"{path}: must not be empty")
    return value


def boolean(value: object, path: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise SettingsError(f"{path}: must be a boolean, not {kind(value)}")
    return value


def integer(value: object, path: str, least: int = 0) -> int:
    """An integer; booleans and 1.0 are none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise SettingsError(f"{path}: must be an integer, not {kind(value)}")
    if value < least:
        raise SettingsError(f"{path}: {value} is less than {least}")
    return value


def seconds(value: object, path: str) -> float:
    """A positive number of seconds."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise SettingsError(f"{path}: must be a number of seconds, not {kind(value)}")
    if not 0 < value < 1e9:
        raise SettingsError(f"{path}: {value} is not a positive number of seconds")
    return float(value)


def choice(value: object, path: str, values: tuple[str, ...]) -> str:
    """One of `values`."""
    if not isinstance(value, str) or value not in values:
        raise SettingsError(f"{path}: must be {' or '.join(values)}")
    return value


def items(value: object, path: str, read: Callable[[object, str], T]) -> tuple[T, ...]:
    """A list, each item read by `read`."""
    if not isinstance(value, list):
        raise SettingsError(f"{path}: must be a list, not {kind(value)}")
    return tuple(read(item, f"{path}[{place}]") for place, item in enumerate(value))


def optional(value: object, path: str, read: Callable[[object, str], T]) -> T | None:
    """What `read` makes of the value; None for null."""
    return None if value is None else read(value, path)
