"""Defer Ctrl-C and SIGTERM during cleanup."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupts:
    """Counts Ctrl-C and SIGTERM, and raises KeyboardInterrupt for each. Use it in the main thread.

    While `held` the first one is only counted: the cleanup continues.
    """

    def __init__(self) -> None:
        self.count = 0
        self._holding = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # as for a command in the background
                self._before[number] = before
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def take(self) -> None:
        """Install the handlers, again if others replaced them: an event loop leaves Python's own handlers behind."""
        for number in self._before:
            signal.signal(number, self._interrupted)

    def note(self) -> None:
        """Count a signal that another handler received."""
        self.count = max(self.count, 1)

    def check(self) -> None:
        """Raise KeyboardInterrupt if there was one while `held`."""
        if self.count:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Only the second one ends the block."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if not (self._holding and self.count == 1):
            raise KeyboardInterrupt
