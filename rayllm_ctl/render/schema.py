"""Rendered objects against the schema of their kind, offline."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rayllm_ctl.errors import UserError

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "integer": (int,),
    "number": (int, float), "null": (type(None),),
}  # fmt: skip


def check(manifest: Mapping[str, Any], schema_name: str) -> None:
    """Raise UserError with every field that the API server would reject: unknown, of a wrong type, missing.

    schema_name: one of the files in `schemas`, without its suffix.

    Input is checked long before, so this is a bug in the templates, found before a cluster could.
    """
    kind = str(manifest["kind"])
    schema = _schema(schema_name)
    problems = list(_problems(manifest, schema, schema.get("$defs", {}), kind))
    if problems:
        raise UserError(
            f"the rendered {kind} does not match its schema:\n" + "\n".join(problems),
            hint="this is a bug in rayllm-ctl; please report it with the spec file or the flags",
        )


def problems_of_part(value: Any, schema_name: str, place: Sequence[str], path: str) -> list[str]:
    """What the API server would reject of `value` at `place` in a manifest, named by `path`.

    place: fields from the manifest's root, without positions in lists.
    """
    schema: Mapping[str, Any] = _schema(schema_name)
    parts = schema.get("$defs", {})
    for name in place:
        schema = _resolved(schema, parts)
        schema = _resolved(schema.get("items", schema), parts)["properties"][name]
    return list(_problems(value, schema, parts, path))


@cache
def _schema(name: str) -> dict[str, Any]:
    text = (Path(__file__).parent / "schemas" / f"{name}.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _resolved(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        schema = parts[schema["$ref"].removeprefix("#/$defs/")]
    return schema


def _problems(value: Any, schema: Mapping[str, Any], parts: Mapping[str, Any], path: str) -> Iterator[str]:
    """What of `value` does not match `schema`: the keywords that scripts/crd_schema.py writes.

    A validator of the whole of JSON Schema would take a fifth of the time that rendering takes, to be imported.
    """
    schema = _resolved(schema, parts)
    wanted = schema.get("type", list(_TYPES))
    names = wanted if isinstance(wanted, list) else [wanted]
    fitting = any(isinstance(value, _TYPES[name]) for name in names)
    if not fitting or (isinstance(value, bool) and "boolean" not in names):
        yield f"{path}: {json.dumps(value)} is not of type {' or '.join(names)}"
        return
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        yield f"{path}: {json.dumps(value)} is not one of {json.dumps(schema.get('enum', [schema.get('const')]))}"
    if isinstance(value, dict):
        yield from _fields(value, schema, parts, path)
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{path}: {len(value)} items are too few or too many"
        for position, item in enumerate(value):
            yield from _problems(item, schema.get("items", {}), parts, f"{path}[{position}]")
    elif isinstance(value, str):
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
            yield f"{path}: text of {len(value)} characters is too short or too long"
        if not re.search(schema.get("pattern", ""), value):
            yield f"{path}: {json.dumps(value)} does not match {schema['pattern']}"
    elif value is not None and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{path}: {value} is out of range"


def _fields(value: Mapping[str, Any], schema: Mapping[str, Any], parts: Mapping[str, Any], path: str) -> Iterator[str]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}: is required"
    for name, item in value.items():
        known = properties.get(name, others)
        if known is False:
            yield f"{path}.{name}: unknown field"
        elif isinstance(known, Mapping):
            yield from _problems(item, known, parts, f"{path}.{name}")
