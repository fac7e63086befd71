"""Rate limits: which windows a request counts in, what the client is told, and what an unreachable store means."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from rayllm_ctl.serving.gateway.limits.limiter import FAILURES, RateLimiter, format_duration, open_limits
from rayllm_ctl.serving.gateway.limits.windows import (
    Charge,
    MemoryStore,
    Outcome,
    StoreUnavailableError,
    Window,
)
from rayllm_ctl.serving.gateway.settings import LimitSettings, Rate, RateLimits, RedisSettings
from rayllm_ctl.serving.gateway.steps import ANONYMOUS, Admission, Client, Metric

ALICE = Client("alice")
ADDRESS = "192.0.2.7"


class Counters:
    def __init__(self) -> None:
        self.counted: list[tuple[str, str]] = []

    def add(self, metric: Metric, value: float, labels: Sequence[str]) -> None:
        assert value == 1
        self.counted.append((metric.name, *labels))  # type: ignore[arg-type]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def limiter(clock: Clock, settings: LimitSettings) -> RateLimiter:
    return RateLimiter(settings, MemoryStore(clock), Counters())


def told(admission: Admission) -> dict[str, str]:
    return {name.decode().removeprefix("x-ratelimit-"): value.decode() for name, value in admission.headers}


def test_requests_and_tokens_of_key_and_address() -> None:
    clock = Clock()
    limits = limiter(clock, LimitSettings(RateLimits(Rate(3, 60), Rate(1000, 60)), RateLimits(Rate(4, 3600))))

    async def run() -> None:
        first = await limits.admit(ALICE, ADDRESS, "qwen", 400)
        assert (first.rejection, told(first)) == (
            None,
            {
                "limit-requests": "3", "remaining-requests": "2", "reset-requests": "1m0s",
                "limit-tokens": "1000", "remaining-tokens": "600", "reset-tokens": "1m0s",
            },
        )  # fmt: skip
        clock.now += 10.5
        limits.produced(ALICE, ADDRESS, 500)
        limits.produced(ALICE, ADDRESS, 300)
        limits.produced(ALICE, ADDRESS, 0)
        await asyncio.sleep(0.15)
        rejected = await limits.admit(ALICE, ADDRESS, "qwen", 1)
        assert rejected.rejection is not None
        assert rejected.rejection.message == (
            'Rate limit reached for qwen, tokens per minute of key "alice": '
            "limit 1000, used 1200, requested 1; try again in 50 s"
        )
        assert (rejected.rejection.status, rejected.rejection.code) == (429, "rate_limit_exceeded")
        assert rejected.rejection.headers == ((b"retry-after", b"50"),), "49.5 s, rounded up"
        assert (told(rejected)["remaining-requests"], told(rejected)["remaining-tokens"]) == ("2", "0")
        large = (await limits.admit(ALICE, ADDRESS, "qwen", 1001)).rejection
        assert large is not None
        assert large.headers == ((b"retry-after", b"60"), (b"x-should-retry", b"false"))
        assert large.message.endswith("requested 1001; the request exceeds the limit by itself")
        limits.withdraw(first)
        limits.withdraw(rejected)
        for _ in range(3):
            clock.now += 61
            assert (await limits.admit(ALICE, ADDRESS, "qwen", 1000)).rejection is None
        fifth = await limits.admit(Client("bob"), ADDRESS, "qwen", 1000)
        assert fifth.rejection is None, "the first was taken back: a 4xx counts against no limit"
        limits.withdraw(fifth)
        assert (await limits.admit(Client("carol"), ADDRESS, "qwen", 1)).rejection is None
        last = await limits.admit(Client("dave"), ADDRESS, "qwen", 1)
        assert last.rejection is not None
        assert "requests per hour of address 192.0.2.7" in last.rejection.message
        assert told(last)["reset-requests"] == "1h0m0s"
        assert dict(await limits.standing(Client("dave"), ADDRESS))[b"x-ratelimit-remaining-tokens"] == b"1000"
        await limits.close()

    asyncio.run(run())


def test_keys_with_limits_of_their_own_and_clients_without_a_key() -> None:
    limits = limiter(Clock(), LimitSettings(RateLimits(Rate(3, 60), Rate(50, 60)), RateLimits(tokens=Rate(70, 60))))
    bob = Client("bob", limits=RateLimits(requests=Rate(9, 600)))

    async def run() -> None:
        admission = await limits.admit(bob, ADDRESS, "qwen", 10)
        assert (told(admission)["limit-requests"], told(admission)["limit-tokens"]) == ("9", "50")
        anonymous = await limits.admit(ANONYMOUS, ADDRESS, "qwen", 10)
        assert told(anonymous) == {"limit-tokens": "70", "remaining-tokens": "50", "reset-tokens": "1m0s"}
        assert await limits.standing(None, ADDRESS) == anonymous.headers
        per_key = limiter(Clock(), LimitSettings(RateLimits(Rate(3, 60))))
        assert await per_key.admit(ANONYMOUS, ADDRESS, "qwen", 10) == Admission()
        assert await per_key.standing(None, ADDRESS) == ()

    asyncio.run(run())


class Unreachable(MemoryStore):
    async def charge(self, charges: Sequence[Charge]) -> Outcome:
        raise StoreUnavailableError

    async def look(self, windows: Sequence[Window]) -> Outcome:
        raise StoreUnavailableError


@pytest.mark.parametrize("failure", ["allow", "deny"])
def test_an_unreachable_store(failure: str) -> None:
    settings = LimitSettings(RateLimits(Rate(3, 60)), on_redis_failure=failure)  # type: ignore[arg-type]
    counters = Counters()
    limits = RateLimiter(settings, Unreachable(), counters)

    async def run() -> None:
        admission = await limits.admit(ALICE, ADDRESS, "qwen", 1)
        assert admission.headers == ((b"x-ratelimit-limit-requests", b"3"),)
        assert await limits.standing(ALICE, ADDRESS) == admission.headers
        if failure == "allow":
            assert admission.rejection is None
            limits.withdraw(admission)
        else:
            assert admission.rejection is not None
            assert (admission.rejection.status, admission.rejection.headers) == (503, ((b"retry-after", b"1"),))
        assert counters.counted == [(FAILURES.name, "allowed" if failure == "allow" else "denied")]

    asyncio.run(run())


class Closable(MemoryStore):
    closed = False

    async def close(self) -> None:
        self.closed = True


def test_other_settings_go_on_with_what_was_counted() -> None:
    async def run() -> None:
        settings = LimitSettings(RateLimits(Rate(3, 60), Rate(100, 60)))
        store = Closable()
        before = RateLimiter(settings, store, Counters())
        assert (await before.admit(ALICE, ADDRESS, "qwen", 1)).rejection is None
        before.produced(ALICE, ADDRESS, 50)
        after = open_limits(LimitSettings(RateLimits(Rate(2, 60), Rate(90, 60))), Counters(), before)
        await before.close()
        assert not store.closed
        admission = await after.admit(ALICE, ADDRESS, "qwen", 1)
        assert (told(admission)["remaining-requests"], told(admission)["remaining-tokens"]) == ("0", "38")
        assert (await after.admit(ALICE, ADDRESS, "qwen", 1)).rejection is not None
        elsewhere = open_limits(LimitSettings(settings.per_key, redis=RedisSettings("redis://h:1")), Counters(), after)
        await after.close()
        assert store.closed
        await elsewhere.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.0161, "17ms"), (0.9999, "1s"), (1.5, "1.5s"), (90.03, "1m30.03s"), (360, "6m0s"), (3600, "1h0m0s")],
)
def test_durations_have_the_form_of_openai(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
