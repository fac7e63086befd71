"""What all readers do: find the parts of a file in one pass, and read one part again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from rayllm_ctl.serving.batch.failures import FAILED, BatchError
from rayllm_ctl.serving.batch.parts import FIRST_ROWS, Part, Row, Source
from rayllm_ctl.serving.batch.settings import Settings

Visit = Callable[[Row], None]


class Record(NamedTuple):
    """A row before it is parsed: the byte where it starts, its place, its line, and its content."""

    offset: int
    place: int
    line: int
    content: Any


class Reader(ABC):
    """A format. Readers are built again in every process that reads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.part_rows = settings.job.partRows

    @abstractmethod
    def columns(self, source: Source) -> list[str] | None:
        """The columns of a file; None if each row has its own."""

    @abstractmethod
    def scan(self, source: Source, visit: Visit, *, every_row: bool) -> list[Part]:
        """The parts of a file. `visit` gets the first rows, or every row; BatchError if a first row is malformed."""

    @abstractmethod
    def read(self, part: Part) -> list[Row]:
        """The rows of a part. BatchError if the file has changed since the scan."""

    def table(self, part: Part, rows: list[Row], schema: pa.Schema | None) -> pa.Table:
        """The columns of a part with their types: the schema's, or strings."""
        names = schema.names if schema is not None else self.columns(part.source) or []
        types = [schema.field(name).type for name in names] if schema is not None else [pa.string()] * len(names)
        arrays = [
            pa.array([row.values.get(name) for row in rows], type=kind) for name, kind in zip(names, types, strict=True)
        ]
        return pa.Table.from_arrays(arrays, names=names)

    def malformed(self, source: Source, row: Row, line: int) -> BatchError:
        """The rejection of a malformed row among the first."""
        return BatchError(
            "WrongFormat",
            f"{source.path}, line {line}: {row.error}",
            f"correct the file, or its format: --input-format, if it is not {self.settings.input.format}",
        )


class RecordReader(Reader):
    """A reader of files that consist of records, each of which can be parsed on its own."""

    @abstractmethod
    def records(self, source: Source, offset: int, first: int) -> Iterator[Record]:
        """The records from a byte on, which is the start of the record whose place is `first`."""

    @abstractmethod
    def parse(self, record: Record, columns: list[str] | None) -> dict[str, Any]:
        """The columns of a record. ValueError if it is malformed."""

    def scan(self, source: Source, visit: Visit, *, every_row: bool) -> list[Part]:
        starts: list[Record] = []
        rows = 0
        columns = self.columns(source)
        for record in self.records(source, 0, -1):
            if rows % self.part_rows == 0:
                starts.append(record)
            if every_row or rows < FIRST_ROWS:
                row = self._row(record, columns)
                if row.error and rows < FIRST_ROWS:
                    raise self.malformed(source, row, record.line)
                visit(row)
            rows += 1
        return [
            Part(source, i, start.offset, start.place, min(self.part_rows, rows - i * self.part_rows))
            for i, start in enumerate(starts)
        ]

    def read(self, part: Part) -> list[Row]:
        rows: list[Row] = []
        columns = self.columns(part.source)
        for record in self.records(part.source, part.offset, part.first):
            rows.append(self._row(record, columns))
            if len(rows) == part.rows:
                return rows
        raise changed(part.source)

    def _row(self, record: Record, columns: list[str] | None) -> Row:
        try:
            return Row(record.place, self.parse(record, columns))
        except ValueError as error:
            return Row(record.place, {}, str(error))


def changed(source: Source) -> BatchError:
    """The failure of a file that is not what it was when the job began."""
    return BatchError(
        "Failed",
        f"{source.path} has changed while the job was running",
        "submit a new job with another output folder",
        exit_code=FAILED,
    )
