"""Who is computed when, who joins and leaves, and what a failed step does to whom."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from rayllm_ctl.serving.generation.batcher import Batcher
from rayllm_ctl.serving.generation.generator import GenerationFailed, Generator
from rayllm_ctl.serving.generation.parameters import Parameters, read_parameters
from rayllm_ctl.serving.generation.runner import DeviceLost, OutOfMemory, Runner
from rayllm_ctl.serving.generation.sequences import Output
from rayllm_ctl.serving.generation.settings import Settings
from tests.serving.generation.fakerunner import END, FakeRunner

SETTINGS = Settings("float32", max_model_len=100, max_batch_size=4, gpus=0, cpus=1)


def parameters(**fields: Any) -> Parameters:
    return read_parameters({"prompt": "x", **fields}, SETTINGS, chat=False)


class Bench:
    """A generator over a fake model, whose tokens are read as `<number>`."""

    def __init__(self, runner: Runner, rows: int = 4) -> None:
        self.batcher = Batcher(runner, rows)
        self.batcher.start()
        self.generator = Generator(self.batcher, lambda ids: "".join(f"<{one}>" for one in ids), [END])

    async def outputs(self, *prompts: Sequence[int], **fields: Any) -> list[Output]:
        given = parameters(**fields)
        async with aclosing(self.generator.generate(prompts, [50] * len(prompts), given)) as outputs:
            return [output async for output in outputs]

    async def text(self, *prompt: int, **fields: Any) -> str:
        return "".join(output.text for output in await self.outputs(prompt, **fields))

    async def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.001)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 20))


def test_a_request_joins_one_that_is_computed_and_does_not_wait_for_its_end() -> None:
    async def test() -> None:
        runner = FakeRunner(stepwise=True)
        assert runner.go is not None
        bench = Bench(runner)
        long = asyncio.create_task(bench.text(100, 30))
        await bench.until(lambda: bench.batcher.figures().running == 1)
        runner.go.release(3)
        await bench.until(lambda: len(runner.sizes) == 3)
        short = asyncio.create_task(bench.text(200, 2))
        await asyncio.sleep(0.01)
        runner.go.release(4)
        assert await short == "<200><201>"
        assert not long.done()
        runner.go.release(60)
        assert await long == "".join(f"<{100 + place}>" for place in range(30))
        assert set(runner.sizes) == {1, 2}
        assert bench.batcher.figures()[:2] == (0, 0)
        assert bench.batcher.figures().tokens == 31 + 3

    run(test())


def test_no_more_are_computed_than_there_are_rows_and_the_others_wait_in_order() -> None:
    async def test() -> None:
        runner = FakeRunner(stepwise=True)
        assert runner.go is not None
        bench = Bench(runner, rows=2)
        ended: list[int] = []

        async def ask(first: int) -> None:
            await bench.text(first, 5)
            ended.append(first)

        tasks = [asyncio.create_task(ask(first)) for first in (100, 200, 300)]
        await bench.until(lambda: bench.batcher.figures()[:2] == (2, 1))
        runner.go.release(100)
        await asyncio.gather(*tasks)
        assert ended[2] == 300
        assert max(runner.sizes) == 2

    run(test())


@pytest.mark.parametrize("waits", [False, True], ids=["computed", "waiting"])
def test_a_cancelled_request_frees_its_place(waits: bool) -> None:
    async def test() -> None:
        runner = FakeRunner(stepwise=True)
        assert runner.go is not None
        bench = Bench(runner, rows=1)
        first = asyncio.create_task(bench.text(100, 40))
        await bench.until(lambda: bench.batcher.figures().running == 1)
        second = asyncio.create_task(bench.text(200, 1))
        await bench.until(lambda: bench.batcher.figures().waiting == 1)
        (second if waits else first).cancel()
        await asyncio.sleep(0.01)
        assert bench.batcher.figures().waiting == (0 if waits else 1)
        runner.go.release(100)
        assert await (first if waits else second)
        assert len(runner.sizes) < 45

    run(test())


def test_two_batches_that_cannot_be_joined_take_turns() -> None:
    async def test() -> None:
        runner = FakeRunner(stepwise=True, joins=False)
        assert runner.go is not None
        bench = Bench(runner)
        first = asyncio.create_task(bench.text(100, 6))
        await bench.until(lambda: bench.batcher.figures().running == 1)
        second = asyncio.create_task(bench.text(200, 2))
        runner.go.release(100)
        assert await second == "<200><201>"
        assert await first == "<100><101><102><103><104><105>"
        assert set(runner.sizes) == {1}

    run(test())


def test_a_batch_is_not_held_in_memory_once_it_is_joined() -> None:
    async def test() -> None:
        runner = FakeRunner(stepwise=True, apart=True)
        assert runner.go is not None
        bench = Bench(runner)
        first = asyncio.create_task(bench.text(100, 4))
        await bench.until(lambda: runner.in_step)
        others = [asyncio.create_task(bench.text(200 + place, 2)) for place in range(3)]
        await bench.until(lambda: bench.batcher.figures().waiting == 3)
        runner.go.release(20)
        await asyncio.gather(first, *others)
        assert runner.held == [4, 3, 2]

    run(test())


def test_batches_that_could_not_be_joined_fail_and_the_others_go_on() -> None:
    async def test() -> None:
        runner = FakeRunner(stepwise=True, apart=True)
        assert runner.go is not None
        bench = Bench(runner)
        first = asyncio.create_task(bench.text(100, 4))
        await bench.until(lambda: runner.in_step)
        second, *others = [asyncio.create_task(bench.text(200 + 100 * place, 2)) for place in range(3)]
        await bench.until(lambda: bench.batcher.figures().waiting == 3)
        runner.fail_join = OutOfMemory("full")
        runner.go.release(20)
        assert await asyncio.gather(*others) == ["<300><301>", "<400><401>"]
        for failed in (first, second):
            with pytest.raises(GenerationFailed) as raised:
                await failed
            assert raised.value.failure.status == 503
        assert bench.batcher.figures()[:2] == (0, 0)

    run(test())


def test_out_of_memory_fails_what_was_computed_and_the_next_request_succeeds() -> None:
    async def test() -> None:
        runner = FakeRunner()
        runner.fail = OutOfMemory()
        bench = Bench(runner)
        with pytest.raises(GenerationFailed) as failed:
            await bench.text(100, 3)
        assert (failed.value.failure.status, failed.value.failure.code) == (503, "out_of_memory")
        assert runner.recovered == 1
        assert await bench.text(200, 1) == "<200>"
        runner.fail = ValueError("of this request")
        with pytest.raises(GenerationFailed) as failed:
            await bench.text(100, 3)
        assert failed.value.failure.status == 500
        assert "of this request" not in failed.value.failure.message
        assert bench.batcher.alive

    run(test())


def test_a_lost_device_ends_the_thread_and_all_requests() -> None:
    async def test() -> None:
        runner = FakeRunner()
        runner.fail = DeviceLost()
        bench = Bench(runner, rows=1)
        waiting = asyncio.gather(bench.text(100, 3), bench.text(200, 3), return_exceptions=True)
        failures = [error.failure.code for error in await waiting if isinstance(error, GenerationFailed)]
        assert failures == ["replica_lost", "replica_lost"]
        assert not bench.batcher.alive
        with pytest.raises(GenerationFailed):
            await bench.text(300, 1)

    run(test())


def test_a_device_that_is_lost_by_the_first_step_ends_all_requests_too() -> None:
    async def test() -> None:
        runner = FakeRunner()
        bench = Bench(runner)

        def begin(generations: list[Any]) -> Any:
            raise DeviceLost

        runner.begin = begin  # type: ignore[method-assign]
        runner.divide = lambda generations: [[one] for one in generations]  # type: ignore[method-assign]
        with pytest.raises(GenerationFailed) as failed:
            await bench.outputs((100, 3), (200, 3), n=2)
        assert failed.value.failure.code == "replica_lost"
        await bench.until(lambda: not bench.batcher.alive)

    run(test())


def test_while_a_beam_search_runs_others_are_computed() -> None:
    async def test() -> None:
        runner = FakeRunner()
        bench = Bench(runner, rows=4)
        search = bench.outputs((10, 5), decoding="beam_search", num_beams=3, n=2)
        found, text = await asyncio.gather(search, bench.text(100, 3))
        assert text == "<100><101><102>"
        ends = {output.index: output for output in found if output.finish_reason}
        assert {index: (output.finish_reason, output.tokens) for index, output in ends.items()} == {
            0: ("stop", 2), 1: ("stop", 2),
        }  # fmt: skip
        assert sorted(output.text for output in found if output.text) == ["<10>", "<20>"]

    run(test())


def test_each_answer_has_an_index_and_a_seed_of_its_own() -> None:
    async def test() -> None:
        seeds: list[int | None] = []
        runner = FakeRunner()
        begin = runner.begin

        def begun(generations: list[Any]) -> Any:
            seeds.extend(generation.seed for generation in generations)
            return begin(generations)

        runner.begin = begun  # type: ignore[method-assign]
        bench = Bench(runner)
        found = await bench.outputs((100, 1), (200, 1), n=2, seed=7)
        assert sorted((output.index, output.text) for output in found if output.text) == [
            (0, "<100>"), (1, "<100>"), (2, "<200>"), (3, "<200>"),
        ]  # fmt: skip
        assert sorted(seed for seed in seeds if seed is not None) == [7, 8, 9, 10]

    run(test())


def test_an_answer_ends_at_its_length_or_at_a_stop_sequence() -> None:
    async def test() -> None:
        bench = Bench(FakeRunner())
        for fields, text, reason, tokens in (
            ({"max_tokens": 3}, "<100><101><102>", "length", 3),
            ({"stop": "><102"}, "<100><101", "stop", 3),
            ({"stop": ["zz", "1>"], "max_tokens": 9}, "<100><10", "stop", 2),
            ({}, "<100><101><102><103>", "stop", 5),
        ):
            prompts = (100, 4)
            given = parameters(**fields)
            room = given.max_tokens or 50
            async with aclosing(bench.generator.generate([prompts], [room], given)) as outputs:
                found = [output async for output in outputs]
            assert "".join(output.text for output in found) == text
            assert (found[-1].finish_reason, found[-1].tokens) == (reason, tokens)

    run(test())
