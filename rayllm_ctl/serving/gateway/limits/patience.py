"""A time limit for replies that does not expire because this process was busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Final

_STEP: Final = 0.01


class Patience:
    """Raises TimeoutError in what it encloses after `seconds` in which the event loop was free to take a reply.

    `asyncio.timeout` expires as well if something else blocks the loop meanwhile, although the reply may be there and
    only nobody could read it. Here the time is taken in steps, with a round of the loop between them. After `warning`
    seconds of the same kind it calls `warn`.
    """

    def __init__(self, seconds: float, warning: float, warn: Callable[[], None]) -> None:
        self._steps = round(seconds / _STEP)
        self._warning = round((seconds - warning) / _STEP)
        self._warn = warn
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer:
            self._timer.cancel()
        # Cancelled by the timer and by nobody else, as asyncio.timeout decides it.
        if not self._steps and self._task and self._task.uncancel() <= 0 and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_STEP, self._expire)

    def _expire(self) -> None:
        self._steps -= 1
        if self._steps == self._warning:
            self._warn()
        if self._steps:
            self._wait()
        elif self._task:
            self._task.cancel()
