"""Rows that crash the engine, with an engine of this process that "crashes" by an exception."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rayllm_ctl.serving.batch.inference.crashes import GIVEN_UP, MOST_IN_A_ROW, Ledger, guarded


class Crash(Exception):
    pass


class Remote:
    """The handle of an actor: methods whose results are awaited."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def __getattr__(self, name: str) -> Any:
        method: Callable[..., Any] = getattr(self.ledger, name)

        class Method:
            @staticmethod
            def remote(*args: Any) -> Any:
                done = asyncio.get_running_loop().create_future()
                done.set_result(method(*args))
                return done

        return Method


class Stage:
    """Answers rows; `deadly` ones crash it. `sizes`: rows that each engine was asked for at once."""

    IDX_IN_BATCH_COLUMN = "idx"
    deadly: frozenset[int] = frozenset()
    sizes: list[int]

    async def udf(self, batch: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        self.sizes.append(len(batch))
        await asyncio.sleep(0)
        if any(row["index"] in self.deadly for row in batch):
            raise Crash
        for row in batch:
            yield {"idx": row["idx"], "answer": row["index"]}


def engine(ledger: Ledger, deadly: set[int]) -> Any:
    stage: Any = guarded(Stage, Remote(ledger))
    made = stage()
    made.deadly, made.sizes = frozenset(deadly), []
    return made


async def answers(stage: Any, rows: range) -> dict[int, Any]:
    batch = [{"part": 0, "index": index, "idx": i} for i, index in enumerate(rows)]
    return {rows[out["idx"]]: out.get("__inference_error__") or out["answer"] async for out in stage.udf(batch)}


def until_done(ledger: Ledger, deadly: set[int], rows: range, most: int) -> tuple[dict[int, Any], int, list[int]]:
    """Start engines until one has answered the batch: answers, crashes, and what the last was asked for at once."""
    for crashes in range(most + 1):
        stage = engine(ledger, deadly)
        try:
            return asyncio.run(answers(stage, rows)), crashes, stage.sizes
        except Crash:
            continue
    raise AssertionError(f"{most} crashes were not enough")


def test_a_row_that_crashes_the_engine_has_an_error_and_all_others_an_answer() -> None:
    found, crashes, _ = until_done(Ledger(), {21}, range(64), GIVEN_UP)
    assert crashes == GIVEN_UP
    assert found.pop(21) == "the engine crashed each time it was asked about this row (4 times)"
    assert found == {i: i for i in range(64) if i != 21}


def test_rows_that_were_beside_it_are_not_asked_alone_again() -> None:
    ledger = Ledger()
    until_done(ledger, {3}, range(64), GIVEN_UP)
    found, crashes, sizes = until_done(ledger, set(), range(4, 64), 0)
    assert (len(found), crashes, sizes) == (60, 0, [60])


def test_several_rows_cost_a_crash_each_in_addition() -> None:
    deadly = {0, 1, 40}
    found, crashes, _ = until_done(Ledger(), deadly, range(64), 8)
    assert crashes <= GIVEN_UP + 2 * (len(deadly) - 1)
    assert {index for index, answer in found.items() if isinstance(answer, str)} == deadly


def test_an_engine_that_answers_nothing_ends_the_job() -> None:
    ledger = Ledger()
    with pytest.raises(RuntimeError, match=f"crashed {MOST_IN_A_ROW} times in a row without answering a row"):
        until_done(ledger, set(range(400)), range(400), MOST_IN_A_ROW + 1)


def test_a_task_that_ray_repeats_on_the_same_engine_is_no_crash() -> None:
    ledger = Ledger()
    assert [ledger.take("one", [(0, 0)]) for _ in range(5)] == [[0]] * 5
    assert ledger.take("two", [(0, 0)]) == [1]


def test_a_suspected_row_is_alone_with_the_engine() -> None:
    from rayllm_ctl.serving.batch.inference.crashes import Turns

    turns, now, seen = Turns(), 0, []

    async def use(turn: Any) -> None:
        nonlocal now
        async with turn():
            now += 1
            await asyncio.sleep(0.001)
            seen.append((turn.__name__, now))
            now -= 1

    async def all_of_them() -> None:
        await asyncio.gather(*(use(turn) for turn in (turns.together, turns.together, turns.alone, turns.together)))

    asyncio.run(all_of_them())
    assert ("alone", 1) in seen
    assert ("together", 2) in seen


class Slow:
    """A stage whose rows beyond the first wait until they are released."""

    IDX_IN_BATCH_COLUMN = "idx"

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def udf(self, batch: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        for row in batch:
            if row["index"]:
                await self.release.wait()
            yield {"idx": row["idx"], "generated_text": f"t{row['index']}", "__inference_error__": ""}


def test_an_answer_does_not_wait_for_the_rest_of_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    from rayllm_ctl.serving.batch.inference import early

    monkeypatch.setattr(early, "SEND_SECONDS", 0.0)
    ledger = Ledger()

    async def ask() -> tuple[Any, Any]:
        stage = guarded(Slow, Remote(ledger))()
        batch = [{"part": 3, "index": index, "idx": index} for index in range(2)]
        begun = asyncio.ensure_future(_all(stage.udf(batch)))
        arrived: list[dict[str, Any]] = []
        while not arrived:
            await asyncio.sleep(0)
            engines, arrived = ledger.news()
        stage.release.set()
        await begun
        await asyncio.sleep(0)
        return (engines, arrived), ledger.news()

    (engines, arrived), (_, later) = asyncio.run(ask())
    assert engines == 1
    assert [(row["part"], row["index"], row["generated_text"]) for row in arrived] == [(3, 0, "t0")]
    # The other came with its batch.
    assert later == []


async def _all(rows: AsyncIterator[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row async for row in rows]
