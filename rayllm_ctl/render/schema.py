"""Rendered objects against the schemas of their kinds, offline: what the API server would reject is found here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rayllm_ctl.model.kube.kuberay import GROUP_NAME
from rayllm_ctl.model.kube.kuberay_versions import DEFAULT
from rayllm_ctl.model.kube.names import did_you_mean
from rayllm_ctl.model.text import problems as model
from rayllm_ctl.model.text.problems import Problem

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "integer": (int,),
    "number": (int, float), "null": (type(None),),
}  # fmt: skip

UNKNOWN_FIELD = "unknown field"


def schema_problems(manifest: Mapping[str, Any], kuberay: str = DEFAULT) -> list[Problem]:
    """Every field that the API server would reject: unknown, missing, of a wrong type, out of range.

    kuberay: one of model.kube.kuberay_versions.VERSIONS. Paths lead from the object. Objects of kinds without a
    schema pass.
    """
    name = f"{manifest['apiVersion']} {manifest['kind']}"
    if manifest["apiVersion"].partition("/")[0] == GROUP_NAME:
        name = f"{name} {kuberay}"
    schemas = _schemas()
    root = schemas["kinds"].get(name)
    return [] if root is None else list(_problems(dict(manifest), root, schemas["parts"], ()))


def part_problems(value: Any, place: Sequence[str], at: model.Path, kuberay: str = DEFAULT) -> list[Problem]:
    """What the API server would reject of `value` at `place` in a RayService; paths lead from `at`.

    place: fields from the object's root, without positions in lists.
    """
    schemas = _schemas()
    parts: _Parts = schemas["parts"]
    schema: _Schema = schemas["kinds"][f"ray.io/v1 RayService {kuberay}"]
    for name in place:
        schema = _written_out(schema, parts)
        schema = _written_out(schema.get("items", schema), parts)["properties"][name]
    return list(_problems(value, schema, parts, at))


@cache
def _schemas() -> Mapping[str, Any]:
    text = (Path(__file__).parent / "schemas" / "manifests.json").read_text(encoding="utf-8")
    schemas: dict[str, Any] = json.loads(text)
    return schemas


_Schema = str | Mapping[str, Any]
"""A schema, or the name of one that is stored once."""

_Parts = Mapping[str, Mapping[str, Any]]


def _written_out(schema: _Schema, parts: _Parts) -> Mapping[str, Any]:
    return parts[schema] if isinstance(schema, str) else schema


def _problems(value: Any, schema: _Schema, parts: _Parts, path: model.Path) -> Iterator[Problem]:
    """What of `value` does not match `schema`: the keywords that scripts/manifest_schemas.py writes.

    A validator of the whole of JSON Schema would take a fifth of the time that rendering takes, to be imported.
    """
    schema = _written_out(schema, parts)
    wanted = schema.get("type", list(_TYPES))
    names = wanted if isinstance(wanted, list) else [wanted]
    fitting = any(isinstance(value, _TYPES[name]) for name in names)
    if not fitting or (isinstance(value, bool) and "boolean" not in names):
        yield Problem(path, f"{_shown(value)} is not of type {' or '.join(names)}")
        return
    if value not in schema.get("enum", [value]):
        choices = ", ".join(map(str, schema["enum"]))
        hint = did_you_mean(value, map(str, schema["enum"])) if isinstance(value, str) else ""
        yield Problem(path, f"{_shown(value)} is not supported (supported values: {choices})", hint)
    if isinstance(value, dict):
        yield from _fields(value, schema, parts, path)
    elif isinstance(value, list):
        yield from _items(value, schema, parts, path)
    elif isinstance(value, str):
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
            yield Problem(path, f"text of {len(value)} characters is too short or too long")
        if not re.search(schema.get("pattern", ""), value):
            yield Problem(path, f"{_shown(value)} does not match {schema['pattern']}")
    elif value is not None and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield Problem(path, f"{value} is out of range")


def _fields(value: Mapping[str, Any], schema: Mapping[str, Any], parts: _Parts, path: model.Path) -> Iterator[Problem]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield Problem((*path, name), "required field is missing")
    for name, item in value.items():
        known = properties.get(name, others)
        if known is False:
            yield Problem((*path, name), UNKNOWN_FIELD, did_you_mean(name, properties))
        elif known is not True:
            yield from _problems(item, known, parts, (*path, name))


def _items(value: Sequence[Any], schema: Mapping[str, Any], parts: _Parts, path: model.Path) -> Iterator[Problem]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield Problem(path, f"{len(value)} items are too few or too many")
    keys = schema.get("keys", {})
    seen: list[list[Any]] = []
    for position, item in enumerate(value):
        yield from _problems(item, schema.get("items", {}), parts, (*path, position))
        if keys and isinstance(item, dict):
            identity = [item.get(key, default) for key, default in keys.items()]
            if identity in seen:
                shown = ", ".join(f"{key} {_shown(part)}" for key, part in zip(keys, identity, strict=True))
                yield Problem((*path, position), f"duplicate item ({shown})")
            seen.append(identity)


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else "a string"
