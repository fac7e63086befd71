"""How batch jobs look: while they are followed, on a terminal and elsewhere."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from rayllm_ctl.console.batch.progress import BatchBar, BatchLines, bar_lines, choose_job_progress
from rayllm_ctl.console.batch.status import bar, job_status, percent, row_figures
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.batch_events import BatchEnded, BatchObserved
from rayllm_ctl.model.events import Applied, Noted
from rayllm_ctl.model.observed.batch_progress import Progress, Result
from rayllm_ctl.model.observed.batch_status import BatchHealth, JobOutcome, JobState
from rayllm_ctl.model.observed.health import Cause, StatusNode
from rayllm_ctl.model.text.hint import Hint
from tests.console.sample import Screen, plain

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HALF = Progress("running", 2000, 1000, 3, 100, 9000, 4000, 12.5, 800, 120, 40)
RUNNING = BatchHealth(
    JobState.RUNNING, "answering rows on 1 worker", progress=HALF, started=NOW, observed_at=NOW + timedelta(minutes=2),
    tree=(StatusNode("worker", "w", "Running", "on n1"),),
)  # fmt: skip
DONE = dataclasses.replace(
    RUNNING, state=JobState.SUCCEEDED, message="1,997 of 2,000 rows answered, 3 with an error", output="s3://b/a",
    outcome=JobOutcome.ANSWERED, result=Result(2000, 1997, 3, elapsed_seconds=160),
)  # fmt: skip
STUCK = Cause("InsufficientGPU", "pod/w", "no node has 1 GPU free", ("event",), (Hint(remark="fewer"),))


def lines(*healths: BatchHealth) -> list[str]:
    screen = Screen()
    with BatchLines(plain(screen), clock=lambda: NOW) as progress:
        for health in healths:
            progress.handle(BatchObserved(health, 0))
    return [line.removeprefix("12:00:00 ") for line in screen.getvalue().splitlines()]


def test_a_line_for_each_change_and_none_twice() -> None:
    more = dataclasses.replace(HALF, done=1019, elapsed_seconds=41.0)
    percent_more = dataclasses.replace(HALF, done=1020)
    stuck = dataclasses.replace(RUNNING, causes=(STUCK,))
    found = lines(RUNNING, RUNNING, dataclasses.replace(RUNNING, progress=more), stuck, stuck,
                  dataclasses.replace(RUNNING, progress=percent_more))  # fmt: skip
    assert [line.split()[0] for line in found] == ["rows", "state", "cause", "rows"]
    assert found[0].endswith("1,000 of 2,000 (50%) · 100 from before · 3 errors · 12.5 rows/s · 2m00s left")
    assert found[2].endswith("InsufficientGPU: no node has 1 GPU free")


def test_another_attempt_is_said() -> None:
    again = dataclasses.replace(RUNNING, attempt=2, attempts=3)
    assert lines(RUNNING, again)[-1].endswith("answering rows on 1 worker (attempt 2 of 3)")


def test_the_end_says_how_long_it_took_and_where_the_answers_are() -> None:
    screen = Screen()
    BatchLines(plain(screen)).handle(BatchEnded("sums", "llm", JobOutcome.ANSWERED, DONE, 3))
    assert "done        sums after 2m00s: 1,997 of 2,000 rows answered" in screen.getvalue()
    assert "output s3://b/a" in screen.getvalue()


@pytest.mark.parametrize(("done", "shown"), [(0, 0), (1999, 99), (2000, 100)])
def test_all_percent_only_when_all_rows_are_done(done: int, shown: int) -> None:
    progress = dataclasses.replace(HALF, done=done)
    assert percent(progress) == shown
    assert ("·" not in bar(dataclasses.replace(RUNNING, progress=progress))) == (done == 2000)
    assert "·" not in bar(DONE)


def test_without_a_count_there_is_no_bar_and_no_figure() -> None:
    counting = dataclasses.replace(RUNNING, progress=Progress("counting"), message="counting the rows")
    assert row_figures(counting) == ""
    assert len(bar_lines(BatchObserved(counting, 5), plain())) == 2
    assert percent(Progress("counting")) == 0


def test_a_terminal_gets_a_bar_that_stays() -> None:
    screen = Screen(terminal=True)
    style = Printer(screen, colors=False, terminal=True)
    progress = choose_job_progress(style)
    assert isinstance(progress, BatchBar)
    assert isinstance(choose_job_progress(style, live=False), BatchLines)
    with progress:
        progress.handle(Applied("RayJob", "sums", "llm", "created"))
        progress.handle(BatchObserved(RUNNING, 40))
        progress.handle(Noted("the API server does not answer; retrying"))
        progress.handle(BatchObserved(DONE, 160))
        progress.handle(BatchEnded("sums", "llm", JobOutcome.ANSWERED, DONE, 160))
    text = screen.getvalue()
    assert "███████████████···············" in text
    assert "the API server does not answer; retrying" in text
    assert "✔ done" in text


def test_what_failed_is_marked() -> None:
    failed = dataclasses.replace(DONE, state=JobState.FAILED, outcome=JobOutcome.FAILED, causes=(STUCK,))
    text = "\n".join(bar_lines(BatchObserved(failed, 5), plain()))
    assert text.startswith("✗ failed")
    assert "InsufficientGPU  no node has 1 GPU free" in text


def test_notes_and_resumed_rows_are_in_the_status() -> None:
    health = dataclasses.replace(RUNNING, notes=("nodes could not be read: not permitted to get nodes",))
    text = job_status("sums", "llm", health, plain())
    assert "note      nodes could not be read" in text
    assert "100 from before" in text
