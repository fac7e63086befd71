"""The look at the whole input before anything runs: parts, rows, types, and all that can be rejected."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rayllm_ctl.serving.batch.failures import BatchError
from rayllm_ctl.serving.batch.inference import adapters
from rayllm_ctl.serving.batch.inference.prompts import Prompts
from rayllm_ctl.serving.batch.parts import FIRST_ROWS, Part, Row, RowError, Source
from rayllm_ctl.serving.batch.readers import Reader
from rayllm_ctl.serving.batch.readers.parquet import ParquetReader
from rayllm_ctl.serving.batch.schemas import Columns, check_same
from rayllm_ctl.serving.batch.settings import ADDED_COLUMNS, Settings


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of the input, and the schema of JSONL rows where the output has types."""

    sources: list[Source]
    parts: list[Part]
    schema: pa.Schema | None

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(part.rows for part in self.parts)


def key_column(settings: Settings) -> str | None:
    """The column that identifies rows."""
    return "custom_id" if settings.input.format == "openai" else settings.input.keyColumn


def survey(settings: Settings, reader: Reader, sources: list[Source], counted: Callable[[int], None]) -> Plan:
    """Read the input once. BatchError for whatever is wrong with it; `counted` gets the rows so far."""
    prompts = Prompts(settings)
    key = key_column(settings)
    own_columns = settings.input.format in ("jsonl", "openai")
    typed = settings.output.format == "parquet" and own_columns
    columns = Columns()
    keys = _Keys()
    models = {settings.engine.answering}
    parts: list[Part] = []
    total = 0
    for source in sources:
        names = reader.columns(source)
        first: list[Row] = []
        if names is not None:
            _check_names(settings, source, names)

        def visit(row: Row, source: Source = source, first: list[Row] = first) -> None:
            if len(first) < FIRST_ROWS:
                first.append(row)
            if own_columns and row.error is None:
                _check_names(settings, source, list(row.values), row)
                if typed:
                    columns.add(row.values, source)
            if key is not None:
                keys.add(row, key, source)

        found = reader.scan(source, visit, every_row=own_columns or key is not None)
        try:
            models |= prompts.check(source, first, names)
        except RowError as error:
            raise BatchError("WrongFormat", f"{source.path}: {error}", "correct the line, or remove it") from None
        parts.extend(found)
        total += sum(part.rows for part in found)
        counted(total)
    if not total:
        raise BatchError("NoRows", "the input has no rows", "check the paths; empty lines are not rows")
    if (twice := keys.duplicate()) is not None:
        raise _duplicate(reader, sources, key or "", twice)
    adapters.check(settings, models - {settings.engine.model})
    if isinstance(reader, ParquetReader) and settings.output.format == "parquet":
        check_same([(source, reader.schema(source)) for source in sources])
    return Plan(sources, parts, columns.schema() if typed else None)


def _check_names(settings: Settings, source: Source, names: list[str], row: Row | None = None) -> None:
    key = settings.input.keyColumn
    if key is not None and row is None and key not in names:
        raise BatchError(
            "MissingColumn",
            f"{source.path} lacks the key column {key}; it has {', '.join(names)}",
            "correct spec.input.keyColumn (--key-column)",
        )
    if settings.output.format == "openai":
        return
    for name in ADDED_COLUMNS:
        if settings.output.column(name) in names:
            where = f", line {row.place}" if row else ""
            raise BatchError(
                "ColumnClash",
                f"{source.path}{where} has a column {settings.output.column(name)}, which the output adds",
                f"rename the output's column: --rename {name}=ANOTHER_NAME (spec.output.columns)",
            )


class _Keys:
    """Hashes of all keys, 8 bytes a row, in the order of the rows."""

    def __init__(self) -> None:
        self._hashes = array("q")

    def add(self, row: Row, key: str, source: Source) -> None:
        value = row.values.get(key)
        if row.error is not None:
            value = (len(self._hashes), None)
        elif value is None:
            raise BatchError(
                "WrongFormat",
                f"{source.path}, row {row.place}: the key column {key} is null",
                "give every row a key, or leave out spec.input.keyColumn (--key-column)",
            )
        self._hashes.append(hash(value if row.error is not None else str(value)))

    def duplicate(self) -> tuple[int, int] | None:
        """The numbers of two rows with the same key."""
        if len(self._hashes) < 2:
            return None
        values = pa.Array.from_buffers(pa.int64(), len(self._hashes), [None, pa.py_buffer(self._hashes)])
        order = pc.sort_indices(values)
        ordered = values.take(order)
        same = pc.equal(ordered[1:], ordered[:-1])
        at = pc.index(same, True).as_py()
        if at < 0:
            return None
        low, high = sorted((order[at].as_py(), order[at + 1].as_py()))
        return low, high


def _duplicate(reader: Reader, sources: list[Source], key: str, rows: tuple[int, int]) -> BatchError:
    """Name the key and both places, which takes a second look at the input."""
    found: list[tuple[str, Any]] = []
    seen = 0
    for source in sources:

        def visit(row: Row, source: Source = source) -> None:
            nonlocal seen
            if seen in rows:
                found.append((f"{source.path}:{row.place}", row.values.get(key)))
            seen += 1

        reader.scan(source, visit, every_row=True)
    (first, value), (second, _) = found
    return BatchError(
        "DuplicateKey",
        f"{key} {str(value)!r} is in {first} and in {second}",
        "give every row its own key: answers are found by it",
    )
