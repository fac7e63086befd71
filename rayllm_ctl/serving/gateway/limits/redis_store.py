"""Moving windows in a Redis, which all replicas of the ingress share.

The storage and its connection are those of the package `limits`. Its own moving window takes a trip to Redis for each
window and the clock of the caller, stores an entry for each token and cannot take a charge back. So the windows are
scripts here: one trip for all windows of a request, and the clock of Redis, by which all requests have one order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha1
from typing import Any, Final, cast

from limits.aio.storage import RedisStorage
from limits.aio.storage.redis.redispy import RedispyBridge
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from rayllm_ctl.serving.gateway.limits.patience import Patience
from rayllm_ctl.serving.gateway.limits.redis_scripts import CHARGE, WITHDRAW
from rayllm_ctl.serving.gateway.limits.windows import (
    NEVER,
    Charge,
    Outcome,
    Standing,
    StoreUnavailableError,
    Window,
)
from rayllm_ctl.serving.gateway.settings import RedisSettings

LOG = logging.getLogger("rayllm.gateway")

REPLY_TIMEOUT: Final = 0.08
"""Seconds without a reply after which no request waits any longer."""
CONNECTION_TIMEOUT: Final = 0.25
"""Seconds without a reply after which the connection is given up."""
PROBE_INTERVAL: Final = 0.25
PROBE_TIMEOUT: Final = 1.0
"""A new connection takes several trips, with TLS, and no request waits for it."""
LOG_INTERVAL: Final = 10.0

_LARGEST_BATCH: Final = 64
_SECOND: Final = 1_000_000
_FAILURES: Final = (RedisError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class _Call:
    script: str
    keys: tuple[str, ...]
    arguments: tuple[str | int, ...]
    reply: asyncio.Future[bytes]


class RedisStore:
    """Windows in Redis. Made in a running event loop, where it connects at once.

    Calls that wait are sent together, on one connection. After a failure none is sent until a probe, which runs in the
    background, has reached Redis: of an outage only the requests notice that were there when it began.
    """

    def __init__(self, settings: RedisSettings, password: str | None, lost: Callable[[], None]) -> None:
        options: dict[str, Any] = {
            "socket_connect_timeout": PROBE_TIMEOUT,
            "socket_timeout": PROBE_TIMEOUT,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
        }
        if password:
            options["password"] = password
        storage = RedisStorage(f"async+{settings.url}", implementation="redispy", **options)
        self._redis = cast("Redis", cast(RedispyBridge, storage.bridge).get_connection())
        self._prefix = settings.prefix
        self._lost = lost
        """Called for each charge that was due and could not be written."""
        self._calls: list[_Call] = []
        # Connected before the first request: that takes several trips.
        self._sender = asyncio.get_running_loop().create_task(self._send(connect=True))
        self._probe: asyncio.Task[None] | None = None
        self._late = False
        self._logged = -LOG_INTERVAL

    async def charge(self, charges: Sequence[Charge]) -> Outcome:
        """Charge all windows, or none if one of the costs does not fit. Raises StoreUnavailableError."""
        return await self._charge("charge", charges)

    async def look(self, windows: Sequence[Window]) -> Outcome:
        """How windows stand. Raises StoreUnavailableError."""
        return await self._charge("add", [Charge(window, 0) for window in windows])

    def add(self, charges: Sequence[Charge]) -> None:
        """Charge even what does not fit, soon."""
        self._later(CHARGE, charges, _arguments("add", charges))

    def withdraw(self, charges: Sequence[Charge], time: int) -> None:
        """Take back what `charge` charged at `time`, soon."""
        self._later(WITHDRAW, charges, (time, *(charge.cost for charge in charges)))

    async def close(self) -> None:
        """Send what waits, and disconnect."""
        await asyncio.wait({self._sender}, timeout=REPLY_TIMEOUT)
        for task in (self._sender, self._probe):
            if task:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        await self._redis.aclose()

    async def _charge(self, mode: str, charges: Sequence[Charge]) -> Outcome:
        reply = await self._call(CHARGE, charges, _arguments(mode, charges))
        numbers = [int(item) for item in reply.split()]
        standings = (
            Standing(used, reset / _SECOND, NEVER if wait < 0 else wait / _SECOND)
            for used, wait, reset in zip(numbers[2::3], numbers[3::3], numbers[4::3], strict=True)
        )
        return Outcome(bool(numbers[0]), numbers[1], tuple(standings))

    def _later(self, script: str, charges: Sequence[Charge], arguments: tuple[str | int, ...]) -> None:
        def done(reply: asyncio.Future[bytes]) -> None:
            if reply.cancelled() or reply.exception():
                self._lost()

        self._call(script, charges, arguments).add_done_callback(done)

    def _call(self, script: str, charges: Sequence[Charge], arguments: tuple[str | int, ...]) -> asyncio.Future[bytes]:
        loop = asyncio.get_running_loop()
        call = _Call(script, tuple(map(self._key, charges)), arguments, loop.create_future())
        if self._late or self._probe is not None:
            call.reply.set_exception(StoreUnavailableError())
            return call.reply
        self._calls.append(call)
        if self._sender.done():
            self._sender = loop.create_task(self._send())
        return call.reply

    def _key(self, charge: Charge) -> str:
        return f"{self._prefix}:{charge.window.identity}"

    async def _send(self, *, connect: bool = False) -> None:
        while self._calls or connect:
            most = 0 if connect else _LARGEST_BATCH
            connect = False
            batch, self._calls = self._calls[:most], self._calls[most:]
            try:
                patient = CONNECTION_TIMEOUT if not batch else REPLY_TIMEOUT
                with Patience(CONNECTION_TIMEOUT, patient, partial(self._give_up, batch)):
                    replies = await self._execute(batch)
            except BaseException as error:
                # Cancelled or failed: nobody may wait for a reply that does not come.
                self._give_up(batch)
                self._late = False
                if not isinstance(error, _FAILURES):
                    raise
                LOG.error("Redis of the rate limits is unreachable: %s", _reason(error))
                self._probe = asyncio.get_running_loop().create_task(self._recover())
                return
            self._late = False
            for call, reply in zip(batch, replies, strict=True):
                if isinstance(reply, Exception):
                    self._log_rejection(reply)
                _answer(call, reply)

    async def _execute(self, batch: list[_Call]) -> list[bytes | Exception]:
        """The replies to the calls of `batch`; if it is empty, Redis only gets the scripts."""
        replies = await self._pipeline(batch) if batch else []
        unknown = [place for place, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if unknown or not batch:
            await self._load()
        if unknown:  # Redis was restarted
            for place, reply in zip(unknown, await self._pipeline([batch[place] for place in unknown]), strict=True):
                replies[place] = reply
        return replies

    async def _load(self) -> None:
        for script in (CHARGE, WITHDRAW):
            await self._redis.script_load(script)

    async def _pipeline(self, batch: list[_Call]) -> list[bytes | Exception]:
        async with self._redis.pipeline(transaction=False) as pipeline:
            for call in batch:
                pipeline.execute_command("EVALSHA", _SHA[call.script], len(call.keys), *call.keys, *call.arguments)
            return await pipeline.execute(raise_on_error=False)

    def _give_up(self, batch: list[_Call]) -> None:
        """Let nobody wait any longer for this batch, nor behind it."""
        self._late = True
        for call in batch + self._calls:
            _answer(call, StoreUnavailableError("no reply"))
        self._calls = []

    def _log_rejection(self, error: Exception) -> None:
        """Redis is there but rejects commands, such as for lack of memory: one line from time to time."""
        now = asyncio.get_running_loop().time()
        if now >= self._logged + LOG_INTERVAL:
            self._logged = now
            LOG.error("Redis of the rate limits rejects commands: %s", _reason(error))

    async def _recover(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._load(), PROBE_TIMEOUT)
            except _FAILURES:
                await asyncio.sleep(PROBE_INTERVAL)
            else:
                LOG.info("Redis of the rate limits is reachable again")
                self._probe = None
                return


_SHA: Final = {script: sha1(script.encode(), usedforsecurity=False).hexdigest() for script in (CHARGE, WITHDRAW)}


def _arguments(mode: str, charges: Sequence[Charge]) -> tuple[str | int, ...]:
    numbers = ((charge.window.limit, charge.window.period * _SECOND, charge.cost) for charge in charges)
    return (mode, *(number for three in numbers for number in three))


def _answer(call: _Call, reply: bytes | Exception) -> None:
    if call.reply.done():  # the client is gone
        return
    if isinstance(reply, Exception):
        call.reply.set_exception(StoreUnavailableError(_reason(reply)))
    else:
        call.reply.set_result(reply)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
