"""What a field of the spec file means, from the annotations that the reader follows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.spec.batch import BATCH_KIND, BatchJob
from rayllm_ctl.model.spec.form import Unit
from rayllm_ctl.model.spec.service import KIND, LLMService
from rayllm_ctl.model.text.explanation import FieldExplanation
from rayllm_ctl.model.text.yaml_text import flow
from rayllm_ctl.specfile.form import Field, element_of, fields_of, metadata_fields, spec_fields

_MOST = 3
"""Paths that are suggested for a name."""

_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean"}


def explain(path: str = "") -> FieldExplanation:
    """The field at `path`: "spec.replicas.max", "spec.storage.volumes.name"; "" is the whole document.

    A path that starts with "batchjob" is one of a BatchJob, any other is one of an LLMService.
    UsageError with fields of that name, or the nearest name, if there is no such field.
    """
    names = [name for name in path.split(".") if name]
    if names and names[0].lower().removesuffix("s") == KIND.lower():
        del names[0]
    kind, prefix = spec_kind(path), ""
    if kind == BATCH_KIND:
        here, prefix = _document(BatchJob, "What is read, asked and written, and how."), f"{names.pop(0)}."
    else:
        here = _document(LLMService, "What is served, and how.")
    for name in names:
        known = {field.name: field for field in here.fields}
        if name not in known:
            where = here.path or kind
            elsewhere = [] if here.path else sorted(_named(here, names[-1]), key=lambda one: one.count("."))
            if elsewhere:
                raise UsageError(
                    f'field "{name}" does not exist in {where}',
                    hint=[f"rayllm-ctl explain {prefix}{one}" for one in elsewhere[:_MOST]],
                )
            begun = [one for one in known if one.lower().startswith(name.lower())]
            close = begun[:_MOST] or [nearest(name, known) or ""]
            found = [f"{here.path}.{one}".strip(".") for one in close]
            raise UsageError(
                f'field "{name}" does not exist in {where}' if known else f"{where} has no fields",
                hint=[f"rayllm-ctl explain {prefix}{one}".rstrip(" .") for one in found],
            )
        here = known[name]
    return here


def _named(field: FieldExplanation, name: str) -> Iterator[str]:
    """The paths of all fields of a name below `field`."""
    for below in field.fields:
        if below.name.lower() == name.lower():
            yield below.path
        yield from _named(below, name)


def spec_kind(path: str) -> str:
    """The kind of the spec file that a path leads into."""
    return BATCH_KIND if path.partition(".")[0].lower().removesuffix("s") == BATCH_KIND.lower() else KIND


def _document(kind: type, spec: str) -> FieldExplanation:
    parts = {"metadata": metadata_fields(kind), "spec": spec_fields(kind)}
    texts = {"metadata": "Name and namespace.", "spec": spec}
    children = tuple(
        FieldExplanation(name, "Object", texts[name], True, "", (), "", tuple(_fields(fields, name, "")))
        for name, fields in parts.items()
    )
    return FieldExplanation("", kind.__name__, _first(kind), True, "", (), "", children)


def _fields(fields: Mapping[str, Field], path: str, attribute: str | None) -> Iterator[FieldExplanation]:
    """attribute: that of the section; None inside a list, whose elements have no flags."""
    for key, field in fields.items():
        yield _field(field, f"{path}.{key}", None if attribute is None else f"{attribute}.{field.name}".lstrip("."))


def _field(field: Field, path: str, attribute: str | None) -> FieldExplanation:
    element = element_of(field.kind)
    section = element or field.kind
    children: tuple[FieldExplanation, ...] = ()
    if isinstance(section, type) and dataclasses.is_dataclass(section):
        children = tuple(_fields(fields_of(section), path, None if element else attribute))
    elif field.wrapped:
        wrapped = Field(field.wrapped, field.kind, False, True, description="Its name, or its path.")
        children = (_field(wrapped, f"{path}.{field.wrapped}", None),)
    return FieldExplanation(
        path=path,
        type="Object" if field.wrapped else _type(field.kind, field.unit),
        description=field.description or (_first(section) if children and not field.wrapped else ""),
        required=field.required,
        default="" if field.default is None else flow(field.default).strip('"'),
        values=tuple(map(str, get_args(field.kind))) if get_origin(field.kind) is Literal else (),
        attribute=attribute or "",
        fields=children,
    )


_UNITS = {Unit.SECONDS: "duration", Unit.QUANTITY: "quantity", Unit.LENGTHS: "integer or string"}


def _type(kind: Any, unit: Unit | None = None) -> str:
    """As kubectl writes types: string, []Volume, map[string]string."""
    if unit is not None:
        return _UNITS[unit]
    element = element_of(kind)
    if element is not None:
        return f"[]{_type(element)}" if get_origin(kind) is tuple else f"map[string]{_type(element)}"
    if get_origin(kind) is Literal:
        return "string"
    if kind is Any:
        return "any"
    return _SCALARS.get(kind) or str(kind.__name__)


def _first(section: type) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((section.__doc__ or "").partition("\n\n")[0].split())
