"""Rows that make the engine crash: found one by one and given an error, so that the job keeps running without them.

Ray starts a crashed engine again and repeats all that it was asked, without a limit, so one such row would keep a job
from ever ending. Rows that were with the engine at a crash are suspected. After two crashes they are asked in small
groups with nothing else beside them, after three each alone; a row at whose fourth crash nothing else was there gets
an error. Lost nodes look like crashes and cost the same care, but no row its answer, unless it is hit four times.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from rayllm_ctl.serving.batch.inference.columns import ERROR, result
from rayllm_ctl.serving.batch.inference.early import Early, Key

GROUPED, ALONE, GIVEN_UP = 2, 3, 4
"""Crashes after which a row is asked in a group, alone, and not at all."""
GROUP = 16
"""Rows of a group: few enough to ask each alone afterwards, and enough that a batch takes few turns."""
MOST_IN_A_ROW = 20
"""Crashes without an answer between them after which it is not the rows: five rows that crash the engine one after
another would have to be in one group."""


class Ledger:
    """Which rows are with which engine, and how often an engine has crashed with a row. A Ray actor beside the driver.

    Engines are told apart by a name that each start of one makes up. The driver learns here how many have started, and
    takes the answers that wait for the rest of their batch.
    """

    def __init__(self) -> None:
        self._engines: dict[Key, str] = {}
        self._crashes: dict[Key, int] = {}
        self._crashed: set[str] = set()
        self._in_a_row = 0
        self._started: set[str] = set()
        self._answers: list[dict[str, Any]] = []

    def news(self) -> tuple[int, list[dict[str, Any]]]:
        """How many engines have started so far, and the answers since the last call."""
        answers, self._answers = self._answers, []
        return len(self._started), answers

    def answered(self, rows: list[dict[str, Any]]) -> None:
        """Rows have answers that wait for the rest of their batch."""
        self._answers += rows

    def take(self, engine: str, keys: list[Key]) -> list[int]:
        """How many crashes each row was in. Rows that are not to be asked in a group or alone are open from now on.

        An engine takes rows as soon as it has started. Raises RuntimeError when engines crash repeatedly and
        answer nothing.
        """
        self._started.add(engine)
        for key in keys:
            other = self._engines.pop(key, engine)
            if other != engine:
                self._crashes[key] = self._crashes.get(key, 0) + 1
                self._count(other)
        counts = [self._crashes.get(key, 0) for key in keys]
        self.open(engine, [key for key, count in zip(keys, counts, strict=True) if count < GROUPED])
        return counts

    def open(self, engine: str, keys: list[Key]) -> None:
        """The engine is about to be asked about rows."""
        self._engines.update(dict.fromkeys(keys, engine))

    def close(self, keys: list[Key]) -> None:
        """Rows have come back."""
        if keys:
            self._in_a_row = 0
        for key in keys:
            self._engines.pop(key, None)
            self._crashes.pop(key, None)

    def _count(self, engine: str) -> None:
        if engine in self._crashed:
            return
        self._crashed.add(engine)
        self._in_a_row += 1
        if self._in_a_row >= MOST_IN_A_ROW:
            raise RuntimeError(f"the engine crashed {self._in_a_row} times in a row without answering a row")


class Turns:
    """Batches that are with an engine together, or one of them alone."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._together = 0
        self._alone = False

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """With others; waits for one that is alone."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone)
            self._together += 1
        try:
            yield
        finally:
            async with self._changed:
                self._together -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Without others; waits until they have ended."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone)
            self._alone = True
            await self._changed.wait_for(lambda: not self._together)
        try:
            yield
        finally:
            async with self._changed:
                self._alone = False
                self._changed.notify_all()


class Guard:
    """What goes before an engine stage in the bases of a class. `ledger`: the handle of the Ledger's actor."""

    ledger: Any
    IDX_IN_BATCH_COLUMN: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name = uuid.uuid4().hex
        self._turns = Turns()
        self._early = Early(self.ledger)

    async def udf(self, batch: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        """The answers of a batch, and the errors of rows that crash the engine."""
        keys: list[Key] = [(row["part"], row["index"]) for row in batch]
        async with self._turns.together():
            counts = await self.ledger.take.remote(self._name, keys)
            usual = [i for i, count in enumerate(counts) if count < GROUPED]
            if usual:
                async for answer in self._ask(batch, usual):
                    yield answer
                self.ledger.close.remote([keys[i] for i in usual])
        for group in _groups(counts):
            async with self._turns.alone():
                await self.ledger.open.remote(self._name, [keys[i] for i in group])
                async for answer in self._ask(batch, group):
                    yield answer
                await self.ledger.close.remote([keys[i] for i in group])
        for row, count in zip(batch, counts, strict=True):
            if count >= GIVEN_UP:
                yield {
                    self.IDX_IN_BATCH_COLUMN: row[self.IDX_IN_BATCH_COLUMN],
                    ERROR: f"the engine crashed each time it was asked about this row ({count} times)",
                }
        self._early.forget(keys)

    async def _ask(self, batch: list[dict[str, Any]], which: list[int]) -> AsyncIterator[dict[str, Any]]:
        stage: Any = super()
        keys = {batch[i][self.IDX_IN_BATCH_COLUMN]: (batch[i]["part"], batch[i]["index"]) for i in which}
        async for answer in stage.udf([batch[i] for i in which]):
            self._early.add(keys[answer[self.IDX_IN_BATCH_COLUMN]], result(answer))
            yield answer


def _groups(counts: list[int]) -> Iterator[list[int]]:
    """Rows to ask in turn, by their index: small groups, then each alone."""
    grouped = [i for i, count in enumerate(counts) if count == GROUPED]
    yield from (grouped[i : i + GROUP] for i in range(0, len(grouped), GROUP))
    yield from ([i] for i, count in enumerate(counts) if count == ALONE)


def guarded(stage: type[Any], ledger: Any) -> type[Any]:
    """The class of an engine stage with a Guard."""
    return type(f"Guarded{stage.__name__}", (Guard, stage), {"ledger": ledger})
