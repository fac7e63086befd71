"""Reads of files in order, by several requests at once, each repeated while it makes no progress for too long.

Memory: at most FILES times WINDOW parts are held, of PART_BYTES each.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

from rayllm_ctl.serving.storage.events import TROUBLE, DownloadProgress
from rayllm_ctl.serving.storage.failures import Stopped, Temporary
from rayllm_ctl.serving.storage.sources.remote import ModelSource, Remote

FILES = 4
"""Files at once."""
WINDOW = 4
"""Parts of one file at once."""
PART_BYTES = 8 << 20
PATIENCE_SECONDS = 600.0
"""How long a request is repeated without progress."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0

_T = TypeVar("_T")


class SourceReader:
    """Reads files of a source until one fails."""

    def __init__(self, source: ModelSource, progress: DownloadProgress) -> None:
        self._source, self._progress = source, progress
        self._parts = ThreadPoolExecutor(FILES * WINDOW, thread_name_prefix="part")
        self._stop = threading.Event()

    def __enter__(self) -> SourceReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._parts.shutdown(cancel_futures=True)

    def stop(self) -> None:
        """End all reads."""
        self._stop.set()

    def check(self) -> None:
        """Stopped if reads have been ended."""
        if self._stop.is_set():
            raise Stopped

    def chunks(self, file: Remote, start: int) -> Iterator[bytes | bytearray]:
        """The content of a file from a byte on, in order."""
        if not file.ranges or file.size - start <= PART_BYTES:
            yield from self._patiently(file, start, file.size)
            return
        starts = iter(range(start, file.size, PART_BYTES))
        pending: deque[Future[bytearray]] = deque()
        try:
            while True:
                while len(pending) < WINDOW and (first := next(starts, None)) is not None:
                    pending.append(self._parts.submit(self._part, file, first))
                if not pending:
                    return
                yield pending.popleft().result()
        finally:
            for part in pending:
                part.cancel()

    def _part(self, file: Remote, start: int) -> bytearray:
        stop = min(start + PART_BYTES, file.size)
        found, end = bytearray(stop - start), 0
        for chunk in self._patiently(file, start, stop):
            found[end : end + len(chunk)] = chunk
            end += len(chunk)
        return found

    def _patiently(self, file: Remote, start: int, stop: int) -> Iterator[bytes]:
        """Bytes of a file. After a failure that may pass, reading continues where it ended."""
        retries = Retries(self._stop)
        while start < stop:
            self.check()
            try:
                before = start
                for chunk in self._source.stream(file, start, stop):
                    start += len(chunk)
                    self._progress.add(len(chunk), file.name)
                    self.check()
                    yield chunk
                    retries.reset()
                if start == before:
                    return  # The file is shorter than it was; its checks tell that.
            except Temporary as error:
                retries.wait(error)


class Retries:
    """The pauses between the tries of one request."""

    def __init__(self, stop: threading.Event | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stop, self._clock = stop or threading.Event(), clock
        self.reset()

    def reset(self) -> None:
        """Note progress."""
        self._since: float | None = None
        self._pause = _FIRST_PAUSE

    def wait(self, error: Temporary) -> None:
        """Pause before the next try. The failure itself if there was no progress for too long."""
        now = self._clock()
        if self._since is None:
            self._since = now
        pause = error.after if error.after is not None else self._pause * random.uniform(0.5, 1)  # noqa: S311
        if now + pause - self._since > PATIENCE_SECONDS:
            raise error.failure
        TROUBLE.say(error.failure, pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        if self._stop.wait(pause):
            raise Stopped


def retried(call: Callable[[], _T]) -> _T:
    """The result of a call, which is repeated while it fails for a reason that may pass."""
    retries = Retries()
    while True:
        try:
            return call()
        except Temporary as error:
            retries.wait(error)
