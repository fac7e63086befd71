"""Rate limits per key and per address: requests and tokens in moving windows.

All windows of a request are charged together or none is. The tokens of a prompt are charged with the request, those of
the answer as they are produced, even beyond the limit: then no request is admitted until enough has left the window.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from rayllm_ctl.serving.gateway.limits.windows import (
    NEVER,
    Charge,
    MemoryStore,
    Outcome,
    Standing,
    Store,
    StoreUnavailableError,
    Window,
)
from rayllm_ctl.serving.gateway.settings import LimitSettings, Rate, RateLimits
from rayllm_ctl.serving.gateway.steps import ANONYMOUS, Admission, Client, Metric, Metrics, Rejection

PASSWORD_VARIABLE: Final = "RAYLLM_REDIS_PASSWORD"  # noqa: S105
WRITE_INTERVAL: Final = 0.1
"""Seconds for which the tokens of answers are collected before they are written."""

FAILURES: Final = Metric(
    "rayllm_gateway_limit_failures",
    "Requests and writes for which the Redis of the rate limits was unreachable, by what happened to them.",
    ("outcome",),
)

_Headers = tuple[tuple[bytes, bytes], ...]
_REQUESTS: Final = "requests"
_TOKENS: Final = "tokens"
_UNITS: Final = {1: "second", 60: "minute", 3600: "hour", 86400: "day"}


def open_limits(settings: LimitSettings, metrics: Metrics, before: RateLimiter | None = None) -> RateLimiter:
    """Limits by `settings`; what was counted `before` still counts if it was counted in the same place."""
    if before is not None and before.settings.redis == settings.redis:
        return RateLimiter(settings, before.hand_over(), metrics)
    if settings.redis is None:
        return RateLimiter(settings, MemoryStore(), metrics)
    # The packages that it needs are not in every image.
    from rayllm_ctl.serving.gateway.limits.redis_store import RedisStore

    def lost() -> None:
        metrics.add(FAILURES, 1, ("lost",))

    return RateLimiter(settings, RedisStore(settings.redis, os.environ.get(PASSWORD_VARIABLE), lost), metrics)


class RateLimiter:
    """Rate limits in a store, which is closed with them unless it was handed over."""

    def __init__(self, settings: LimitSettings, store: Store, metrics: Metrics) -> None:
        self.settings = settings
        self._store = store
        self._owned = True
        self._metrics = metrics
        self._produced: Counter[Window] = Counter()

    def hand_over(self) -> Store:
        """The store, for limits by other settings."""
        self._owned = False
        return self._store

    async def admit(self, client: Client, address: str, model: str, prompt_tokens: int) -> Admission:
        """Count one request and the tokens of its prompt, unless a limit is reached; all limits or none are charged."""
        costs = {_REQUESTS: 1, _TOKENS: prompt_tokens}
        charges = [Charge(window, costs[window.unit]) for window in self._windows(client, address)]
        if not charges:
            return Admission()
        try:
            outcome = await self._store.charge(charges)
        except StoreUnavailableError:
            return self._unavailable(charges)
        headers = _headers(charges, outcome.standings)
        if outcome.admitted:
            return Admission(headers, charge=(charges, outcome))
        return Admission(headers, _rejection(charges, outcome.standings, model))

    def withdraw(self, admission: Admission) -> None:
        """Take back what was counted: the application answered with a status of 4xx. Written in the background."""
        match admission.charge:
            case (list() as charges, Outcome() as outcome):
                self._store.withdraw(charges, outcome.time)

    def produced(self, client: Client, address: str, tokens: int) -> None:
        """Count tokens of an answer as they are produced, every few chunks of a stream; written in the background."""
        windows = [window for window in self._windows(client, address) if window.unit == _TOKENS]
        if not windows or tokens <= 0:
            return
        if not self._produced:
            asyncio.get_running_loop().call_later(WRITE_INTERVAL, self._write)
        for window in windows:
            self._produced[window] += tokens

    async def standing(self, client: Client | None, address: str) -> _Headers:
        """The x-ratelimit-* headers of a response to a request that is not counted; None if the key was rejected."""
        windows = self._windows(client or ANONYMOUS, address)
        if not windows:
            return ()
        charges = [Charge(window, 0) for window in windows]
        try:
            return _headers(charges, (await self._store.look(windows)).standings)
        except StoreUnavailableError:
            return _headers(charges, ())

    async def close(self) -> None:
        """Write what is pending and close the connections, unless the store was handed over."""
        self._write()
        if self._owned:
            await self._store.close()

    def _write(self) -> None:
        charges = [Charge(window, tokens) for window, tokens in self._produced.items()]
        self._produced.clear()
        if charges:
            self._store.add(charges)

    def _windows(self, client: Client, address: str) -> tuple[Window, ...]:
        windows = _windows("address", address, self.settings.per_address)
        if client.name:
            limits = self.settings.per_key
            if own := client.limits:
                limits = RateLimits(own.requests or limits.requests, own.tokens or limits.tokens)
            windows = _windows("key", client.name, limits) + windows
        return windows

    def _unavailable(self, charges: Sequence[Charge]) -> Admission:
        headers = _headers(charges, ())
        if self.settings.on_redis_failure == "allow":
            self._metrics.add(FAILURES, 1, ("allowed",))
            return Admission(headers)
        self._metrics.add(FAILURES, 1, ("denied",))
        return Admission(headers, _retry(503, "The rate limits cannot be checked", "rate_limits_unavailable", "1"))


@lru_cache(maxsize=1024)
def _windows(scope: str, name: str, limits: RateLimits) -> tuple[Window, ...]:
    rates: tuple[tuple[str, Rate | None], ...] = ((_REQUESTS, limits.requests), (_TOKENS, limits.tokens))
    return tuple(Window(scope, name, unit, rate.amount, rate.seconds) for unit, rate in rates if rate)


def _headers(charges: Sequence[Charge], standings: Sequence[Standing]) -> _Headers:
    """OpenAI's headers, of the windows in which least is left; without standings only the limits are known."""
    headers: list[tuple[bytes, bytes]] = []
    for unit in (_REQUESTS, _TOKENS):
        limits = [charge.window.limit for charge in charges if charge.window.unit == unit]
        if not limits:
            continue
        values = {"limit": str(min(limits))}
        left = [
            (max(0, charge.window.limit - standing.used), charge.window.limit, standing.reset)
            for charge, standing in zip(charges, standings, strict=bool(standings))
            if charge.window.unit == unit
        ]
        if left:
            remaining, limit, reset = min(left)
            values = {"limit": str(limit), "remaining": str(remaining), "reset": format_duration(reset)}
        headers += [(f"x-ratelimit-{name}-{unit}".encode(), value.encode()) for name, value in values.items()]
    return tuple(headers)


