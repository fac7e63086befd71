"""Kinds of fields of requests: each checks a value strictly and describes itself as a JSON schema.

Strict means that no type stands in for another: neither "0.5" nor true is a number, and 1.0 is not an integer. Null is
the same as an absent field, as it is for the engines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rayllm_ctl.serving.gateway.errors import Rejected, invalid

INT64 = 2**63
Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A field: `check(value, path)` raises Rejected."""

    check: Callable[[Any, str], None]
    schema: Schema
    sampling: bool = False
    """Whether it is an option of sampling, which `validation.parameters` has to allow."""


def wrong(expected: str, path: str) -> Rejected:
    """The value of a field has the wrong type."""
    return invalid(f"{path}: must be {expected}", path, code="invalid_type")


def number(
    least: float | None = None, most: float | None = None, *, above: float | None = None, sampling: bool = True
) -> Field:
    """A number between `least` and `most`, or greater than `above`."""

    def check(value: Any, path: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong("a number", path)
        if (
            (least is not None and value < least)
            or (most is not None and value > most)
            or (above is not None and value <= above)
            or not -1e300 < value < 1e300
        ):
            raise invalid(f"{path}: must be {_range(least, most, above)}", path)

    schema: Schema = {"type": "number", "minimum": least, "maximum": most, "exclusiveMinimum": above}
    return Field(check, _given(schema), sampling)


def integer(least: int = -INT64, most: int = INT64 - 1, *, sampling: bool = True) -> Field:
    """An integer between `least` and `most`."""

    def check(value: Any, path: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong("an integer", path)
        if not least <= value <= most:
            shown = _range(None if least == -INT64 else least, None if most == INT64 - 1 else most, None)
            raise invalid(f"{path}: must be {shown}", path)

    return Field(check, {"type": "integer", "minimum": least, "maximum": most}, sampling)


def boolean(*, sampling: bool = False) -> Field:
    """True or false."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, bool):
            raise wrong("a boolean", path)

    return Field(check, {"type": "boolean"}, sampling)


def string(most: int | None = None, *, least: int = 0, sampling: bool = False) -> Field:
    """A string with at least `least` and at most `most` characters."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, str):
            raise wrong("a string", path)
        if len(value) < least:
            raise invalid(f"{path}: must not be empty", path)
        if most is not None and len(value) > most:
            raise invalid(f"{path}: must have at most {most} characters", path)

    return Field(check, _given({"type": "string", "minLength": least or None, "maxLength": most}), sampling)


def one_of(*values: str, sampling: bool = False) -> Field:
    """One of some words."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, str):
            raise wrong("a string", path)
        if value not in values:
            raise invalid(f"{path}: must be one of {', '.join(values)}", path)

    return Field(check, {"type": "string", "enum": list(values)}, sampling)


def array(item: Field, *, least: int = 0, most: int | None = None, sampling: bool = False) -> Field:
    """A list of items of one kind."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise wrong("an array", path)
        if len(value) < least:
            raise invalid(f"{path}: must not be empty", path)
        if most is not None and len(value) > most:
            raise invalid(f"{path}: must have at most {most} items", path)
        for place, each in enumerate(value):
            item.check(each, f"{path}[{place}]")

    schema: Schema = {"type": "array", "items": item.schema, "minItems": least or None, "maxItems": most}
    return Field(check, _given(schema), sampling)


def mapping(
    known: Mapping[str, Field] | None = None, required: tuple[str, ...] = (), *, sampling: bool = False
) -> Field:
    """An object; fields that are not in `known` are left to the engine."""
    fields = known or {}

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise wrong("an object", path)
        check_fields(value, fields, required, path)

    schema: Schema = {"type": "object"}
    if fields:
        schema["properties"] = {name: field.schema for name, field in fields.items()}
    if required:
        schema["required"] = list(required)
    return Field(check, schema, sampling)


def either(expected: str, *kinds: tuple[type, Field], sampling: bool = False) -> Field:
    """A value of one of some types, each with its own rules."""

    def check(value: Any, path: str) -> None:
        for kind, field in kinds:
            if isinstance(value, kind):
                field.check(value, path)
                return
        raise wrong(expected, path)

    return Field(check, {"anyOf": [field.schema for _, field in kinds]}, sampling)


def check_fields(value: dict[str, Any], fields: Mapping[str, Field], required: tuple[str, ...], path: str = "") -> None:
    """Check the fields of an object that are known, and that the required ones are there."""
    prefix = f"{path}." if path else ""
    for name in required:
        if value.get(name) is None:
            raise invalid(f"{prefix}{name}: required", f"{prefix}{name}", code="missing_required_parameter")
    for name, item in value.items():
        field = fields.get(name)
        if field is not None and item is not None:
            field.check(item, f"{prefix}{name}")


def _range(least: float | None, most: float | None, above: float | None) -> str:
    if least is not None and most is not None:
        return f"between {least} and {most}"
    if above is not None:
        return f"greater than {above}" + (f" and at most {most}" if most is not None else "")
    if least is not None:
        return f"at least {least}"
    return f"at most {most}" if most is not None else "a number of ordinary size"


def _given(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if value is not None}
