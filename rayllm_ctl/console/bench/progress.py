"""The progress of a load test: one line of a terminal, redrawn, or else a line now and then."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from rayllm_ctl.console.bench.results import load_in_words
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.bench.load import LoadProgress
from rayllm_ctl.model.kube.quantities import format_duration

LINE_SECONDS = 10.0
"""Seconds of a load between two lines that stay."""

_BAR = 20
_DEFAULT_WIDTH = 80
_CLEAR = "\r\x1b[K"


@contextmanager
def watching(
    style: Printer, live: bool = True, clock: Callable[[], datetime] = datetime.now
) -> Iterator[Callable[[LoadProgress | str], None]]:
    """Draws the progress of loads. On a terminal it is redrawn on one line, which is cleared at the end; otherwise, and
    if live is False, there is a line for every LINE_SECONDS of a load and one at its end."""
    drawn = _Redrawn(style) if live and style.terminal else _Lines(style, clock)
    try:
        yield drawn.show
    finally:
        drawn.end()


class _Redrawn:
    """Plain control characters: a thread that redraws would take time from the generator."""

    def __init__(self, style: Printer) -> None:
        self._style = style
        self._drawn = False

    def show(self, progress: LoadProgress | str) -> None:
        width = _width(self._style) - 1  # a character in the last column may move the cursor to the next line
        text = progress if isinstance(progress, str) else _fitting(progress, width)
        self._style.stream.write(_CLEAR + text[:width])
        self._style.stream.flush()
        self._drawn = True

    def end(self) -> None:
        if self._drawn:
            self._style.stream.write(_CLEAR)
            self._style.stream.flush()


class _Lines:
    def __init__(self, style: Printer, clock: Callable[[], datetime]) -> None:
        self._style, self._clock = style, clock
        self._number = 0
        self._due = LINE_SECONDS

    def show(self, progress: LoadProgress | str) -> None:
        if isinstance(progress, str):
            self._line(progress)
            return
        if progress.number != self._number:
            self._number, self._due = progress.number, LINE_SECONDS
        if progress.ended:
            took = f" in {format_duration(progress.elapsed)}" if progress.elapsed is not None else ""
            failed = f", {progress.failed:,} failed" if progress.failed else ""
            self._line(f"{_which(progress)}: {progress.done:,} requests{took}{failed}")
        elif progress.elapsed is not None and progress.elapsed >= self._due:
            self._due += LINE_SECONDS * (1 + (progress.elapsed - self._due) // LINE_SECONDS)
            self._line(f"{_which(progress)}: {', '.join(_so_far(progress))}")

    def end(self) -> None:
        """Nothing is left to clear."""

    def _line(self, text: str) -> None:
        self._style.line(f"{self._clock():%H:%M:%S} bench       {text}")


def _fitting(progress: LoadProgress, width: int) -> str:
    """The line with a bar, or without one on a narrow terminal."""
    parts = [_which(progress), *_so_far(progress)]
    filled = int(_BAR * progress.share)
    barred = "  ".join((parts[0], "■" * filled + "·" * (_BAR - filled), *parts[1:]))
    return barred if progress.elapsed is not None and len(barred) <= width else "  ".join(parts)


def _which(progress: LoadProgress) -> str:
    words = load_in_words(progress.load)
    if progress.count == 1:
        return words
    of = "" if progress.count is None else f" of {progress.count}"
    return f"load {progress.number}{of} ({words})"


def _so_far(progress: LoadProgress) -> Iterator[str]:
    """Share, time and requests."""
    if progress.elapsed is None:
        yield "warm-up"
    else:
        yield f"{progress.share:.0%}"
        yield _time(progress, progress.elapsed)
    failed = f", {progress.failed:,} failed" if progress.failed else ""
    yield f"{progress.done:,} done{failed}"
    waits = progress.share == 1 and progress.running
    yield f"waiting for {progress.running:,}" if waits else f"{progress.running:,} in flight"


def _time(progress: LoadProgress, elapsed: float) -> str:
    text, expected = format_duration(elapsed), progress.expected
    if expected is None or progress.share == 1:
        return text
    seconds, certain = expected
    return f"{text} of {'' if certain else '~'}{format_duration(seconds)}"


def _width(style: Printer) -> int:
    try:
        return os.get_terminal_size(style.stream.fileno()).columns or _DEFAULT_WIDTH
    except OSError:  # not a terminal of the operating system
        return _DEFAULT_WIDTH
