"""How far a log has been read, so that a reading that broke off is taken up again without repeating lines."""

from __future__ import annotations

import re
import time
from collections import deque

from rayllm_ctl.cluster.snapshot.log_sources import Reading

_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(Z|[+-]\d\d:\d\d)")
"""As the kubelet writes it: of fixed width, so that texts compare as the times do."""

RESUMED_LINES = 1000
"""Lines from the end of a file in which the place is looked for where reading broke off."""

_REMEMBERED = 20
"""Lines by which the place is recognized."""

_SEARCH_SECONDS = 2.0
"""How long it is looked for: by then a file that was rotated has sent what it has."""


class TimePosition:
    """Of a log whose lines come with their times, which are taken off. The server knows times to the second."""

    def __init__(self, tail: int | None) -> None:
        self._tail = tail
        self._last = b""
        self._count = 0  # of the lines with the last time
        self._skip = 0

    def begin(self) -> Reading:
        """How to read the log, for the first time or again."""
        self._skip = self._count
        return Reading(None if self._last else self._tail, follow=True, times=True, since=self._last.decode())

    def take(self, line: bytes) -> list[bytes]:
        """The lines to show now that `line` was read."""
        when, _, text = line.partition(b" ")
        if not _TIME.fullmatch(when):
            return [line]
        if when < self._last:
            return []
        if when > self._last:
            self._last, self._count, self._skip = when, 0, 0
        if self._skip:
            self._skip -= 1
            return []
        self._count += 1
        return [text]


class TailPosition:
    """Of a log of which only an end can be asked for: what comes again is what precedes the lines read last."""

    def __init__(self, tail: int | None) -> None:
        self._tail = tail
        self._last: deque[bytes] = deque(maxlen=_REMEMBERED)
        self._held: list[bytes] | None = None
        self._since = 0.0

    def begin(self) -> Reading:
        """As above."""
        if not self._last:
            return Reading(self._tail, follow=True)
        self._held = []
        return Reading(RESUMED_LINES, follow=True)

    def take(self, line: bytes) -> list[bytes]:
        """As above. Lines are held back until the place is found, or cannot be."""
        if self._held is None:
            self._last.append(line)
            return [line]
        if not self._held:
            self._since = time.monotonic()
        self._held.append(line)
        held, last = self._held, list(self._last)
        if held[-len(last) :] == last:
            self._held = None
            return []
        if len(held) < RESUMED_LINES and time.monotonic() - self._since < _SEARCH_SECONDS:
            return []
        self._held = None
        self._last.extend(held)
        return held
