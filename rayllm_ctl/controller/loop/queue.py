"""Which key is reconciled next: the keys that changed or are due, one reconciliation per key at a time.

Not thread-safe, and without a clock: `now` is in seconds, of any clock that does not run backwards.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable

from rayllm_ctl.controller.types import Key
from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class Backoff:
    """When keys that failed are tried again.

    first, most: seconds before the first and at most before a later try, doubled each time; each is shortened by up to
    half at random. changed: seconds that a change of a key that failed waits at most. per_second, burst: tries of keys
    that failed, all keys together.
    """

    first: float = 0.5
    most: float = 300.0
    changed: float = 5.0
    per_second: float = 10.0
    burst: int = 100


class KeyQueue:
    """Keys and when they are due. A key is in it once: of several times the earliest counts."""

    def __init__(self, backoff: Backoff | None = None, jitter: Callable[[], float] = random.random) -> None:
        """jitter: a number from 0 to 1, another one each time."""
        self._backoff = backoff or Backoff()
        self._jitter = jitter
        self._due: dict[Key, tuple[float, int]] = {}
        # Of keys that have not failed, and of those that have. Entries that `_due` does not have are obsolete.
        self._first_tries: list[tuple[float, int, Key]] = []
        self._retries: list[tuple[float, int, Key]] = []
        self._count = itertools.count()
        self._running: dict[Key, float | None] = {}
        self._failures: dict[Key, int] = {}
        self._not_before: dict[Key, float] = {}
        self._tokens = float(self._backoff.burst)
        self._filled = float("-inf")

    def mark(self, key: Key, now: float, after: float = 0.0) -> None:
        """Make `key` due in `after` seconds. One that runs is due again when it has ended."""
        due = max(now + after, self._not_before.get(key, now))
        if key in self._running:
            known = self._running[key]
            self._running[key] = due if known is None else min(due, known)
        elif key not in self._due or due < self._due[key][0]:
            self._due[key] = due, next(self._count)
            heapq.heappush(self._heap(key), (*self._due[key], key))

    def take(self, now: float) -> Key | None:
        """The key that has been due for longest, which runs until `succeeded` or `failed`; None if none may run."""
        self._fill(now)
        heaps = [self._first_tries, self._retries] if self._tokens >= 1 else [self._first_tries]
        due = [heap for heap in heaps if (at := self._next(heap)) is not None and at <= now]
        if not due:
            return None
        chosen = min(due, key=lambda heap: heap[0][:2])
        if chosen is self._retries:
            self._tokens -= 1
        _, _, key = heapq.heappop(chosen)
        del self._due[key]
        self._running[key] = None
        return key

    def wait(self, now: float) -> float | None:
        """Seconds until `take` has a key, None: not before something is marked."""
        self._fill(now)
        first, retry = self._next(self._first_tries), self._next(self._retries)
        if retry is not None and self._tokens < 1:
            retry = max(retry, now + (1 - self._tokens) / self._backoff.per_second)
        times = [at for at in (first, retry) if at is not None]
        return max(0.0, min(times) - now) if times else None

    def succeeded(self, key: Key, now: float, after: float | None) -> None:
        """`key` has run, and is due again in `after` seconds."""
        marked = self._running.pop(key)
        self._failures.pop(key, None)
        self._not_before.pop(key, None)
        if marked is not None:
            self.mark(key, now, marked - now)
        if after is not None:
            self.mark(key, now, after)

    def failed(self, key: Key, now: float) -> float:
        """`key` has run and failed. Returns the seconds until it is tried again if nothing changes.

        What changed while it ran, or changes until then, is looked at earlier, though not at once: a try that fails may
        itself be what changes the object.
        """
        marked = self._running.pop(key)
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        # The exponent is bounded, as a number with hundreds of failures in it has no float.
        longest = min(self._backoff.first * 2.0 ** min(failures - 1, 64), self._backoff.most)
        seconds = longest * (1 - self._jitter() / 2)
        self._not_before[key] = now + min(seconds, self._backoff.changed)
        self.mark(key, now, seconds)
        if marked is not None:
            self.mark(key, now, marked - now)
        return seconds

    def depth(self, now: float) -> int:
        """How many keys are due and do not run."""
        return sum(due <= now for due, _ in self._due.values())

    @property
    def running(self) -> tuple[Key, ...]:
        """The keys that run."""
        return tuple(self._running)

    @property
    def failing(self) -> int:
        """How many keys failed when they last ran."""
        return len(self._failures)

    def _heap(self, key: Key) -> list[tuple[float, int, Key]]:
        return self._retries if key in self._failures else self._first_tries

    def _next(self, heap: list[tuple[float, int, Key]]) -> float | None:
        while heap and self._due.get(heap[0][2]) != heap[0][:2]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def _fill(self, now: float) -> None:
        since = min(now - self._filled, float(self._backoff.burst))
        self._tokens = min(float(self._backoff.burst), self._tokens + since * self._backoff.per_second)
        self._filled = now
