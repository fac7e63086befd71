"""The chart's values: their types, their defaults and what is said of them, from the dataclasses of `render`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin

from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.model.spec.service import Accelerator, Engine, LLMService, Model
from rayllm_ctl.model.text.json_form import camel
from rayllm_ctl.render.helm.values import ChartValues, as_written
from rayllm_ctl.render.reads import ITEMS, Tree, fields_read
from rayllm_ctl.render.values import Values, values_of
from rayllm_ctl.specfile.form import Field, element_of, fields_of
from rayllm_ctl.workflows.plan.model import make_plan

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_NAME = r"^([a-z]([-a-z0-9]{0,45}[a-z0-9])?)?$"


class Value(NamedTuple):
    """One value of the chart. path: `serve.autoscaling.minReplicas`, `env[].name`. tree: what is read of it."""

    path: str
    field: Field
    tree: Tree
    default: Any

    @property
    def section(self) -> type | None:
        """The dataclass of a section; None for any other value."""
        return _section_class(self.field.kind)

    @property
    def element(self) -> type | None:
        """The dataclass of a section, or of the elements of a list or mapping."""
        return self.section or _section_class(element_of(self.field.kind))


@cache
def defaults() -> dict[str, Any]:
    """The values of a small model on CPUs, which has no image that all could pull.

    Helm merges mappings of a user's file into these, so those whose keys are the user's are empty.
    """
    engine, accelerator = Engine(image="example"), Accelerator(kind="cpu")
    service = LLMService(name="example", model=Model("Qwen/Qwen3-0.6B"), engine=engine, accelerator=accelerator)
    planned = values_of(make_plan(service, OFFLINE))
    written = as_written(dataclasses.replace(planned, name="", runtime=dataclasses.replace(planned.runtime, image="")))
    kept = {key: item if key == "labels" else _without_keys(item, Values, key) for key, item in written.items()}
    return {**kept, "patches": {}}


def _fields(section: type, tree: Tree) -> dict[str, Field]:
    """The fields of a section in `tree`, or all of them where that is empty."""
    return {key: field for key, field in fields_of(section).items() if not tree or field.name in tree}


def _read() -> Tree:
    return {**fields_read(), "patches": {}}


def _without_keys(value: Any, section: type, key: str) -> Any:
    """`value`, the field `key` of `section`, with empty mappings where the keys are the user's."""
    kind = fields_of(section)[key].kind
    if get_origin(kind) is Mapping:
        return {}
    below = _section_class(kind)
    return {name: _without_keys(item, below, name) for name, item in value.items()} if below and value else value


def values(
    section: type = ChartValues, path: str = "", tree: Tree | None = None, default: Any = None
) -> Iterator[Value]:
    """The values of a section that the templates read, in the order of its dataclass."""
    tree, default = (_read(), defaults()) if section is ChartValues else (tree or {}, default or {})
    for key, field in _fields(section, tree).items():
        yield Value(f"{path}.{key}".removeprefix("."), field, tree.get(field.name, {}), default.get(key))


def elements(value: Value) -> Iterator[Value]:
    """The values of a section, or of each element of a list or mapping of sections."""
    if value.section is not None:
        yield from values(value.section, value.path, value.tree, value.default)
    elif value.element is not None:
        yield from values(value.element, f"{value.path}[]", value.tree.get(ITEMS, {}))


def _section_class(kind: Any) -> type | None:
    return kind if isinstance(kind, type) and dataclasses.is_dataclass(kind) else None


def schema() -> dict[str, Any]:
    """The JSON schema of the values: draft 7, which every Helm 3 knows."""
    document = _section(ChartValues, _read())
    document["properties"]["name"]["pattern"] = _NAME
    document["properties"]["global"] = {"description": "What Helm hands to subcharts.", "type": "object"}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart rayllm", **document}


def _section(section: type, tree: Tree) -> dict[str, Any]:
    known = _fields(section, tree)
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {key: _field(field, tree.get(field.name, {})) for key, field in known.items()},
        "required": [key for key, field in known.items() if field.required and not field.nullable],
    }


def _field(field: Field, tree: Tree) -> dict[str, Any]:
    described = {"description": field.description} if field.description else {}
    kind = _kind(field.kind, tree)
    return {**described, **(_or_null(kind) if field.nullable else kind)}


def _or_null(kind: dict[str, Any]) -> dict[str, Any]:
    if "enum" in kind:
        return {"enum": [*kind["enum"], None]}
    return {**kind, "type": [kind["type"], "null"]} if "type" in kind else kind


def _kind(kind: Any, tree: Tree) -> dict[str, Any]:
    if (section := _section_class(kind)) is not None:
        about = (section.__doc__ or "").partition("\n\n")[0]
        return {"description": spelled(about, section), **_section(section, tree)}
    if kind is Any:
        return {}
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    element, below = element_of(kind), tree.get(ITEMS, {})
    if element is None:
        return {"type": _TYPES[kind], **({"minimum": 0} if kind is int else {})}
    if get_origin(kind) is Mapping or kind is Mapping:
        return {"type": "object", "additionalProperties": _kind(element, below)}
    return {"type": "array", "items": _kind(element, below)}


def spelled(text: str, section: type) -> str:
    """A docstring with the names of fields, and of Python's None, as the chart spells them."""
    for field in dataclasses.fields(section):
        text = text.replace(f"`{field.name}`", field.name)
        if "_" in field.name:
            text = text.replace(field.name, camel(field.name))
    return " ".join(text.replace("None", "null").split())
