"""Types of columns where the output is Parquet."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rayllm_ctl.serving.batch.failures import BatchError
from rayllm_ctl.serving.batch.parts import Source

_ROWS = 1000
_HINT = "use the output format jsonl, or give the column one type"


class Columns:
    """The types of JSON rows, inferred by Arrow a thousand rows at a time and united."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._fields: dict[str, pa.DataType] = {}
        self._source: Source | None = None

    def add(self, values: dict[str, Any], source: Source) -> None:
        """Take a row. BatchError if a column has mixed types."""
        self._rows.append(values)
        self._source = source
        if len(self._rows) == _ROWS:
            self._unite()

    def schema(self) -> pa.Schema:
        """The columns in the order in which they first appeared. BatchError if Parquet has no such type."""
        self._unite()
        for name, kind in self._fields.items():
            if _has_empty_struct(kind):
                raise BatchError("MixedTypes", f"column {name} has only empty objects, which Parquet lacks", _HINT)
        return pa.schema(list(self._fields.items()))

    def _unite(self) -> None:
        assert self._source is not None or not self._rows
        for name in dict.fromkeys(name for row in self._rows for name in row):
            known = self._fields.get(name, pa.null())
            try:
                kind = pa.array([row.get(name) for row in self._rows]).type
                united = pa.unify_schemas(
                    [pa.schema([(name, known)]), pa.schema([(name, kind)])], promote_options="permissive"
                )
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                path = self._source.path if self._source else ""
                raise BatchError(
                    "MixedTypes", f"column {name} of {path} cannot be a Parquet column: {error}", _HINT
                ) from None
            self._fields[name] = united.field(name).type
        self._rows = []


def check_same(schemas: list[tuple[Source, pa.Schema]]) -> None:
    """BatchError if a column has types in two files that do not go together."""
    first: dict[str, tuple[Source, pa.DataType]] = {}
    for source, schema in schemas:
        for field in schema:
            other, kind = first.setdefault(field.name, (source, field.type))
            try:
                pa.unify_schemas(
                    [pa.schema([("c", kind)]), pa.schema([("c", field.type)])], promote_options="permissive"
                )
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                raise BatchError(
                    "MixedTypes",
                    f"column {field.name} is {kind} in {other.path} and {field.type} in {source.path}",
                    _HINT,
                ) from None


def _has_empty_struct(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return kind.num_fields == 0 or any(_has_empty_struct(kind.field(i).type) for i in range(kind.num_fields))
    return pa.types.is_list(kind) and _has_empty_struct(kind.value_type)
