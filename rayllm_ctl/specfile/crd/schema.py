"""A section of the spec as a structural schema (apiextensions.k8s.io/v1), from the annotations that the reader follows.

It has no `default`: what a user leaves out stays out, so that the object says what the user said, and the planner
decides. It has no `nullable` but where null is a value of its own: the API server drops any other null, which is how
the reader takes it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from rayllm_ctl.specfile.crd.constraints import FREE, ITEMS, LARGEST_INTEGER, PROPERTIES, TEXT, UNITS, Constraints
from rayllm_ctl.specfile.crd.limits import SHAPES, limits_of
from rayllm_ctl.specfile.crd.rule import CelRule, CelRules
from rayllm_ctl.specfile.form import Field, element_of, fields_of

Schema = dict[str, Any]

_SCALARS: Mapping[Any, Constraints] = {
    str: {"type": "string", **TEXT},
    int: {"type": "integer", "maximum": LARGEST_INTEGER},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}


class SchemaMaker:
    """Schemas of sections, with the rules of their classes and fields.

    named: the keys of free-form mappings that rules name, which CEL sees only where the schema has them with a type.
    """

    def __init__(self, rules: CelRules, named: Mapping[tuple[type, str], Mapping[str, Schema]]) -> None:
        self._rules, self._named = rules, named

    def section(self, section: type, fields: Mapping[str, Field] | None = None) -> Schema:
        """The schema of a dataclass, or of those of its fields that are given."""
        fields = fields_of(section) if fields is None else fields
        rules = [rule for one in reversed(section.__mro__) for rule in self._rules.get(one, ())]
        return {
            "type": "object",
            "properties": {key: self._field(section, field) for key, field in fields.items()},
            **(
                {"required": required} if (required := [key for key, field in fields.items() if field.required]) else {}
            ),
            **_validations(rules),
        }

    def _field(self, section: type, field: Field) -> Schema:
        limits = limits_of(section, field.name)
        if (section, field.name) in SHAPES:
            found: Schema = dict(SHAPES[section, field.name])
        elif field.wrapped:
            inner = {**_SCALARS[field.kind], **limits}
            found = {"type": "object", "properties": {field.wrapped: inner}, "required": [field.wrapped]}
        elif field.unit is not None:
            found = {"x-kubernetes-int-or-string": True, **UNITS[field.unit], **limits}
        else:
            found = self._kind(field.kind, limits)
        if (section, field.name) in self._named:
            found["properties"] = dict(self._named[section, field.name])
        found |= _validations(self._field_rules(section, field))
        if field.nullable and field.default is not None:
            found["nullable"] = True
        description = field.description or _first(field.kind)
        return {"description": description, **found} if description else found

    def _field_rules(self, section: type, field: Field) -> list[CelRule]:
        return [rule for one in section.__mro__ for rule in self._rules.get((one, field.name), ())]

    def _kind(self, kind: Any, limits: Constraints) -> Schema:
        if kind is Any:
            return {"x-kubernetes-preserve-unknown-fields": True}
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            return self.section(kind)
        if get_origin(kind) is Literal:
            return {"type": "string", "enum": list(get_args(kind)), **limits}
        element = element_of(kind)
        if element is None:
            return {name: limit for name, limit in {**_SCALARS[kind], **limits}.items() if limit is not None}
        of_elements = limits.get("items") or limits.get("values") or {}
        own = {name: limit for name, limit in limits.items() if name not in ("items", "values")}
        if get_origin(kind) is tuple:
            return {"type": "array", "items": self._kind(element, of_elements), "maxItems": ITEMS, **own}
        if element is Any:
            return {**FREE, **own}
        values = self._kind(element, of_elements)
        return {"type": "object", "additionalProperties": values, "maxProperties": PROPERTIES, **own}


def _validations(rules: list[CelRule]) -> Schema:
    return {"x-kubernetes-validations": [rule.to_json() for rule in rules]} if rules else {}


def _first(kind: Any) -> str:
    """The first paragraph of the docstring of a section, on one line."""
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return ""
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
