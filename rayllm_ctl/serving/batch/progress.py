"""What the driver says on stdout: lines that start with `rayllm-batch`, among those of Ray's log."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from rayllm_ctl.serving.batch.outputs import Totals

PREFIX = "rayllm-batch"
EVERY_SECONDS = 5.0
RATE_SECONDS = 60.0
"""Rates are means over this time, so that the estimate follows engines that come and go."""

Phase = Literal["checking", "counting", "starting", "running"]

_lock = threading.Lock()


def say(event: dict[str, Any]) -> None:
    """Print one line, whole, whichever thread it comes from."""
    with _lock:
        sys.stdout.write(f"{PREFIX} {json.dumps(event)}\n")
        sys.stdout.flush()


class Progress:
    """Says every five seconds, at each change of phase and at the first answers, how far the job is."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begin = clock()
        self.phase: Phase = "checking"
        self.rows = 0
        self.resumed = Totals()
        self.seen = Totals()
        self._points: deque[tuple[float, int, int]] = deque()
        self._has_answers = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="progress")

    def __enter__(self) -> Progress:
        self._say()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def to(self, phase: Phase) -> None:
        """Change the phase."""
        if phase != self.phase:
            self.phase = phase
            self._say()

    def answered(self) -> None:
        """There are answers."""
        if not self._has_answers:
            self._has_answers = True
            self._say()

    @property
    def elapsed(self) -> float:
        """Seconds since the driver began."""
        return self._clock() - self._begin

    def event(self) -> dict[str, Any]:
        """The line's content."""
        rows_rate, tokens_rate = self._rates()
        done = self.resumed.rows + self.seen.rows
        return {
            "event": "progress",
            "phase": self.phase,
            "rows": self.rows,
            "done": done,
            "errors": self.resumed.errors + self.seen.errors,
            "resumed": self.resumed.rows,
            "promptTokens": self.resumed.prompt_tokens + self.seen.prompt_tokens,
            "completionTokens": self.resumed.completion_tokens + self.seen.completion_tokens,
            "rowsPerSecond": round(rows_rate, 2),
            "tokensPerSecond": round(tokens_rate, 1),
            "etaSeconds": round((self.rows - done) / rows_rate) if rows_rate else None,
            "elapsedSeconds": round(self.elapsed, 1),
        }

    def _rates(self) -> tuple[float, float]:
        """Rows and completion tokens per second."""
        now = self._clock()
        if self.phase == "running":
            self._points.append((now, self.seen.rows, self.seen.completion_tokens))
        while len(self._points) > 2 and now - self._points[0][0] > RATE_SECONDS:
            self._points.popleft()
        if len(self._points) < 2 or (passed := now - self._points[0][0]) <= 0:
            return 0.0, 0.0
        _, rows, tokens = self._points[0]
        return (self.seen.rows - rows) / passed, (self.seen.completion_tokens - tokens) / passed

    def _say(self) -> None:
        say(self.event())

    def _run(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            self._say()
