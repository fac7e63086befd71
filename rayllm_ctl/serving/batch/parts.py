"""Parts: stretches of consecutive rows of one file. A part of the input is one file of the output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FIRST_ROWS = 100
"""Rows of each file that are checked before a GPU is requested."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file of the input. `name` is its path below the folder that all have in common; changed is in ns."""

    number: int
    path: str
    name: str
    size: int
    changed: int


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one file and where to find them: `offset` is a byte (in Parquet a row), `first` the first row's place."""

    source: Source
    number: int
    offset: int
    first: int
    rows: int

    def file(self, extension: str) -> str:
        """The name of its file in the output folder."""
        return f"part-{self.source.number:05d}-{self.number:06d}.{extension}"


@dataclass(slots=True)
class Row:
    """A row of the input. `place` is its line number or index; `error` is set where it could not be read."""

    place: int
    values: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine made of a row. On an error all else is None."""

    answer: Any = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class News:
    """Answers, each with the number of its part and its index in it, and how many engines have started so far."""

    answers: list[tuple[int, int, Answer]]
    engines: int


@dataclass(frozen=True, slots=True)
class Ask:
    """What the engine is asked for one row. Either prompt or messages; `model` is a LoRA adapter or the model itself.

    Messages and sampling parameters are JSON texts: Ray Data gives the rows of a block one schema, in which a key that
    only some rows have would be None in the others.
    """

    prompt: str | None
    messages: str | None
    sampling: str
    model: str


class RowError(Exception):
    """The row cannot be asked; the text says why."""


def row_id(part: Part, row: Row, key: str | None) -> str:
    """The identity of a row: the value of the key column, or file and place."""
    if key is not None and row.values.get(key) is not None:
        return str(row.values[key])
    return f"{part.source.name}:{row.place}"
