"""Moving windows, in this process and as scripts of Redis, against a list of all that ever happened."""

from __future__ import annotations

import asyncio
import random

import pytest

from rayllm_ctl.serving.gateway.limits.windows import NEVER, Charge, MemoryStore, Store, Window
from tests.serving.gateway.fakeredis import FakeRedis, ScriptStore

SECOND = 1_000_000


class Clock:
    """A store and the clock that it goes by."""

    def __init__(self, kind: str) -> None:
        self.redis = FakeRedis()
        self.store: Store
        if kind == "memory":
            self.store = MemoryStore(lambda: self.redis.microseconds / SECOND)
        else:
            self.store = ScriptStore(self.redis)

    @property
    def now(self) -> int:
        return self.redis.microseconds

    def sleep(self, seconds: float) -> None:
        self.redis.microseconds += round(seconds * SECOND)


@pytest.fixture(params=["memory", "script"])
def clock(request: pytest.FixtureRequest) -> Clock:
    return Clock(request.param)


def test_all_windows_or_none(clock: Clock) -> None:
    key = Window("key", "alice", "requests", 2, 60)
    address = Window("address", "10.0.0.1", "tokens", 100, 10)

    async def run() -> None:
        async def charge(tokens: int) -> tuple[bool, list[int]]:
            outcome = await clock.store.charge([Charge(key, 1), Charge(address, tokens)])
            return outcome.admitted, [standing.used for standing in outcome.standings]

        assert await charge(60) == (True, [1, 60])
        assert await charge(41) == (False, [1, 60])
        assert await charge(40) == (True, [2, 100])
        assert await charge(0) == (False, [2, 100])
        clock.sleep(10.000_001)
        assert await charge(1) == (False, [2, 0])
        look = await clock.store.look([key, address])
        assert [standing.used for standing in look.standings] == [2, 0]

    asyncio.run(run())


def test_waits_and_resets_are_exact(clock: Clock) -> None:
    window = Window("key", "alice", "tokens", 10, 60)

    async def run() -> None:
        for cost in (3, 3, 4):
            assert (await clock.store.charge([Charge(window, cost)])).admitted
            clock.sleep(10)
        for cost, wait in ((1, 30.000_001), (3, 30.000_001), (4, 40.000_001), (10, 50.000_001), (11, NEVER)):
            (standing,) = (await clock.store.charge([Charge(window, cost)])).standings
            assert (standing.used, standing.reset, standing.wait) == (10, 50.0, wait)
        clock.sleep(30)
        assert not (await clock.store.charge([Charge(window, 1)])).admitted
        clock.sleep(0.000_001)
        assert (await clock.store.charge([Charge(window, 3)])).admitted
        assert not (await clock.store.charge([Charge(window, 1)])).admitted

    asyncio.run(run())


def test_what_was_produced_counts_beyond_the_limit_and_charges_are_taken_back(clock: Clock) -> None:
    window = Window("key", "alice", "tokens", 10, 60)

    async def run() -> None:
        first = await clock.store.charge([Charge(window, 8)])
        clock.sleep(1)
        clock.store.add([Charge(window, 5)])
        clock.sleep(0.001)
        clock.store.add([Charge(window, 7)])
        (standing,) = (await clock.store.charge([Charge(window, 1)])).standings
        assert (standing.used, standing.wait) == (20, 60.000_001), "8 are not enough of the 20 + 1 - 10"
        clock.store.withdraw([Charge(window, 8)], first.time)
        clock.store.withdraw([Charge(window, 8)], first.time)
        (standing,) = (await clock.store.look([window])).standings
        assert (standing.used, standing.reset) == (12, 60.0)
        clock.sleep(60.000_001)
        second = await clock.store.charge([Charge(window, 10)])
        clock.store.withdraw([Charge(window, 10)], second.time)
        clock.store.withdraw([Charge(window, 10)], second.time)
        assert (await clock.store.charge([Charge(window, 10)])).admitted
        lower = Window("key", "alice", "tokens", 4, 60)
        assert (await clock.store.look([lower])).standings[0].used == 10, "another limit, the same window"

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(6))
def test_no_window_ever_holds_more_than_its_limit(clock: Clock, seed: int) -> None:
    chance = random.Random(seed)
    windows = [
        Window("key", "alice", "requests", 5, 3),
        Window("key", "alice", "tokens", 200, 7),
        Window("address", "10.0.0.1", "requests", 12, 10),
        Window("address", "10.0.0.2", "requests", 1, 1),
    ]
    happened: dict[Window, list[tuple[int, int]]] = {window: [] for window in windows}

    def used(window: Window) -> int:
        return sum(cost for at, cost in happened[window] if at >= clock.now - window.period * SECOND)

    async def run() -> None:
        admitted: list[tuple[int, list[Charge]]] = []
        for _ in range(300):
            clock.sleep(chance.choice([0, 0, 0.000_001, 0.01, 0.2, 1, 1.5]))
            chosen = chance.sample(windows, chance.randint(1, 4))
            charges = [Charge(w, 1 if w.unit == "requests" else chance.choice([0, 1, 30, 90])) for w in chosen]
            fits = all(used(charge.window) + charge.cost <= charge.window.limit for charge in charges)
            outcome = await clock.store.charge(charges)
            assert outcome.admitted == fits
            if fits:
                for charge in charges:
                    happened[charge.window].append((clock.now, charge.cost))
                admitted.append((clock.now, charges))
                # Entries of the same moment and cost cannot be told apart, and need not be.
                if chance.random() < 0.1:
                    at, taken_back = admitted.pop()
                    clock.store.withdraw(taken_back, outcome.time)
                    for charge in taken_back:
                        happened[charge.window].remove((at, charge.cost))
            look = await clock.store.look(windows)
            assert [standing.used for standing in look.standings] == [used(window) for window in windows]
            for charge, standing in zip(charges, outcome.standings, strict=True):
                if not fits and 0 < standing.wait < NEVER:
                    later = clock.now + round(standing.wait * SECOND)
                    assert after(charge, later) <= charge.window.limit < after(charge, later - 1)

    def after(charge: Charge, moment: int) -> int:
        counted = [cost for at, cost in happened[charge.window] if at >= moment - charge.window.period * SECOND]
        return sum(counted) + charge.cost

    asyncio.run(run())


def test_windows_without_entries_are_forgotten(clock: Clock) -> None:
    async def run() -> None:
        for number in range(100):
            await clock.store.charge([Charge(Window("address", f"10.0.0.{number}", "requests", 5, 60), 1)])
        clock.sleep(62)
        for number in range(100):
            window = Window("address", f"10.0.1.{number}", "requests", 5, 60)
            await clock.store.charge([Charge(window, 1)])
        if isinstance(clock.store, MemoryStore):
            assert sum(map(len, clock.store._periods.values())) == 100
        clock.store.add([Charge(window, 3)])
        clock.store.add([Charge(window, 3)])
        if isinstance(clock.store, ScriptStore):
            assert clock.redis.lists[clock.store._key(Charge(window, 0))][:1] == ["7"]
            assert len(clock.redis.lists[clock.store._key(Charge(window, 0))]) == 3, "of one slice, one entry"

    asyncio.run(run())
