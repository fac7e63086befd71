"""CSV with a header line. All columns are text, unless types are requested. Places are indexes from 0."""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from rayllm_ctl.serving.batch.failures import BatchError
from rayllm_ctl.serving.batch.parts import Part, Row, Source
from rayllm_ctl.serving.batch.readers.base import Record, RecordReader
from rayllm_ctl.serving.batch.settings import ColumnType, Settings
from rayllm_ctl.serving.batch.storage import open_file

_FIELD_BYTES = 64 * 2**20
_ARROW = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class CsvReader(RecordReader):
    """Quoted fields may have line breaks, so that rows are not lines."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        csv.field_size_limit(_FIELD_BYTES)
        self._header = functools.lru_cache(maxsize=16)(self._read_header)

    def columns(self, source: Source) -> list[str]:
        names = self._header(source)[0]
        for name in self.settings.input.types:
            if name not in names:
                raise BatchError(
                    "MissingColumn",
                    f"input.types has the column {name!r}, and {source.path} has {', '.join(names)}",
                    "correct spec.input.types",
                )
        return names

    def records(self, source: Source, offset: int, first: int) -> Iterator[Record]:
        _, start, lines = self._header(source)
        if first < 0:
            offset, first = start, 0
        else:
            lines = 0
        with open_file(source.path, self.settings.storage, offset) as file:
            for index, record in enumerate(_Records(file, offset, lines)):
                yield record._replace(place=first + index)

    def parse(self, record: Record, columns: list[str] | None) -> dict[str, Any]:
        values = record.content
        if isinstance(values, str):
            raise ValueError(values)
        assert columns is not None
        if len(values) != len(columns):
            raise ValueError(f"has {len(values)} fields, and the header has {len(columns)}")
        row: dict[str, Any] = dict(zip(columns, values, strict=True))
        for name, kind in self.settings.input.types.items():
            row[name] = _typed(name, row[name], kind)
        return row

    def table(self, part: Part, rows: list[Row], schema: pa.Schema | None) -> pa.Table:  # noqa: ARG002
        types = self.settings.input.types
        fields = [(name, _ARROW[types[name]] if name in types else pa.string()) for name in self.columns(part.source)]
        return super().table(part, rows, pa.schema(fields))

    def _read_header(self, source: Source) -> tuple[list[str], int, int]:
        """Names, and the byte and line where the header ends. A file without any line has no columns."""
        with open_file(source.path, self.settings.storage) as file:
            records = _Records(file, 0, 0)
            names: list[str] | str = next((record.content for record in records), [])
            where = records.offset, records.line
        if isinstance(names, str):
            raise BatchError("WrongFormat", f"{source.path}, line 1: {names}", "correct the file, or its format")
        if names:
            names[0] = names[0].removeprefix("\ufeff")
        double = sorted({name for name in names if names.count(name) > 1})
        if double or not all(names):
            what = f"has the column {double[0]!r} twice" if double else "has a column without a name"
            raise BatchError("WrongFormat", f"the header of {source.path} {what}", "name each column once")
        return names, *where


class _Records:
    """Records of CSV, each with the byte where it starts. A malformed one has the error in place of its fields."""

    def __init__(self, file: Any, offset: int, line: int) -> None:
        self._file = file
        self.offset, self.line = offset, line
        self._undecodable = False

    def __iter__(self) -> Iterator[Record]:
        reader = csv.reader(self._lines(), strict=True)
        while True:
            start, line, self._undecodable = self.offset, self.line + 1, False
            content: Any
            try:
                content = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                content = f"is not valid CSV: {error}"
            if self._undecodable:
                content = "is not UTF-8"
            if content:
                yield Record(start, 0, line, content)

    def _lines(self) -> Iterator[str]:
        for content in self._file:
            self.offset += len(content)
            self.line += 1
            try:
                yield content.decode("utf-8")
            except UnicodeDecodeError:
                self._undecodable = True
                yield content.decode("utf-8", "replace")


def _typed(name: str, text: str, kind: ColumnType) -> int | float | bool | None:
    """The value of a field; an empty one is null. ValueError if it does not have the type."""
    if not text.strip():
        return None
    try:
        if kind == "bool":
            return _BOOLEANS[text.strip().lower()]
        return int(text) if kind == "int" else float(text)
    except (KeyError, ValueError):
        raise ValueError(f"column {name} has {text!r}, which is not of the type {kind}") from None
