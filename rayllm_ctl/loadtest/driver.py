"""Sends one load: in a closed loop, where clients wait for answers, or in an open one, where requests just arrive."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.loadtest.arrivals import arrivals
from rayllm_ctl.loadtest.connection import Exchange, Pool, clock
from rayllm_ctl.loadtest.overhead import Overhead
from rayllm_ctl.loadtest.request import Requests
from rayllm_ctl.loadtest.samples import Samples
from rayllm_ctl.loadtest.settings import Load, Target

_PREPARED = 2_000
_PREPARED_BYTES = 64 * 2**20
"""Requests that are built in advance, and their bytes; further ones are built when they are sent."""


class Driver:
    """Sends one load and collects the results.

    rows: what to build requests of, without end. samples: takes the finished ones that count.
    """

    def __init__(
        self,
        target: Target,
        load: Load,
        requests: Requests,
        rows: Iterator[Mapping[str, Any]],
        samples: Samples,
        seed: int,
    ) -> None:
        self.samples, self.overhead = samples, Overhead()
        self.started = 0
        self.begun: float | None = None
        """When the load began that counts, on the clock of the test."""
        self._target, self._load, self._requests, self._rows, self._seed = target, load, requests, rows, seed
        self._pool: Pool | None = None
        self._ready: deque[bytes] = deque()
        self._stopped = asyncio.Event()
        self._idle = asyncio.Event()

    @property
    def running(self) -> int:
        """Requests that are on their way."""
        return self._pool.running if self._pool else 0

    async def run(self) -> None:
        """Send everything, and wait for the last answer or for `stop`."""
        self._pool = Pool(self._target, self._load.timeout)
        try:
            if self._load.warmup:
                await self._closed(self._warmup(), lambda _: None)
            if self._stopped.is_set():
                return
            self._prepare()
            self.begun = clock()
            self.overhead.start()
            send = self._open if self._load.rate is not None else self._closed
            await send(self._load, self.samples.add)
        finally:
            self.overhead.stop()
            await self._pool.close()

    def stop(self) -> None:
        """End now: what is on its way is not counted."""
        self._stopped.set()
        self._idle.set()

    def _warmup(self) -> Load:
        clients = self._load.concurrency or min(self._load.warmup, 8)
        return replace(self._load, concurrency=clients, rate=None, requests=self._load.warmup, duration=None, ramp=0.0)

    async def _closed(self, load: Load, add: Callable[[Exchange], None]) -> None:
        assert load.concurrency is not None
        begin, sent, clients = clock(), 0, 0
        self._idle.clear()

        def over() -> bool:
            return (
                self._stopped.is_set()
                or (load.requests is not None and sent >= load.requests)
                or (load.duration is not None and clock() - begin >= load.duration)
            )

        def following(exchange: Exchange) -> None:
            add(exchange)
            again()

        def again() -> None:
            nonlocal sent, clients
            if over():
                clients -= 1
                if clients == 0:
                    self._idle.set()
                return
            sent += 1
            self._send(Exchange(clock(), following))

        count = load.concurrency if load.requests is None else min(load.concurrency, load.requests)
        # All of them before the first begins, which may be the last if the server is not there.
        clients = count
        loop = asyncio.get_running_loop()
        for number in range(count):
            if load.ramp:
                loop.call_later(load.ramp * number / count, again)
            else:
                loop.call_soon(again)
        await self._idle.wait()

    async def _open(self, load: Load, add: Callable[[Exchange], None]) -> None:
        assert self._pool is not None
        begin = clock()
        last = load.duration if load.duration is not None else float("inf")
        count = load.requests if load.requests is not None else float("inf")
        ended = False

        def done(exchange: Exchange) -> None:
            add(exchange)
            if ended and self.running == 0:
                self._idle.set()

        self._idle.clear()
        for number, moment in enumerate(arrivals(load, self._seed)):
            if number >= count or moment >= last:
                break
            if (wait := begin + moment - clock()) > 0 and await self._stopped_within(wait):
                break
            self._send(Exchange(begin + moment, done))
            if number % 64 == 63:
                # A schedule that cannot be kept must not keep answers from being read.
                await asyncio.sleep(0)
            if self._stopped.is_set():
                break
        ended = True
        if self.running and not self._stopped.is_set():
            await self._idle.wait()

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            return False
        return True

    def _send(self, exchange: Exchange) -> None:
        assert self._pool is not None
        self.started += 1
        request = self._ready.popleft() if self._ready else self._requests.build(next(self._rows))
        self._pool.start(request, exchange)

    def _prepare(self) -> None:
        """Build requests before the clock runs: no more than are sent, and not more than the memory can well hold."""
        load = self._load
        expected = load.rate * load.duration if load.rate and load.duration else float("inf")
        count = min(load.requests or _PREPARED, expected, _PREPARED)
        size = 0
        while len(self._ready) < count and size < _PREPARED_BYTES:
            self._ready.append(self._requests.build(next(self._rows)))
            size += len(self._ready[-1])
