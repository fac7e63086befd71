"""One line per step on stderr, with the seconds since the start."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

Progress = Callable[[str], None]


def to_stderr() -> Progress:
    """A function that prints a line on stderr, preceded by the seconds since this call."""
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - start:6.1f} s  {text}", file=sys.stderr, flush=True)

    return say


class Parts:
    """A Progress for parts that are made side by side: each line says how many of them are finished."""

    def __init__(self, progress: Progress, names: Sequence[str]) -> None:
        self._progress = progress
        self._remaining = list(names)
        self._total = len(names)
        self._lock = threading.Lock()

    def __call__(self, text: str) -> None:
        self._progress(f"[{self._total - len(self._remaining)}/{self._total}] {text}")

    def finish(self, name: str) -> None:
        """Count the part of that name as finished, and say which remain. Nothing where it was not to be made."""
        with self._lock:
            if name in self._remaining:
                self._remaining.remove(name)
                remaining = ", ".join(self._remaining)
                self(f"{name} is ready" + (f"; remaining: {remaining}" if remaining else ""))


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
