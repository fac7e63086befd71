"""Moving windows: so much within any stretch of time of a given length, counted in this process.

Every cost is an entry with its time; an entry counts until the period has passed since. So at no moment do the costs of
the period before it exceed the limit, wherever that period begins. Several windows are charged together or not at all.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

NEVER = float("inf")

SLICES = 1000
"""What is added without a condition (tokens of answers) shares an entry within this part of the period."""


@dataclass(frozen=True, slots=True)
class Window:
    """One window: whose it is, what it counts, how much of it and in how many seconds."""

    scope: str
    """`key` or `address`."""
    name: str
    unit: str
    """`requests` or `tokens`."""
    limit: int
    period: int
    identity: str = field(init=False, compare=False)
    """Without the limit: after a change of the limit, what was counted still counts."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", f"{self.scope}:{self.name}:{self.unit}:{self.period}")


@dataclass(frozen=True, slots=True)
class Charge:
    """What a request costs in a window."""

    window: Window
    cost: int


@dataclass(frozen=True, slots=True)
class Standing:
    """How a window stands."""

    used: int
    """May exceed the limit: what has happened is counted in any case."""
    reset: float
    """Seconds until the window is empty."""
    wait: float
    """Seconds until the cost would fit; 0 if it does, NEVER if it exceeds the limit by itself."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a charge; standings in the order of the charges."""

    admitted: bool
    time: int
    """Of the entries, for `withdraw`, in the clock and unit of the store."""
    standings: tuple[Standing, ...]


class StoreUnavailableError(Exception):
    """The store of the windows does not answer."""


class Store(Protocol):
    """Where windows are."""

    async def charge(self, charges: Sequence[Charge]) -> Outcome:
        """Charge all windows, or none if one of the costs does not fit. Raises StoreUnavailableError."""

    async def look(self, windows: Sequence[Window]) -> Outcome:
        """How windows stand. Raises StoreUnavailableError."""

    def add(self, charges: Sequence[Charge]) -> None:
        """Charge even what does not fit, soon."""

    def withdraw(self, charges: Sequence[Charge], time: int) -> None:
        """Take back what `charge` charged at `time`, soon."""

    async def close(self) -> None:
        """Write what is still to be written, and disconnect."""


class _Entries:
    """The entries of one window, oldest first."""

    __slots__ = ("entries", "slice", "used")

    def __init__(self) -> None:
        self.entries: deque[tuple[int, int]] = deque()
        self.used = 0
        self.slice = -1
        """Of the newest entry, if more may be added to it."""

    def expire(self, before: int) -> None:
        while self.entries and self.entries[0][0] < before:
            self.used -= self.entries.popleft()[1]


_SECOND = 1_000_000


class MemoryStore:
    """Windows of this process."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        # Those of one period in the order of their last entry, so that empty ones are found without a search.
        self._periods: dict[int, OrderedDict[str, _Entries]] = {}

    async def charge(self, charges: Sequence[Charge]) -> Outcome:
        now = self._time()
        found = [self._entries(charge.window, now) for charge in charges]
        admitted = all(
            entries.used + charge.cost <= charge.window.limit for entries, charge in zip(found, charges, strict=True)
        )
        if admitted:
            found = self._write(charges, now, merge=False)
        return _outcome(charges, found, now, admitted=admitted)

    async def look(self, windows: Sequence[Window]) -> Outcome:
        now = self._time()
        found = [self._entries(window, now) for window in windows]
        return _outcome([Charge(window, 0) for window in windows], found, now, admitted=True)

    def add(self, charges: Sequence[Charge]) -> None:
        self._write(charges, self._time(), merge=True)

    def withdraw(self, charges: Sequence[Charge], time: int) -> None:
        for charge in charges:
            entries = self._entries(charge.window, self._time())
            for place in range(len(entries.entries) - 1, -1, -1):
                if entries.entries[place] == (time, charge.cost):
                    del entries.entries[place]
                    entries.used -= charge.cost
                    break

    async def close(self) -> None:
        pass

    def _time(self) -> int:
        return int(self._now() * _SECOND)

    def _entries(self, window: Window, now: int) -> _Entries:
        windows = self._periods.get(window.period)
        entries = windows.get(window.identity) if windows else None
        if entries is None:
            return _Entries()
        entries.expire(now - window.period * _SECOND)
        return entries

    def _write(self, charges: Sequence[Charge], now: int, *, merge: bool) -> list[_Entries]:
        """Add entries, and return those of each window."""
        written = []
        for charge in charges:
            if not charge.cost:
                written.append(self._entries(charge.window, now))
                continue
            windows = self._periods.setdefault(charge.window.period, OrderedDict())
            identity = charge.window.identity
            entries = windows.get(identity)
            if entries is None:
                entries = windows[identity] = _Entries()
            written.append(entries)
            slice = now * SLICES // (charge.window.period * _SECOND) if merge else -1
            before = entries.entries.pop()[1] if merge and slice == entries.slice and entries.entries else 0
            entries.entries.append((now, before + charge.cost))
            entries.slice = slice
            entries.used += charge.cost
            windows.move_to_end(identity)
            # At most two for each that is written: they become fewer, and no request pays for all of them.
            for _ in range(2):
                name, oldest = next(iter(windows.items()))
                oldest.expire(now - charge.window.period * _SECOND)
                if oldest.entries:
                    break
                del windows[name]
        return written


def _outcome(charges: Sequence[Charge], found: Sequence[_Entries], now: int, *, admitted: bool) -> Outcome:
    standings = (
        _standing(charge, entries, now, admitted=admitted) for charge, entries in zip(charges, found, strict=True)
    )
    return Outcome(admitted, now, tuple(standings))


def _standing(charge: Charge, entries: _Entries, now: int, *, admitted: bool) -> Standing:
    period = charge.window.period * _SECOND
    reset = (entries.entries[-1][0] + period - now) / _SECOND if entries.entries else 0.0
    excess = 0 if admitted else entries.used + charge.cost - charge.window.limit
    if excess <= 0:
        return Standing(entries.used, reset, 0.0)
    if charge.cost > charge.window.limit:
        return Standing(entries.used, reset, NEVER)
    freed = accumulate(cost for _, cost in entries.entries)
    enough = next(at for (at, _), cost in zip(entries.entries, freed, strict=True) if cost >= excess)
    # An entry counts up to and including the end of its period.
    return Standing(entries.used, reset, (enough + period - now + 1) / _SECOND)
