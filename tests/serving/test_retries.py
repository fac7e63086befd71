"""Which requests are sent to another replica when theirs is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from rayllm_ctl.serving import retries


class Lost(Exception):
    """Stands for the errors that mean a lost replica."""


class Replicas:
    """What each call yields; an exception among it is raised. `count`: how many replicas there are at each look."""

    def __init__(self, *calls: list[Any], count: tuple[int, ...] = (1,)) -> None:
        self._calls, self._count = list(calls), list(count)
        self.calls = self.looks = 0
        self.closed: list[int] = []
        self.retried: list[Exception] = []

    def answers(self) -> AsyncGenerator[Any, None]:
        return retries.answers(self._call, lambda error: isinstance(error, Lost), self._replicas, self.retried.append)

    async def all(self) -> list[Any]:
        return [part async for part in self.answers()]

    async def _call(self) -> AsyncGenerator[Any, None]:
        number, self.calls = self.calls, self.calls + 1
        try:
            for part in self._calls[number]:
                await asyncio.sleep(0)
                if isinstance(part, Exception):
                    raise part
                yield part
        finally:
            self.closed.append(number)

    def _replicas(self) -> int:
        self.looks += 1
        return self._count.pop(0) if len(self._count) > 1 else self._count[0]


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "PAUSE", 0.001)
    monkeypatch.setattr(retries, "PATIENCE", 0.05)


def test_an_answer_is_passed_on() -> None:
    for parts in ([], ["whole"], ["a", "b", "c"]):
        replicas = Replicas(parts)
        assert asyncio.run(replicas.all()) == parts
        assert (replicas.calls, replicas.retried) == (1, [])


def test_a_replica_that_is_lost_before_the_first_part_is_replaced_by_another() -> None:
    lost = Lost("first")
    replicas = Replicas([lost], ["a", "b"])
    assert asyncio.run(replicas.all()) == ["a", "b"]
    assert (replicas.calls, replicas.retried) == (2, [lost])


def test_an_answer_that_has_begun_is_not_repeated() -> None:
    replicas = Replicas(["a", Lost("later")], ["a", "b"])
    parts: list[Any] = []

    async def read() -> None:
        async for part in replicas.answers():
            parts.append(part)

    with pytest.raises(Lost, match="later"):
        asyncio.run(read())
    assert (parts, replicas.calls) == (["a"], 1)


def test_a_request_that_ends_its_replicas_gets_no_third_one() -> None:
    replicas = Replicas([Lost("first")], [Lost("second")], ["a"])
    with pytest.raises(Lost, match="second"):
        asyncio.run(replicas.all())
    assert replicas.calls == 2


@pytest.mark.parametrize("error", [ValueError("invalid"), RuntimeError("failed")])
def test_what_a_replica_answers_with_is_no_loss(error: Exception) -> None:
    replicas = Replicas([error], ["a"])
    with pytest.raises(type(error)):
        asyncio.run(replicas.all())
    assert (replicas.calls, replicas.looks) == (1, 0)


def test_another_replica_is_waited_for_but_not_for_long() -> None:
    replicas = Replicas([Lost("first")], ["a"], count=(0, 0, 1))
    assert asyncio.run(replicas.all()) == ["a"]
    assert replicas.looks == 3
    alone = Replicas([Lost("first")], ["a"], count=(0,))
    with pytest.raises(Lost, match="first"):
        asyncio.run(alone.all())
    assert (alone.calls, alone.retried) == (1, [])
    assert 1 < alone.looks <= retries.PATIENCE / retries.PAUSE


async def _cancelled(replicas: Replicas, when: Callable[[], bool]) -> None:
    task = asyncio.create_task(replicas.all())
    while not when():
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_client_that_disconnects_ends_the_wait_and_the_retry() -> None:
    waits = Replicas([Lost("first")], ["a"], count=(0,))
    asyncio.run(_cancelled(waits, lambda: waits.looks > 1))
    assert waits.calls == 1
    again = Replicas([Lost("first")], ["a"] * 1000)
    asyncio.run(_cancelled(again, lambda: again.calls == 2))
    assert (again.calls, again.closed) == (2, [0, 1])


@pytest.mark.parametrize("calls", [[["a", "b"]], [[Lost("first")], ["a", "b"]]])
def test_a_reader_that_stops_closes_the_call(calls: list[list[Any]]) -> None:
    replicas = Replicas(*calls)

    async def read() -> None:
        answers = replicas.answers()
        assert await anext(answers) == "a"
        await answers.aclose()
        assert len(replicas.closed) == len(calls)

    asyncio.run(read())
