"""Files of the output: a part's rows with their answers, and what a part that is done says about itself."""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rayllm_ctl.serving.batch.inference import requests
from rayllm_ctl.serving.batch.parts import Answer, Part, Row, row_id
from rayllm_ctl.serving.batch.readers import Reader
from rayllm_ctl.serving.batch.readers.parquet import ParquetReader
from rayllm_ctl.serving.batch.settings import Settings
from rayllm_ctl.serving.batch.storage import Store
from rayllm_ctl.serving.batch.survey import Plan, key_column

FIRST_ERRORS = 5

_ANSWERS = {"generate": pa.string(), "embed": pa.list_(pa.float32()), "classify": pa.list_(pa.float32())}
_TYPES = {"prompt_tokens": pa.int64(), "completion_tokens": pa.int64()}
_SUFFIX = {"parquet": "parquet", "jsonl": "jsonl", "openai": "jsonl"}


@dataclass(slots=True)
class Totals:
    """Counts of rows that are in the output."""

    rows: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    first_errors: list[dict[str, str]] = field(default_factory=list)

    def add(self, row: str, answer: Answer) -> None:
        """Count a row."""
        self.rows += 1
        self.prompt_tokens += answer.prompt_tokens or 0
        self.completion_tokens += answer.completion_tokens or 0
        if answer.error is not None:
            self.errors += 1
            if len(self.first_errors) < FIRST_ERRORS:
                self.first_errors.append({"rowId": row, "error": answer.error})


class Outputs:
    """Writes the parts of a job."""

    def __init__(self, settings: Settings, store: Store, reader: Reader, plan: Plan) -> None:
        self._settings, self._store, self._reader, self._plan = settings, store, reader, plan
        self._format = settings.output.format
        self._key = key_column(settings)

    def name(self, part: Part) -> str:
        """The file of a part."""
        return part.file(_SUFFIX[self._format])

    def write(self, part: Part, answers: list[Answer]) -> list[str]:
        """Read the part's rows once more and write them with their answers. The ids of the rows."""
        if self._format == "parquet":
            ids, content = self._parquet(part, answers)
        else:
            rows = self._reader.read(part)
            ids = [row_id(part, row, self._key) for row in rows]
            lines = self._lines(rows, ids, answers)
            content = b"".join(line.encode() + b"\n" for line in lines)
        self._store.write(self.name(part), content)
        return ids

    def summary(self, part: Part, totals: Totals) -> None:
        """Count the rows of a part that is done."""
        for row, answer in self._done(part):
            totals.add(row, answer)

    def _parquet(self, part: Part, answers: list[Answer]) -> tuple[list[str], Any]:
        rows: list[Row]
        if isinstance(self._reader, ParquetReader):
            table = self._reader.table(part, [], None)
            keys = table.column(self._key).to_pylist() if self._key is not None else None
            rows = [Row(part.offset + i, {self._key: keys[i]} if keys and self._key else {}) for i in range(part.rows)]
        else:
            rows = self._reader.read(part)
            table = self._reader.table(part, rows, self._plan.schema)
        ids = [row_id(part, row, self._key) for row in rows]
        for name, values in _columns(ids, answers).items():
            kind = _ANSWERS[self._settings.task] if name == "answer" else _TYPES.get(name, pa.string())
            table = table.append_column(self._settings.output.column(name), pa.array(values, type=kind))
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        return ids, sink.getvalue()

    def _lines(self, rows: list[Row], ids: list[str], answers: list[Answer]) -> Iterator[str]:
        created = int(time.time())
        added = _columns(ids, answers)
        for i, row in enumerate(rows):
            if self._format == "openai":
                line = requests.answer_line(row.values, ids[i], answers[i], created, self._settings.task)
            else:
                own = {self._settings.output.column(name): values[i] for name, values in added.items()}
                line = {**row.values, **own}
            yield json.dumps(_plain(line), ensure_ascii=False, allow_nan=False)

    def _done(self, part: Part) -> Iterator[tuple[str, Answer]]:
        column = self._settings.output.column
        names = {column(name): name for name in ("error", "prompt_tokens", "completion_tokens", "row_id")}
        if self._format == "parquet":
            with self._store.open(self.name(part)) as file:
                found: list[dict[str, Any]] = pq.read_table(file, columns=list(names)).to_pylist()
        else:
            lines = (self._store.read(self.name(part)) or b"").splitlines()
            found = [json.loads(line) for line in lines]
        for row in found:
            if self._format == "openai":
                usage = ((row["response"] or {}).get("body") or {}).get("usage", {})
                error = row["error"]["message"] if row["error"] else None
                tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
                yield row["custom_id"], Answer(None, None, *tokens, error)
            else:
                known = {name: row[theirs] for theirs, name in names.items()}
                identity = known.pop("row_id")
                yield identity, Answer(**known)


def _columns(ids: list[str], answers: list[Answer]) -> dict[str, list[Any]]:
    fields = ("answer", "finish_reason", "prompt_tokens", "completion_tokens", "error")
    return {**{name: [getattr(answer, name) for answer in answers] for name in fields}, "row_id": ids}


def _plain(value: Any) -> Any:
    """A value as JSON has it: bytes as base64, decimals as text, times in ISO 8601, NaN as null.

    Durations are seconds.
    """
    match value:
        case None | bool() | str() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Decimal():
            return str(value)
        case datetime() | date() | clock():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
    return str(value)
