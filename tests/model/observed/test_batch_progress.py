"""The driver's lines in a log of other things: what counts, and what is skipped."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.model.observed.batch_progress import CODES, DriverReport, JobFailure, Progress, RowError, read_log
from rayllm_ctl.serving.batch.failures import Code

PROGRESS = {
    "event": "progress", "phase": "running", "rows": 2000, "done": 500, "errors": 3, "resumed": 100,
    "promptTokens": 9000, "completionTokens": 4000, "rowsPerSecond": 12.5, "tokensPerSecond": 800,
    "etaSeconds": 120, "elapsedSeconds": 40,
}  # fmt: skip
RESULT = {
    "event": "result", "rows": 2000, "answered": 1997, "errors": 3, "resumed": 100, "promptTokens": 9, "output": "/o",
    "completionTokens": 4, "elapsedSeconds": 160.5, "firstErrors": [{"rowId": "a.jsonl:7", "error": "too long"}],
}  # fmt: skip
FAILED = {"event": "failed", "code": "MissingColumn", "message": "no column text", "hint": "there is body"}


def line(said: Any) -> str:
    return f"rayllm-batch {json.dumps(said)}"


def test_the_newest_progress_counts() -> None:
    log = "\n".join(["INFO ray", line({**PROGRESS, "done": 1}), "(EngineCore) loading", line(PROGRESS), "more"])
    assert read_log(log).progress == Progress("running", 2000, 500, 3, 100, 9000, 4000, 12.5, 800.0, 120.0, 40.0)


def test_a_result_with_its_first_errors() -> None:
    report = read_log("\n".join([line(PROGRESS), line(RESULT), "Job 'x' succeeded"]))
    assert report.result is not None
    assert (report.result.answered, report.result.errors, report.result.elapsed_seconds) == (1997, 3, 160.5)
    assert report.result.first_errors == (RowError("a.jsonl:7", "too long"),)
    assert report.progress is not None


def test_a_failure_and_whether_the_input_was_rejected() -> None:
    failure = read_log(line(FAILED)).failure
    assert failure == JobFailure("MissingColumn", "no column text", "there is body")
    assert failure.rejected
    unknown = read_log(line({**FAILED, "code": "Novel"})).failure
    assert unknown is not None
    assert (unknown.code, unknown.rejected) == ("Failed", False)
    assert "DiskFull" in CODES


def test_a_driver_that_starts_again_has_not_ended() -> None:
    for end in (RESULT, FAILED):
        report = read_log("\n".join([line(end), line({"event": "progress", "phase": "checking"})]))
        assert (report.result, report.failure) == (None, None)
        assert report.progress == Progress("checking")


def test_a_progress_bar_before_a_line_does_not_hide_it() -> None:
    assert read_log("Running 0: 10%|#  | 1/10\rRunning 0: 20%| " + line(PROGRESS)).progress is not None
    assert read_log(line(PROGRESS) + " Running 0: 20%").progress is not None


@pytest.mark.parametrize(
    "text",
    ["", "rayllm-batch", "rayllm-batch {", line(PROGRESS)[:-5], line([PROGRESS]), line({"event": 7}), "rayllm-batch 1"],
)
def test_broken_lines_are_skipped(text: str) -> None:
    assert read_log(text) == DriverReport()


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.sampled_from([PROGRESS, RESULT, FAILED]), st.dictionaries(st.sampled_from([*PROGRESS, *RESULT, *FAILED]), ODD)
)
def test_odd_values_never_raise(said: dict[str, Any], odd: dict[str, Any]) -> None:
    report = read_log(line({**said, **odd, "event": said["event"]}))
    counts = [report.progress.rows] if report.progress else [report.result.rows] if report.result else [0]
    assert counts[0] >= 0


def test_every_code_of_the_driver_is_known() -> None:
    assert set(get_args(Code)) == CODES
