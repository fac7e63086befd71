"""Answers of parts that are not complete, in the output folder: what a lost driver leaves to the next one.

A part is written when all its rows have an answer, which may take as long as the slowest of them. Until then its
answers are in files of this journal, one for each save. A file is deleted when all parts of its rows are written.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Collection
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rayllm_ctl.serving.batch.failures import BatchError
from rayllm_ctl.serving.batch.manifest import FOLDER
from rayllm_ctl.serving.batch.parts import Answer
from rayllm_ctl.serving.batch.storage import Store

SAVE_SECONDS = 10.0
"""Time between two saves. With the time that an answer takes to the driver and a save itself, it bounds what can be
lost (docs/how-to/batch.md)."""

_PREFIX, _SUFFIX = "answers-", ".parquet"

_SCHEMA = pa.schema(
    {
        "part": pa.int64(),
        "index": pa.int64(),
        "text": pa.string(),
        "floats": pa.list_(pa.float64()),
        "finish_reason": pa.string(),
        "prompt_tokens": pa.int64(),
        "completion_tokens": pa.int64(),
        "error": pa.string(),
    }
)

Answers = dict[int, dict[int, Answer]]
"""Answers by the number of their part and their index in it."""


_JOB = b"rayllm-job"
"""The key of a file's metadata that says of which job its answers are."""


class Journal:
    """The journal of a job. Files that other drivers of the job have left count as its own. job: its fingerprint."""

    def __init__(self, store: Store, job: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._schema = _SCHEMA.with_metadata({_JOB: job.encode()})
        self._run = uuid.uuid4().hex[:8]
        self._saves = 0
        self._saved = clock()
        self._unsaved: Answers = {}
        self._files: dict[str, set[int]] = {}
        """The parts of each file that are not written yet."""
        self._keeps_files = False

    def recover(self, pending: Collection[int]) -> Answers:
        """The answers to rows of pending parts that earlier drivers have left."""
        found: Answers = {}
        for name in sorted(self._store.names(FOLDER)):
            if not name.startswith(_PREFIX) or not name.endswith(_SUFFIX):
                continue
            path = f"{FOLDER}/{name}"
            rows = self._read(path)
            if rows is None:
                continue
            for number, index, answer in rows:
                if number in pending:
                    found.setdefault(number, {}).setdefault(index, answer)
            self._files[path] = {number for number, _, _ in rows if number in pending}
        self._delete_done()
        return found

    def add(self, number: int, index: int, answer: Answer) -> None:
        """Take the answer to a row of a part that is not written yet."""
        self._unsaved.setdefault(number, {})[index] = answer

    def written(self, number: int) -> None:
        """The part is in the output: its answers are not needed here any more."""
        self._unsaved.pop(number, None)
        for parts in self._files.values():
            parts.discard(number)
        self._delete_done()

    def save_if_due(self) -> None:
        """Save what is new if the last save was SAVE_SECONDS ago. BatchError if it cannot be written."""
        now = self._clock()
        if now - self._saved < SAVE_SECONDS:
            return
        self._saved = now
        if not self._unsaved:
            return
        self._saves += 1
        path = f"{FOLDER}/{_PREFIX}{self._run}-{self._saves:06d}{_SUFFIX}"
        sink = pa.BufferOutputStream()
        pq.write_table(_table(self._unsaved, self._schema), sink)
        self._store.write(path, sink.getvalue())
        self._files[path] = set(self._unsaved)
        self._unsaved = {}

    def _read(self, path: str) -> list[tuple[int, int, Answer]] | None:
        """The answers of a file; None if it is of another job, or cannot be read."""
        content = self._store.read(path)
        if content is None:
            return None
        try:
            table = pq.read_table(pa.BufferReader(content))
            if (table.schema.metadata or {}).get(_JOB) != self._schema.metadata[_JOB]:
                return None
            return [_row(row) for row in table.to_pylist()]
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            # Of the content, which is in memory: pyarrow raises a plain OSError for a damaged page, for one.
            sys.stderr.write(f"{self._store.path}/{path} cannot be read, so its rows are asked again: {error}\n")
            return None

    def _delete_done(self) -> None:
        """Delete files of which no part is pending. One that may not be deleted does no harm where it is."""
        for path in [path for path, parts in self._files.items() if not parts]:
            del self._files[path]
            if self._keeps_files:
                continue
            try:
                self._store.delete(path)
            except BatchError as error:
                self._keeps_files = True
                sys.stderr.write(f"{FOLDER}/{_PREFIX}* can be deleted after the job: {error.message}\n")


def _row(row: dict[str, Any]) -> tuple[int, int, Answer]:
    text = row["text"] if row["floats"] is None else row["floats"]
    answer = Answer(text, row["finish_reason"], row["prompt_tokens"], row["completion_tokens"], row["error"])
    return row["part"], row["index"], answer


def _table(answers: Answers, schema: pa.Schema) -> pa.Table:
    rows = [(number, index, answer) for number, part in answers.items() for index, answer in part.items()]
    columns: dict[str, list[Any]] = {
        "part": [number for number, _, _ in rows],
        "index": [index for _, index, _ in rows],
        "text": [answer.answer if isinstance(answer.answer, str) else None for _, _, answer in rows],
        "floats": [answer.answer if isinstance(answer.answer, list) else None for _, _, answer in rows],
        **{
            name: [getattr(answer, name) for _, _, answer in rows]
            for name in ("finish_reason", "prompt_tokens", "completion_tokens", "error")
        },
    }
    return pa.table(columns, schema=schema)
