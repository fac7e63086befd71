"""Parquet. Places are indexes from 0."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rayllm_ctl.serving.batch.failures import BatchError
from rayllm_ctl.serving.batch.parts import FIRST_ROWS, Part, Row, Source
from rayllm_ctl.serving.batch.readers.base import Reader, Visit, changed
from rayllm_ctl.serving.batch.storage import filesystem, storage_errors


class ParquetReader(Reader):
    """Rows are read from the row groups that a part is in, and no more of them is kept than the part."""

    def columns(self, source: Source) -> list[str]:
        return list(self.schema(source).names)

    def schema(self, source: Source) -> pa.Schema:
        """The file's schema."""
        with self._open(source) as file:
            return file.schema_arrow

    def scan(self, source: Source, visit: Visit, *, every_row: bool) -> list[Part]:
        with self._open(source) as file:
            total = file.metadata.num_rows
            seen = 0
            key = self.settings.input.keyColumn
            for batch in file.iter_batches(batch_size=FIRST_ROWS):
                for values in batch.to_pylist():
                    visit(Row(seen, values))
                    seen += 1
                break
            if every_row and key is not None:
                index = 0
                for batch in file.iter_batches(batch_size=self.part_rows, columns=[key]):
                    for values in batch.to_pylist():
                        if index >= seen:
                            visit(Row(index, values))
                        index += 1
        step = self.part_rows
        return [Part(source, i, s, s, min(step, total - s)) for i, s in enumerate(range(0, total, step))]

    def read(self, part: Part) -> list[Row]:
        table = self.table(part, [], None)
        return [Row(part.offset + i, values) for i, values in enumerate(table.to_pylist())]

    def table(self, part: Part, rows: list[Row], schema: pa.Schema | None) -> pa.Table:  # noqa: ARG002
        with self._open(part.source) as file:
            groups: list[int] = []
            start, first = part.offset, 0
            for group in range(file.metadata.num_row_groups):
                last = first + file.metadata.row_group(group).num_rows
                if first < part.offset + part.rows and last > part.offset:
                    if not groups:
                        start = part.offset - first
                    groups.append(group)
                first = last
            pieces = list(_between(file.iter_batches(batch_size=self.part_rows, row_groups=groups), start, part.rows))
            table = pa.Table.from_batches(pieces, schema=file.schema_arrow)
        if table.num_rows != part.rows:
            raise changed(part.source)
        return table

    @contextlib.contextmanager
    def _open(self, source: Source) -> Iterator[Any]:
        filesys, path = filesystem(source.path, self.settings.storage)
        try:
            with storage_errors(source.path), filesys.open_input_file(path) as stream, pq.ParquetFile(stream) as file:
                yield file
        except pa.ArrowInvalid as error:
            text = str(error).splitlines()[0]
            raise BatchError(
                "WrongFormat", f"{source.path} is not Parquet: {text}", "correct spec.input.format (--input-format)"
            ) from error


def _between(batches: Any, start: int, rows: int) -> Iterator[Any]:
    """The rows start..start+rows of a stream of batches."""
    position = 0
    for batch in batches:
        low, high = max(start - position, 0), min(start + rows - position, batch.num_rows)
        if low < high:
            yield batch.slice(low, high - low)
        position += batch.num_rows
        if position >= start + rows:
            return
