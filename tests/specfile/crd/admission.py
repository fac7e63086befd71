"""What an API server says about an object with field validation "Strict": a stand-in, from jsonschema and cel-python.

The order is that of k8s.io/apiextensions-apiserver: null where it is not allowed is dropped, unknown fields are
rejected, then the schema, lists that are maps or sets, and the rules are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import celpy
import jsonschema_rs
from celpy.adapter import json_to_cel
from celpy.evaluation import CELEvalError

Schema = Mapping[str, Any]


class Admission:
    """Looks at objects of a CustomResourceDefinition."""

    def __init__(self, definition: Schema) -> None:
        self._schema: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        self._validator = jsonschema_rs.validator_for(_as_json_schema(self._schema))

    def rejects(self, document: Mapping[str, Any]) -> bool:
        """Whether the object has a problem, without looking for others."""
        whole = _without_null(document, self._schema)
        if not self._validator.is_valid(whole):
            return True
        return any(True for find in (_duplicates, _broken) for _ in find(whole, self._schema, ""))

    def problems(self, document: Mapping[str, Any]) -> list[str]:
        """Why the object is rejected; empty if it is accepted."""
        whole = _without_null(document, self._schema)
        found = [f"{_dotted(error.instance_path)}: {error.message}" for error in self._validator.iter_errors(whole)]
        # Rules take values of the right types for granted.
        return found or [*_duplicates(whole, self._schema, ""), *_broken(whole, self._schema, "")]


def _without_null(value: Any, schema: Schema) -> Any:
    if isinstance(value, Mapping):
        kept = {key: (item, _below(schema, key)) for key, item in value.items()}
        return {
            key: _without_null(item, below)
            for key, (item, below) in kept.items()
            if item is not None or not below or below.get("nullable") or "type" not in below
        }
    return [_without_null(item, schema.get("items", {})) for item in value] if isinstance(value, list) else value


def _below(schema: Schema, key: str) -> Schema:
    found: Schema = schema.get("properties", {}).get(key) or schema.get("additionalProperties") or {}
    return found


def _seen(value: Any, schema: Schema) -> Any:
    """What rules see of a value: of free-form data only what the schema names."""
    if isinstance(value, Mapping):
        free = "x-kubernetes-preserve-unknown-fields" in schema
        return {key: _seen(item, _below(schema, key)) for key, item in value.items() if _below(schema, key) or not free}
    return [_seen(item, schema.get("items", {})) for item in value] if isinstance(value, list) else value


def _as_json_schema(schema: Schema) -> dict[str, Any]:
    """A structural schema as draft 2020-12, closed against unknown fields."""
    found = {key: value for key, value in schema.items() if not key.startswith("x-") and key != "nullable"}
    if schema.get("x-kubernetes-int-or-string"):
        found["type"] = ["integer", "string"]
    if schema.get("nullable"):
        found = {"anyOf": [{"type": "null"}, {**found, "type": found.get("type", ["integer", "string"])}]}
    if found.pop("exclusiveMinimum", False):
        found["exclusiveMinimum"] = found.pop("minimum")
    if "properties" in found:
        found["properties"] = {key: _as_json_schema(value) for key, value in found["properties"].items()}
        # Every API server knows metadata.
        found["additionalProperties"] = "x-kubernetes-preserve-unknown-fields" in schema
        found["properties"].update({"metadata": {"type": "object"}} if "metadata" in found["properties"] else {})
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), Mapping):
            found[key] = _as_json_schema(found[key])
    return found


def _walk(value: Any, schema: Schema, at: str) -> Iterator[tuple[Any, Schema, str]]:
    yield value, schema, at
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(item, _below(schema, key), f"{at}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, schema.get("items", {}), f"{at}[{index}]")


def _duplicates(document: Any, schema: Schema, at: str) -> Iterator[str]:
    for value, part, place in _walk(document, schema, at):
        kind = part.get("x-kubernetes-list-type")
        keys = part.get("x-kubernetes-list-map-keys", ())
        if kind in ("map", "set"):
            known = [tuple(item[key] for key in keys) if kind == "map" else item for item in value]
            if len(set(known)) < len(known):
                yield f"{place}: duplicate value"


def _broken(document: Any, schema: Schema, at: str) -> Iterator[str]:
    for value, part, place in _walk(document, schema, at):
        rules = part.get("x-kubernetes-validations", ())
        own = json_to_cel(_seen(value, part)) if rules else None
        for rule in rules:
            try:
                holds = bool(_program(rule["rule"]).evaluate({"self": own}))
            except CELEvalError as error:
                yield f"{place}: {error} evaluating {rule['rule']}"
                continue
            if not holds:
                yield f"{place}{rule.get('fieldPath', '')}: {rule['message']}"


@cache
def _program(rule: str) -> celpy.Runner:
    environment = celpy.Environment()
    return environment.program(environment.compile(rule))


def _dotted(path: list[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
