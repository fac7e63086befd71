"""The form of a spec file, taken from the annotations of the model: an LLMService, or a BatchJob."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from rayllm_ctl.model.spec import service as model
from rayllm_ctl.model.spec.form import Instead, Unit, Wrapped
from rayllm_ctl.model.text.json_form import camel

METADATA = ("name", "namespace")
"""The fields of a model that stand below metadata; the rest stands below spec."""


class Field(NamedTuple):
    """One field of a section.

    name: that of the dataclass. kind: its type without None. nullable: may be null. required: has no default.
    unit and wrapped: how the file writes the value, if not as it is. description: for editors, may be empty.
    default: the value of a field that is not given, None if that is unset, a section or empty. instead: names of the
    fields in place of which it stands.
    """

    name: str
    kind: Any
    nullable: bool
    required: bool
    unit: Unit | None = None
    wrapped: str = ""
    description: str = ""
    default: str | int | float | bool | None = None
    instead: tuple[str, ...] = ()

    @property
    def may_be_empty(self) -> bool:
        """Whether the key may stand alone: a section, list or mapping that need not be given."""
        return not self.required and (dataclasses.is_dataclass(self.kind) or element_of(self.kind) is not None)


@cache
def fields_of(section: type) -> Mapping[str, Field]:
    """The fields of a dataclass of the model by their keys in the file."""
    hints = get_type_hints(section, include_extras=True)
    return {camel(field.name): _field(field, hints[field.name]) for field in dataclasses.fields(section)}


def metadata_fields(kind: type = model.LLMService) -> Mapping[str, Field]:
    """The fields below metadata."""
    return {key: field for key, field in fields_of(kind).items() if field.name in METADATA}


def spec_fields(kind: type = model.LLMService) -> Mapping[str, Field]:
    """The fields below spec."""
    return {key: field for key, field in fields_of(kind).items() if field.name not in METADATA}


def element_of(kind: Any) -> Any:
    """The type of the elements of a tuple, or of the values of a mapping; None for any other type."""
    origin = get_origin(kind)
    if origin is tuple:
        return get_args(kind)[0]
    return get_args(kind)[1] if origin is Mapping else None


def _field(field: dataclasses.Field[Any], hint: Any) -> Field:
    notes: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        notes = tuple(rest)
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return Field(
        name=field.name,
        kind=next(kind for kind in kinds if kind is not type(None)),
        nullable=type(None) in kinds,
        required=field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        unit=next((note for note in notes if isinstance(note, Unit)), None),
        wrapped=next((note.key for note in notes if isinstance(note, Wrapped)), ""),
        instead=next((note.fields for note in notes if isinstance(note, Instead)), ()),
        description=next((note for note in notes if isinstance(note, str)), ""),
        default=field.default if isinstance(field.default, (str, int, float, bool)) else None,
    )
