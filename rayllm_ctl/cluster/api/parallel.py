"""Parallel requests in daemon threads.

The threads of concurrent.futures are joined at the end of the process: after Ctrl-C it would hang until the API server
has answered the last request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
A = TypeVar("A")

WIDTH = 12
"""Parallel requests: the API server's flow control delays a client with more."""


class Tasks:
    """Runs functions in daemon threads. Leaving the `with` block drops tasks that have not started, without waiting."""

    def __init__(self) -> None:
        self._width = threading.Semaphore(WIDTH)
        self._left = threading.Event()

    def submit(self, work: Callable[..., T], *args: Any) -> Future[T]:
        """Begin `work(*args)` as soon as fewer than WIDTH tasks run."""
        future: Future[T] = Future()

        def run() -> None:
            with self._width:
                if self._left.is_set():
                    future.cancel()
                    return
                try:
                    future.set_result(work(*args))
                except BaseException as error:  # raised in the thread that reads the result
                    future.set_exception(error)

        threading.Thread(target=run, name="request", daemon=True).start()
        return future

    def map(self, work: Callable[[A], T], items: Iterable[A]) -> list[T]:
        """The results of `work` on each item, in order."""
        return [future.result() for future in [self.submit(work, item) for item in items]]

    def __enter__(self) -> Tasks:
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
