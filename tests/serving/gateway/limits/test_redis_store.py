"""The connection to Redis: batches, restarts, silence, and what an outage costs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rayllm_ctl.serving.gateway.limits import redis_store as limits_redis
from rayllm_ctl.serving.gateway.limits.patience import Patience
from rayllm_ctl.serving.gateway.limits.redis_store import RedisStore
from rayllm_ctl.serving.gateway.limits.windows import Charge, StoreUnavailableError, Window
from rayllm_ctl.serving.gateway.settings import RedisSettings
from tests.serving.gateway.fakeredis import FakeServer

WINDOW = Window("key", "alice", "requests", 1000, 60)


class Fixture:
    def __init__(self, server: FakeServer, password: str | None = None) -> None:
        self.server = server
        self.lost = 0
        url = f"redis://127.0.0.1:{server.port}/0"
        self.store = RedisStore(RedisSettings(url, "llm/qwen"), password, self.count)

    def count(self) -> None:
        self.lost += 1

    async def used(self) -> int | None:
        """What is used after one more charge; None if Redis does not answer."""
        try:
            return (await self.store.charge([Charge(WINDOW, 1)])).standings[0].used
        except StoreUnavailableError:
            return None

    async def recover(self) -> None:
        async with asyncio.timeout(10):
            while self.store._probe is not None:
                await asyncio.sleep(0.001)


@asynccontextmanager
async def connected(password: str | None = None, given: str | None = None) -> AsyncIterator[Fixture]:
    server = FakeServer(password)
    await server.start()
    fixture = Fixture(server, given)
    try:
        yield fixture
    finally:
        await fixture.store.close()
        await server.stop()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_redis, "PROBE_INTERVAL", 0.002)


def test_calls_that_wait_go_together_and_a_restarted_redis_gets_the_scripts(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with connected() as redis:
            assert await asyncio.gather(*(redis.used() for _ in range(50))) == list(range(1, 51))
            assert max(redis.server.batches) >= 40, "few trips for many requests"
            assert list(redis.server.redis.lists) == ["llm/qwen:key:alice:requests:60"]
            redis.server.known.clear()
            assert await redis.used() == 51
            outcome = await redis.store.charge([Charge(WINDOW, 1)])
            redis.store.add([Charge(WINDOW, 7)])
            redis.store.withdraw([Charge(WINDOW, 1)], outcome.time)
            assert await redis.used() == 51 + 7 + 1
            await redis.server.stop()
            await redis.server.start()
            assert await redis.used() in (1, None)
            await redis.recover()
            assert await redis.used() in (1, 2)

    asyncio.run(run())
    assert "unreachable" not in caplog.text or "reachable again" in caplog.text


def test_an_outage_costs_little_and_ends_without_a_restart(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with connected() as redis:
            assert await redis.used() == 1
            redis.server.silent = True
            assert await asyncio.gather(*(redis.used() for _ in range(20))) == [None] * 20
            while redis.store._probe is None:
                assert await redis.used() is None
                await asyncio.sleep(0.001)
            with pytest.raises(StopIteration) as ended:  # at its first step: it waits for nothing
                redis.used().send(None)
            assert ended.value.value is None
            redis.store.add([Charge(WINDOW, 5)])
            await asyncio.sleep(0)
            assert redis.lost == 1
            redis.server.silent = False
            await redis.recover()
            # Calls that got no reply may have been counted.
            used = await redis.used()
            assert used is not None
            assert await redis.used() == used + 1
            await redis.server.stop()
            assert await redis.used() is None
            await redis.server.start()
            await redis.recover()
            assert await redis.used() == 1

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO", "ERROR", "INFO"]


def test_passwords_and_rejected_commands(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with connected("hidden", "hidden") as redis:
            assert await redis.used() == 1
            redis.server.broken = "OOM command not allowed when used memory > 'maxmemory'."
            assert await asyncio.gather(*(redis.used() for _ in range(5))) == [None] * 5
            redis.server.broken = ""
            assert await redis.used() == 2
        async with connected("hidden", "wrong-one") as redis:
            assert await redis.used() is None

    asyncio.run(run())
    assert caplog.text.count("command not allowed") == 1
    assert "hidden" not in caplog.text
    assert "wrong-one" not in caplog.text


def test_a_closed_store_leaves_nobody_waiting() -> None:
    async def run() -> None:
        async with connected() as redis:
            redis.server.silent = True
            waiting = [asyncio.create_task(redis.used()) for _ in range(3)]
            await asyncio.sleep(0.01)
            waiting[0].cancel()
            redis.store.add([Charge(WINDOW, 5)])
            await redis.store.close()
            assert await asyncio.gather(*waiting[1:]) == [None, None]

    asyncio.run(run())


def test_patience_is_not_lost_while_the_process_is_busy() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[str] = loop.create_future()
        warned: list[str] = []
        with Patience(0.04, 0.02, lambda: warned.append("late")):
            loop.call_later(0.001, time.sleep, 0.08)
            loop.call_later(0.002, reply.set_result, "late")
            assert await reply == "late"
        assert not warned
        with pytest.raises(TimeoutError), Patience(0.02, 0.01, lambda: warned.append("late")):
            await asyncio.sleep(10)
        assert warned == ["late"]
        task = asyncio.create_task(patient())
        await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def patient() -> None:
        with Patience(5, 5, lambda: None):
            await asyncio.sleep(10)

    asyncio.run(run())
