"""Puts answers together into parts. A part is written when all its rows are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rayllm_ctl.serving.batch.outputs import Totals
from rayllm_ctl.serving.batch.parts import Answer, Part

Write = Callable[[Part, list[Answer]], list[str]]


@dataclass(slots=True)
class _Open:
    answers: list[Answer | None]
    missing: int


class Collector:
    """Holds the answers of the parts in flight, and no others."""

    def __init__(self, parts: Iterable[tuple[int, Part]], write: Write, totals: Totals) -> None:
        self._pending = dict(parts)
        self._open: dict[int, _Open] = {}
        self._write = write
        self.totals = totals
        """Rows in the output."""
        self.seen = Totals()
        """Rows whose answers are here: in the output since this run began, or in open parts."""

    @property
    def missing(self) -> int:
        """Rows that have no answer yet."""
        waiting = (
            self._open[number].missing if number in self._open else part.rows for number, part in self._pending.items()
        )
        return sum(waiting)

    def add(self, number: int, index: int, answer: Answer) -> bool:
        """Take the answer of a row of a part, which completes it or not. Whether it is news.

        One that is here already is ignored: answers come early and with their batch, and Ray runs a lost task again.
        """
        if not self._put(number, index, answer):
            return False
        self.seen.add("", answer)
        return True

    def restore(self, number: int, index: int, answer: Answer) -> None:
        """Take an answer that an earlier run has left."""
        self._put(number, index, answer)

    def is_open(self, number: int) -> bool:
        """Whether rows of the part have no answer yet."""
        return number in self._pending

    def _put(self, number: int, index: int, answer: Answer) -> bool:
        part = self._pending.get(number)
        if part is None:
            return False
        part_open = self._open.setdefault(number, _Open([None] * part.rows, part.rows))
        if part_open.answers[index] is not None:
            return False
        part_open.answers[index] = answer
        part_open.missing -= 1
        if part_open.missing == 0:
            answers = [given for given in part_open.answers if given is not None]
            ids = self._write(part, answers)
            for row, given in zip(ids, answers, strict=True):
                self.totals.add(row, given)
            del self._open[number], self._pending[number]
        return True
