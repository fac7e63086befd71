"""The queue in front of the models: how many requests wait, and when no more may.

What waits is counted where it waits: of the requests that entered in this process, those that no replica of their model
has taken. The replicas of the ingress have equal shares of the bound, so that it holds without asking one another.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from rayllm_ctl.serving.gateway.settings import QueueSettings
from rayllm_ctl.serving.gateway.steps import Load, LoadSource, QueueFigures, Rejection

RATE_PERIOD: Final = 60.0
"""Seconds of which the rate of completions is the mean."""

PATIENCE: Final = 0.05
"""Seconds that a request of a burst waits while none before it reaches a replica that is said to have capacity.

Longer waits end in a rejection as well where a replica has become free: Serve's router looks again only after up to
0.5 s, and then takes those that wait already. They took up to 190 ms with 0.5 s here, and answered no more requests.
"""

LONGEST_WAIT: Final = 0.5
"""Seconds after which it is rejected although others still reach replicas."""

_POLL: Final = 0.005
_LONGEST_RETRY: Final = 60
_RETRY_UNMEASURED: Final = 5
_NOTHING: Final = Load(pending=0, running=0, replicas=0, capacity=0)


class SharedQueue:
    """This ingress replica's part of the queue."""

    def __init__(
        self, settings: QueueSettings | None, source: LoadSource, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._source = source
        self._entered: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()
        """Of those that entered, the ones that replicas took."""
        self._arrived = 0
        """How many entered so far."""
        self._completions = _Completions(now)

    def configure(self, settings: QueueSettings | None) -> None:
        """Take up other settings; requests keep their places."""
        self._settings = settings

    async def enter(self, model: str) -> Place | Rejection:
        """A place, or a rejection with status 503 and Retry-After.

        It is rejected at once if all replicas are busy. Otherwise those before it are on their way to them, and it
        enters when they have arrived.
        """
        polls = idle = 0
        while (waiting := self._too_many(model)) is not None:
            if polls >= LONGEST_WAIT / _POLL or idle >= PATIENCE / _POLL or self._busy(model):
                return self._rejection(waiting)
            arrived = self._arrived
            await asyncio.sleep(_POLL)
            polls += 1
            # Each that enters took the place of one that a replica took.
            idle = 0 if self._arrived > arrived else idle + 1
        if not self._entered:
            self._completions.begin()
        self._entered[model] += 1
        self._arrived += 1
        return Place(self, model)

    def taken(self, model: str) -> None:
        """A replica took a request."""
        self._taken[model] += 1

    def left(self, model: str, *, taken: bool, completed: bool) -> None:
        """A request gave up its place."""
        self._entered[model] -= 1
        self._taken[model] -= taken
        if not self._entered[model]:
            del self._entered[model], self._taken[model]
        if completed:
            self._completions.add()
        if not self._entered:
            self._completions.end()

    async def figures(self) -> QueueFigures:
        """Of all ingress replicas and models, as Serve reported last."""
        loads = self._source.load().values()
        # What entered here may not have reached a router yet.
        here = sum(self._waiting(model) for model in self._entered if self._busy(model))
        pending = max(here, sum(load.pending for load in loads))
        rate = self._completions.rate()
        return QueueFigures(
            pending=pending,
            running=sum(load.running for load in loads),
            replicas=sum(load.replicas for load in loads),
            max_pending=self._settings.max_pending if self._settings else None,
            estimated_wait_seconds=pending / (rate * self._source.ingress_replicas()) if rate else None,
        )

    def _too_many(self, model: str) -> int | None:
        """How many requests wait here, if they are as many as may.

        None if a replica seems to have capacity and nothing waits for it: what waits for others does not matter then.
        """
        if self._settings is None:
            return None
        waiting = sum(map(self._waiting, self._entered))
        if waiting < self._share(self._settings.max_pending) or not (self._waiting(model) or self._busy(model)):
            return None
        return waiting

    def _waiting(self, model: str) -> int:
        """Requests of this process that no replica of the model has taken."""
        return self._entered[model] - self._taken[model]

    def _busy(self, model: str) -> bool:
        """Whether the replicas of the model processed all that they can when Serve reported last."""
        load = self._source.load().get(model, _NOTHING)
        return load.running >= load.capacity

    def _share(self, max_pending: int) -> int:
        # Not less than one: without a request that waits, a model that was scaled to zero would not start again.
        return max(1, max_pending // self._source.ingress_replicas())

    def _rejection(self, waiting: int) -> Rejection:
        rate = self._completions.rate()
        after = min(_LONGEST_RETRY, max(1, math.ceil(waiting / rate))) if rate else _RETRY_UNMEASURED
        message = f"Too many requests are waiting; try again in {after} s"
        return Rejection(503, message, "queue_full", headers=((b"retry-after", str(after).encode()),))


class Place:
    """The place of one request."""

    __slots__ = ("_model", "_queue", "_taken")

    def __init__(self, queue: SharedQueue, model: str) -> None:
        self._queue = queue
        self._model = model
        self._taken = False

    def taken(self) -> None:
        """A replica accepted the request. It may do so again after the replica was lost, which changes nothing."""
        if not self._taken:
            self._taken = True
            self._queue.taken(self._model)

    def leave(self, *, completed: bool) -> None:
        """Called exactly once; `completed` if the application's response ended, which the estimated wait is made of."""
        self._queue.left(self._model, taken=self._taken, completed=completed)


class _Completions:
    """The rate at which responses end while there are requests."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since = now()
        self._times: deque[float] = deque(maxlen=4096)
        self._before: float | None = None
        """The rate of the last time when there were requests."""

    def begin(self) -> None:
        """There are requests again: the time without any is not part of the rate."""
        self._times.clear()
        self._since = self._now()

    def end(self) -> None:
        """There are no more requests."""
        self._before = self.rate()

    def add(self) -> None:
        self._times.append(self._now())

    def rate(self) -> float | None:
        """Completions per second; None before the first."""
        now = self._now()
        begin = max(self._since, now - RATE_PERIOD)
        if len(self._times) == self._times.maxlen:
            begin = max(begin, self._times[0])
        while self._times and self._times[0] < begin:
            self._times.popleft()
        return len(self._times) / (now - begin) if self._times and now > begin else self._before
