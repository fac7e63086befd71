"""The JSON schema of the spec file, for editors and CI; scripts/spec_schema.py writes it into docs/."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.form import Unit
from rayllm_ctl.model.spec.service import API_VERSION, LLMService
from rayllm_ctl.model.text.json_form import camel
from rayllm_ctl.model.text.lengths import DISTRIBUTION
from rayllm_ctl.specfile.crd.constraints import LARGEST_INTEGER, UNITS, Constraints
from rayllm_ctl.specfile.crd.limits import limits_of
from rayllm_ctl.specfile.form import Field, element_of, fields_of, metadata_fields, spec_fields

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_DURATION = {"type": "string", "pattern": r"^(0|(\d+(\.\d+)?(ms|h|m|s))+)$"}


def schema(kind: type[LLMService | BatchJob] = LLMService) -> dict[str, Any]:
    """The schema (draft 2020-12) of a kind, from the annotations that the reader follows."""
    spec = _section(kind, spec_fields(kind))
    if kind is LLMService:
        spec |= {"oneOf": [{"required": ["model"]}, {"required": ["models"]}]}
    document = _object(
        {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": kind.__name__},
            "metadata": _section(kind, metadata_fields(kind)),
            "spec": spec,
        },
        required=["apiVersion", "kind", "metadata", "spec"],
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind.__name__,
        "description": kind.__doc__,
        **document,
    }


def text(kind: type[LLMService | BatchJob] = LLMService) -> str:
    """The schema as the file in docs/ contains it."""
    return json.dumps(schema(kind), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _section(kind: type, fields: Mapping[str, Field]) -> dict[str, Any]:
    """The schema of these fields of a dataclass."""
    section = _object(
        {key: _field(field, limits_of(kind, field.name)) for key, field in fields.items()},
        required=[key for key, field in fields.items() if field.required],
    )
    exclusive = [
        {"not": {"required": [key, camel(name)], "properties": {key: {"not": {"type": "null"}}}}}
        for key, field in fields.items()
        for name in field.instead
    ]
    return section | {"allOf": exclusive} if exclusive else section


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": required}


def _field(field: Field, limits: Constraints) -> dict[str, Any]:
    kind = _kind(field.kind, {**UNITS[field.unit], **limits} if field.unit else limits)
    if field.wrapped:
        kind = _object({field.wrapped: kind}, required=[field.wrapped])
    options = [kind]
    if field.unit is Unit.SECONDS:
        options.append(_DURATION)
    if field.unit is Unit.LENGTHS:
        options.append({"type": "string", "pattern": f"^(?:{DISTRIBUTION.expression})$"})
    if field.unit is Unit.QUANTITY:
        options.append({"type": "number"})
    if field.nullable or field.may_be_empty:
        options.append({"type": "null"})
    described = {"description": field.description} if field.description else {}
    return {**described, **(options[0] if len(options) == 1 else {"anyOf": options})}


def _kind(kind: Any, limits: Constraints) -> dict[str, Any]:
    if kind is Any:
        return {}
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        return {"description": (kind.__doc__ or "").partition("\n\n")[0], **_section(kind, fields_of(kind))}
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    element = element_of(kind)
    if element is None:
        return {"type": _TYPES[kind], **(_range(kind, limits) if kind in (int, float) else {})}
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _kind(element, limits.get("items") or {})}
    return {"type": "object", "additionalProperties": _kind(element, limits.get("values") or {})}


def _range(kind: type, limits: Constraints) -> dict[str, float]:
    """The range of a number, as in the CustomResourceDefinitions. Their dialect marks a bound as exclusive, that of
    JSON schemas has a keyword for such bounds."""
    least, most = limits.get("minimum"), limits.get("maximum", LARGEST_INTEGER if kind is int else None)
    lower = "exclusiveMinimum" if limits.get("exclusiveMinimum") else "minimum"
    bounds = {lower: least, "maximum": most}
    return {keyword: bound for keyword, bound in bounds.items() if bound is not None}
