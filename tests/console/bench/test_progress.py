"""The progress of a load test: a redrawn line on a terminal, lines that stay elsewhere."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import termios
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import pytest

from rayllm_ctl.console.bench.progress import watching
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.bench.load import LoadProgress

BEGUN = LoadProgress(
    {"concurrency": 16, "duration": 30.0}, number=2, count=3, done=214, failed=2, running=16, elapsed=12.0, ended=False
)
BY_REQUESTS = replace(BEGUN, load={"concurrency": 4, "requests": 200}, done=50, failed=0, running=4)
RATE = {"rate": 8.0, "arrivals": "poisson", "duration": 30.0}


def noon() -> datetime:
    return datetime(2026, 11, 29, 12, 0, 0)


@pytest.fixture
def terminal() -> Iterator[int]:
    """The file descriptor of a terminal."""
    master, end = pty.openpty()
    yield end
    os.close(master)
    os.close(end)


def drawn(end: int, columns: int, *shown: LoadProgress | str) -> list[str]:
    """What stands on the line of a terminal, each time it is redrawn, and what is left at the end."""
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    class Terminal(io.StringIO):
        def fileno(self) -> int:
            return end

    stream = Terminal()
    with watching(Printer(stream, colors=False, terminal=True)) as show:
        for one in shown:
            show(one)
    return stream.getvalue().split("\r\x1b[K")[1:]


def lines(*shown: LoadProgress | str, live: bool = True, terminal: bool = False) -> list[str]:
    stream = io.StringIO()
    with watching(Printer(stream, colors=False, terminal=terminal), live, noon) as show:
        for one in shown:
            show(one)
    return stream.getvalue().splitlines()


def test_a_terminal_shows_share_time_load_and_requests(terminal: int) -> None:
    assert drawn(terminal, 120, BEGUN) == [
        "load 2 of 3 (16 in flight)  ■■■■■■■■············  40%  12s of 30s  214 done, 2 failed  16 in flight",
        "",
    ]


def test_a_narrow_terminal_has_no_bar_and_no_second_line(terminal: int) -> None:
    assert drawn(terminal, 80, BEGUN)[0] == (
        "load 2 of 3 (16 in flight)  40%  12s of 30s  214 done, 2 failed  16 in flight"
    )
    assert drawn(terminal, 40, BEGUN)[0] == "load 2 of 3 (16 in flight)  40%  12s of"


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (BY_REQUESTS, "load 2 of 3 (4 in flight)  ■■■■■···············  25%  12s of ~48s  50 done  4 in flight"),
        (
            replace(BY_REQUESTS, count=1, number=1),
            "4 in flight  ■■■■■···············  25%  12s of ~48s  50 done  4 in flight",
        ),
        (replace(BY_REQUESTS, elapsed=None, done=0), "load 2 of 3 (4 in flight)  warm-up  0 done  4 in flight"),
        (replace(BY_REQUESTS, done=0), "load 2 of 3 (4 in flight)  ····················  0%  12s  0 done  4 in flight"),
        (
            replace(BEGUN, count=None, number=4, load=RATE, elapsed=31.0),
            "load 4 (8 requests/s)  ■■■■■■■■■■■■■■■■■■■■  100%  31s  214 done, 2 failed  waiting for 16",
        ),
        (
            replace(BEGUN, load={"concurrency": 16, "duration": 30.0, "requests": 250}),
            "load 2 of 3 (16 in flight)  ■■■■■■■■■■■■■■■■■···  86%  12s of ~14s  214 done, 2 failed  16 in flight",
        ),
        ("Job llm/qwen-bench-a1 created, waiting for its pod", "Job llm/qwen-bench-a1 created, waiting for its pod"),
    ],
)  # fmt: skip
def test_the_line_of_other_loads(terminal: int, progress: LoadProgress | str, text: str) -> None:
    assert drawn(terminal, 120, progress) == [text, ""]


def test_elsewhere_a_line_stays_for_every_ten_seconds_and_each_end() -> None:
    course = [replace(BEGUN, elapsed=float(second), done=10 * second) for second in range(31)]
    last = replace(BEGUN, elapsed=30.4, done=306, running=0, ended=True)
    following = replace(last, number=3, failed=0, elapsed=31.0)
    assert lines("Job llm/x created", replace(BEGUN, elapsed=None), *course, last, following) == [
        "12:00:00 bench       Job llm/x created",
        "12:00:00 bench       load 2 of 3 (16 in flight): 33%, 10s of 30s, 100 done, 2 failed, 16 in flight",
        "12:00:00 bench       load 2 of 3 (16 in flight): 67%, 20s of 30s, 200 done, 2 failed, 16 in flight",
        "12:00:00 bench       load 2 of 3 (16 in flight): 100%, 30s, 300 done, 2 failed, waiting for 16",
        "12:00:00 bench       load 2 of 3 (16 in flight): 306 requests in 30s, 2 failed",
        "12:00:00 bench       load 3 of 3 (16 in flight): 306 requests in 31s",
    ]


def test_nothing_is_redrawn_where_that_is_not_wanted() -> None:
    """In CI a terminal is only a log."""
    (line,) = lines(replace(BEGUN, ended=True), live=False, terminal=True)
    assert line == "12:00:00 bench       load 2 of 3 (16 in flight): 214 requests in 12s, 2 failed"
