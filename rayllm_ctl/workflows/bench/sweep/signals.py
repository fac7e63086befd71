"""Ctrl-C and SIGTERM while something has to be put in order before the command ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupts:
    """Counts Ctrl-C and SIGTERM, and raises KeyboardInterrupt for each. To be used in the main thread.

    While `held` the first one only counts: what is being put in order continues.
    """

    def __init__(self) -> None:
        self.count = 0
        self._holding = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # as of a command in the background
                self._before[number] = before
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def take(self) -> None:
        """Take the signals, again where others had them: an event loop leaves Python's own handlers behind."""
        for number in self._before:
            signal.signal(number, self._interrupted)

    def note(self) -> None:
        """Count one that others have taken."""
        self.count = max(self.count, 1)

    def check(self) -> None:
        """Raise KeyboardInterrupt where there was one while `held`."""
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
