"""What a download tells: lines on stdout that start with `rayllm-model`, and its end in the termination log."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from rayllm_ctl.serving.storage.failures import StorageError

EVENT_PREFIX = "rayllm-model"
PROGRESS_SECONDS = 2.0
_RATE_SECONDS = 30.0
"""Rates are means over this time."""
_TROUBLE_SECONDS = 30.0
"""Between two lines about the same reason to repeat requests."""
_TERMINATION_LOG = Path("/dev/termination-log")
_LOG_CHARACTERS = 1000
"""Of a message in the termination log. The kubelet keeps 4096 bytes of the log (kubelet/container/runtime.go)."""

DownloadPhase = Literal["listing", "fetching", "verifying"]

_lock = threading.Lock()


def say_event(event: dict[str, Any]) -> None:
    """Print one line, whole, whichever thread it comes from."""
    with _lock:
        sys.stdout.write(f"{EVENT_PREFIX} {json.dumps(event)}\n")
        sys.stdout.flush()


def note(text: str) -> None:
    """Print a remark for readers of the log."""
    with _lock:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def say_failed(error: StorageError) -> None:
    """Print a failure, and write it where Kubernetes shows it as the message of the container."""
    event = {"event": "failed", "code": error.code, "message": error.message, "hint": error.hint}
    say_event(event)
    if _TERMINATION_LOG.exists():
        short = {name: text[:_LOG_CHARACTERS] for name, text in event.items()}
        try:
            _TERMINATION_LOG.write_text(json.dumps(short), encoding="utf-8")
        except OSError as reason:
            note(f"{_TERMINATION_LOG} cannot be written: {reason}")


class Trouble:
    """Says why requests are repeated: each reason at once, and then now and then while it lasts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._said: dict[tuple[str, str], float] = {}

    def say(self, error: StorageError, pause: float) -> None:
        """Print that a request has failed and is sent again after `pause` seconds."""
        key, now = (error.code, error.message), self._clock()
        with self._lock:
            if now < self._said.get(key, now):
                return
            self._said[key] = now + _TROUBLE_SECONDS
        event = {"event": "retrying", "code": error.code, "message": error.message, "hint": error.hint}
        say_event({**event, "seconds": round(pause, 1)})


TROUBLE = Trouble()
"""That of this process."""


class DownloadProgress:
    """How far a download is; says so every two seconds and at each change of phase."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begin = clock()
        self._lock = threading.Lock()
        self.phase: DownloadPhase = "listing"
        self.total: int | None = None
        self.count = 0
        self.kept = 0
        """Bytes of an earlier run."""
        self.fetched = 0
        """Bytes of this run, also of those that were received twice."""
        self._done = 0
        self._files = 0
        self._name = ""
        self._points: deque[tuple[float, int]] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="progress")

    def __enter__(self) -> DownloadProgress:
        say_event(self.event())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def to(self, phase: DownloadPhase) -> None:
        """Change the phase."""
        if phase != self.phase:
            self.phase = phase
            self._points.clear()
            say_event(self.event())

    def expect(self, total: int, count: int) -> None:
        """Set how much there is, in bytes and files."""
        self.total, self.count, self._done, self._files, self.kept = total, count, 0, 0, 0

    def add(self, size: int, name: str) -> None:
        """Count bytes that came from the source."""
        with self._lock:
            self.fetched += size
            self._done += size
            self._name = name

    def keep(self, size: int) -> None:
        """Count bytes of an earlier run."""
        with self._lock:
            self.kept += size
            self._done += size

    def discard(self, size: int, kept: int) -> None:
        """Take back bytes of a file that is wrong, of which `kept` are of an earlier run."""
        with self._lock:
            self._done -= size
            self.kept -= kept

    def finish_file(self) -> None:
        """Count a file that is complete."""
        with self._lock:
            self._files += 1

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._begin

    def event(self) -> dict[str, Any]:
        """The line's content."""
        with self._lock:
            rate = self._rate()
            left = None if self.total is None or rate <= 0 else round((self.total - self._done) / rate)
            return {
                "event": "progress",
                "phase": self.phase,
                "bytes": self._done,
                "total": self.total,
                "files": self._files,
                "of": self.count,
                "resumed": self.kept,
                "rate": round(rate),
                "seconds_left": left,
                "file": self._name,
            }

    def _rate(self) -> float:
        now = self._clock()
        moved = self.fetched if self.phase == "fetching" else self._done
        self._points.append((now, moved))
        while len(self._points) > 2 and now - self._points[0][0] > _RATE_SECONDS:
            self._points.popleft()
        since, before = self._points[0]
        return max(0.0, (moved - before) / (now - since)) if now > since else 0.0

    def _run(self) -> None:
        while not self._stop.wait(PROGRESS_SECONDS):
            say_event(self.event())
