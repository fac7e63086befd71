"""The progress of a batch job's driver from its log: lines `rayllm-batch {json}` among those of Ray and vLLM.

The driver is rayllm_ctl.serving.batch; this is the reader's side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.observed.marked_lines import read_count, read_marked, read_number, read_text
from rayllm_ctl.model.text.json_form import OMIT_NONE

DRIVER_MARK = "rayllm-batch "
"""What stands before the JSON of a line."""

REJECTED = frozenset(
    {
        "InvalidSpec", "InputMissing", "NoRows", "WrongFormat", "MissingColumn", "ColumnClash", "BadTemplate",
        "DuplicateKey", "MixedTypes", "OutputNotEmpty", "AccessDenied",
    }
)  # fmt: skip
"""Codes of `Failure` that say that the input, or what the job asks of it, is wrong: another try fails the same way."""

CODES = REJECTED | {"DiskFull", "ModelNotFound", "EngineFailed", "OutOfMemory", "Failed"}
"""All codes of `Failure`. One that is not known counts as Failed."""

PHASES = ("checking", "counting", "starting", "running")
"""The phases of a driver, in order."""


@dataclass(frozen=True)
class Progress:
    """How far a driver has come. `rows`: all rows of the input, 0 until they are counted; `done`: with an answer or an
    error, `resumed` of them from earlier runs; `errors`: done, with an error in place of an answer.

    Rates are per second, from the start of the first engine; eta_seconds None: not known yet. elapsed_seconds: since
    the driver started.
    """

    phase: str
    rows: int = 0
    done: int = 0
    errors: int = 0
    resumed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    rows_per_second: float = 0.0
    tokens_per_second: float = 0.0
    eta_seconds: float | None = None
    elapsed_seconds: float = 0.0


@dataclass(frozen=True)
class RowError:
    """A row that has an error in place of an answer."""

    row_id: str
    error: str


@dataclass(frozen=True)
class Result:
    """The totals of a job of which every row has a row in the output. `resumed`: rows from earlier runs.

    max_errors: the most errors with which the job succeeds; None in logs of older releases, which do not state it.
    """

    rows: int
    answered: int
    errors: int
    resumed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    elapsed_seconds: float = 0.0
    output: str = ""
    first_errors: tuple[RowError, ...] = ()
    max_errors: int | None = field(default=None, metadata=OMIT_NONE)


@dataclass(frozen=True)
class JobFailure:
    """Why a driver ended without a result."""

    code: str
    message: str
    hint: str = ""

    @property
    def rejected(self) -> bool:
        """Whether the input is wrong, so that another try fails in the same way."""
        return self.code in REJECTED


@dataclass(frozen=True)
class DriverReport:
    """The newest of each that a log has. After a restart in the same log, what was said before it does not count."""

    progress: Progress | None = None
    result: Result | None = None
    failure: JobFailure | None = None


def read_log(text: str) -> DriverReport:
    """The driver's reports in `text`, the end of a log."""
    progress: Progress | None = None
    result: Result | None = None
    failure: JobFailure | None = None
    for line in text.splitlines():
        said = read_marked(line, DRIVER_MARK)
        match said.get("event"):
            case "progress":
                progress, result, failure = _progress(said), None, None
            case "result":
                result, failure = _result(said), None
            case "failed":
                result, failure = None, _failure(said)
    return DriverReport(progress, result, failure)


def _progress(said: Mapping[str, Any]) -> Progress:
    phase = said.get("phase")
    return Progress(
        phase=phase if phase in PHASES else "",
        rows=read_count(said, "rows"),
        done=read_count(said, "done"),
        errors=read_count(said, "errors"),
        resumed=read_count(said, "resumed"),
        prompt_tokens=read_count(said, "promptTokens"),
        completion_tokens=read_count(said, "completionTokens"),
        rows_per_second=read_number(said, "rowsPerSecond") or 0.0,
        tokens_per_second=read_number(said, "tokensPerSecond") or 0.0,
        eta_seconds=read_number(said, "etaSeconds"),
        elapsed_seconds=read_number(said, "elapsedSeconds") or 0.0,
    )


def _result(said: Mapping[str, Any]) -> Result:
    written = said.get("firstErrors")
    rows = written if isinstance(written, list) else []
    return Result(
        rows=read_count(said, "rows"),
        answered=read_count(said, "answered"),
        errors=read_count(said, "errors"),
        resumed=read_count(said, "resumed"),
        prompt_tokens=read_count(said, "promptTokens"),
        completion_tokens=read_count(said, "completionTokens"),
        elapsed_seconds=read_number(said, "elapsedSeconds") or 0.0,
        output=read_text(said, "output"),
        first_errors=tuple(
            RowError(read_text(row, "rowId"), read_text(row, "error")) for row in rows if isinstance(row, dict)
        ),
        max_errors=None if read_number(said, "maxErrors") is None else read_count(said, "maxErrors"),
    )


def _failure(said: Mapping[str, Any]) -> JobFailure:
    code = read_text(said, "code")
    return JobFailure(code if code in CODES else "Failed", read_text(said, "message"), read_text(said, "hint"))
