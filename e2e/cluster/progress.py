"""One line per step on stderr, with the seconds since the start."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

Progress = Callable[[str], None]


def to_stderr() -> Progress:
    """A function that prints a line on stderr, preceded by the seconds since this call."""
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - start:6.1f} s  {text}", file=sys.stderr, flush=True)

    return say


@contextlib.contextmanager
def repeating(progress: Progress, text: str, seconds: float = 60.0) -> Iterator[None]:
    """Say `text` again and again while the block runs, so that what takes minutes does not look stuck."""
    done = threading.Event()

    def repeat() -> None:
        while not done.wait(seconds):
            progress(text)

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
