"""One line per step on stderr, with the seconds since the start."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

Progress = Callable[[str], None]


def to_stderr() -> Progress:
    """A function that prints a line on stderr, preceded by the seconds since this call."""
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - start:6.1f} s  {text}", file=sys.stderr, flush=True)

    return say
