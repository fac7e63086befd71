"""A field of the spec file as `explain` shows it, in the form of kubectl explain."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.model.spec.service import API_VERSION
from rayllm_ctl.model.text.explanation import FieldExplanation

_WIDTH = 80


def explanation(field: FieldExplanation, flags: Mapping[str, str], kind: str) -> Iterator[str]:
    """The lines for one field and, of a section, its fields. flags: the flag of each field by its dotted path.

    kind: of the spec file.
    """
    yield f"KIND:       {kind}"
    yield f"VERSION:    {API_VERSION}"
    yield ""
    if field.path:
        yield f"FIELD: {_heading(field)}"
        yield from (f"{label}: {value}" for label, value in _facts(field, flags))
        yield ""
    yield "DESCRIPTION:"
    yield from _wrapped(field.description, "    ")
    if field.fields:
        yield ""
        yield "FIELDS:"
        for child in field.fields:
            yield f"  {_heading(child)}"
            yield from (f"  {label.lower()}: {value}" for label, value in _facts(child, flags))
            yield from _wrapped(child.description, "    ")
            yield ""


def explanation_document(field: FieldExplanation, flags: Mapping[str, str], *, recursive: bool) -> dict[str, Any]:
    """A field as JSON data. recursive: with the fields of its fields."""
    return {
        "path": field.path,
        "type": field.type,
        "description": field.description,
        "required": field.required,
        "default": field.default or None,
        "values": list(field.values),
        "flag": flags.get(field.attribute),
        "fields": [
            explanation_document(one if recursive else replace(one, fields=()), flags, recursive=recursive)
            for one in field.fields
        ],
    }


def tree(field: FieldExplanation, indent: str = "") -> Iterator[str]:
    """The names and types of all fields below `field`."""
    for child in field.fields:
        yield f"{indent}{_heading(child)}"
        yield from tree(child, f"{indent}  ")


def _heading(field: FieldExplanation) -> str:
    return f"{field.name} <{field.type}>{' -required-' if field.required else ''}"


def _facts(field: FieldExplanation, flags: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if field.values:
        yield "ENUM", ", ".join(field.values)
    if field.default:
        yield "DEFAULT", field.default
    if field.attribute in flags:
        yield "FLAG", flags[field.attribute]


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)
