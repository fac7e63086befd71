"""The position in a log, so that an interrupted reading resumes without repeated lines."""

from __future__ import annotations

import re
import time
from collections import deque

from rayllm_ctl.cluster.snapshot.log_sources import Reading

_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(Z|[+-]\d\d:\d\d)")
"""The kubelet's format: of fixed width, so that texts compare like the times."""

RESUMED_LINES = 1000
"""Lines from the end of a file in which the interrupted position is searched."""

_REMEMBERED = 20
"""Number of lines that identify the position."""

_SEARCH_SECONDS = 2.0
"""Seconds of this search: by then a rotated file has been sent completely."""


class TimePosition:
    """For a log with timestamps, which are removed. The server accepts times in seconds."""

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
    """For a log of which only the end can be requested: skips everything before the lines read last."""

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
        """As above. Lines are held back until the position is found or the search ends."""
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