def _rejection(charges: Sequence[Charge], standings: Sequence[Standing], model: str) -> Rejection:
    charge, standing = max(zip(charges, standings, strict=True), key=lambda pair: pair[1].wait)
    window = charge.window
    whose = f'key "{window.name}"' if window.scope == "key" else f"address {window.name}"
    text = (
        f"Rate limit reached for {model}, {window.unit} per {_format_period(window.period)} of {whose}: "
        f"limit {window.limit}, used {standing.used}, requested {charge.cost}"
    )
    if standing.wait == NEVER:
        # OpenAI's clients obey x-should-retry; others wait as long as the window is.
        headers = ((b"retry-after", str(window.period).encode()), (b"x-should-retry", b"false"))
        return Rejection(429, f"{text}; the request exceeds the limit by itself", "rate_limit_exceeded", None, headers)
    wait = str(max(1, math.ceil(standing.wait)))
    return _retry(429, f"{text}; try again in {wait} s", "rate_limit_exceeded", wait)


def _retry(status: int, message: str, code: str, after: str) -> Rejection:
    return Rejection(status, message, code, headers=((b"retry-after", after.encode()),))


def _format_period(seconds: int) -> str:
    unit, name = max((unit, name) for unit, name in _UNITS.items() if seconds % unit == 0)
    return name if seconds == unit else f"{seconds // unit} {name}s"


def format_duration(seconds: float) -> str:
    """A duration as OpenAI's headers have it, rounded up to milliseconds: 17ms, 1.5s, 6m0s, 1h0m0s."""
    milliseconds = math.ceil(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
