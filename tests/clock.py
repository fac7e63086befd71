"""A clock that stands still until something sleeps: a test sets it as the `time` of a module."""

from __future__ import annotations


class Clock:
    """`monotonic` and `sleep` as those of the module time. `now` may be set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
