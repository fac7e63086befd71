"""What the Job that downloads a model tells of itself: lines `rayllm-model {json}` of its log, and its termination
message.

The Job is rayllm_ctl.serving.storage; this is the reader's side. Lines of a log that was read with times begin with
the time at which the kubelet received them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.observed.marked_lines import leading_json, read_count, read_marked, read_number, read_text
from rayllm_ctl.model.text.json_form import OMIT_NONE

DOWNLOAD_MARK = "rayllm-model "
"""What stands before the JSON of a line."""

FINAL_EXIT = 10
"""Exit code of a download that fails in the same way if it is tried again."""

FINAL = frozenset({"DownloadUnauthorized", "DownloadNotFound", "DownloadNoSpace", "DownloadCorrupt"})
"""Codes of failures with that exit code."""

DOWNLOAD_CODES = FINAL | {"DownloadThrottled", "DownloadUnreachable", "DownloadFailed"}
"""All codes of failures. One that is not known counts as DownloadFailed."""

DOWNLOAD_PHASES = ("listing", "fetching", "verifying")
"""The phases of a download, in order."""


@dataclass(frozen=True)
class DownloadProgress:
    """A line of progress. total: 0 until the files are listed. resumed: bytes that an earlier run left. rate: bytes per
    second. at: when the line was written, where the log was read with times.
    """

    phase: str = ""
    bytes: int = 0
    total: int = 0
    files: int = 0
    of: int = 0
    resumed: int = 0
    rate: float | None = None
    seconds_left: float | None = None
    file: str = ""
    at: datetime | None = None


@dataclass(frozen=True)
class DownloadDone:
    """The last line of a download that is complete. fetched: bytes of this run."""

    bytes: int
    files: int
    fetched: int
    seconds: float
    commit: str


@dataclass(frozen=True)
class DownloadFailure:
    """Why a run ended without a complete model."""

    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True)
class DownloadReport:
    """What a log has of the newest run in it. moved: when the number of bytes last rose, or the first line that has it
    if it did not rise in this part of the log; waiting: what a pod that waits for the model lacks. trouble: why
    requests are repeated at the moment; troubled: when that was first said.
    """

    progress: DownloadProgress | None = None
    done: DownloadDone | None = None
    failure: DownloadFailure | None = None
    moved: datetime | None = None
    waiting: str = ""
    trouble: DownloadFailure | None = None
    troubled: datetime | None = None


class DownloadState(StrEnum):
    """PENDING: its pod has not started. RETRYING: an attempt failed, and the Job starts another."""

    PENDING = "Pending"
    DOWNLOADING = "Downloading"
    VERIFYING = "Verifying"
    RETRYING = "Retrying"
    COMPLETE = "Complete"
    FAILED = "Failed"


@dataclass(frozen=True)
class ModelDownload:
    """A model's download into shared storage, by the Job `job`. source: its URI. attempt: pods of the Job so far.

    Figures are null until they are known, bytesPerSecond is that of the moment, and resumed are bytes that earlier
    attempts left.
    """

    job: str
    source: str
    state: DownloadState
    attempt: int = 1
    bytes: int | None = None
    total: int | None = None
    percent: int | None = None
    resumed: int | None = None
    files: int | None = None
    files_total: int | None = None
    bytes_per_second: float | None = None
    seconds_left: float | None = None
    since: datetime | None = field(default=None, metadata=OMIT_NONE)

    @property
    def model(self) -> str:
        """The model for people: without the scheme of the Hub."""
        return self.source.removeprefix("hf://") or self.job


def read_download_log(text: str) -> DownloadReport:
    """The reports in `text`, the end of a log."""
    progress: DownloadProgress | None = None
    done: DownloadDone | None = None
    failure: DownloadFailure | None = None
    moved: datetime | None = None
    trouble: DownloadFailure | None = None
    troubled: datetime | None = None
    waiting = ""
    for line in text.splitlines():
        said = read_marked(line, DOWNLOAD_MARK)
        match said.get("event"):
            case "progress":
                before, progress = progress, _progress(said, _time(line))
                if before is None or progress.bytes != before.bytes or progress.phase != before.phase:
                    moved, trouble, troubled = progress.at, None, None
                done = failure = None
            case "retrying":
                trouble, troubled = _failure(said), troubled if trouble is not None else _time(line)
            case "done":
                done, failure, trouble = _done(said), None, None
            case "failed":
                done, failure = None, _failure(said)
            case "waiting":
                waiting = f"{read_text(said, 'folder')}: {read_text(said, 'why')}"
    return DownloadReport(progress, done, failure, moved, waiting, trouble, troubled)


def read_termination_message(text: str) -> DownloadFailure | None:
    """The failure in a container's termination message; None if it is another text, such as the end of a log."""
    said = leading_json(text.strip())
    return _failure(said) if read_text(said, "code") else None


def _failure(said: Mapping[str, Any]) -> DownloadFailure:
    """The failure in a line or a termination message."""
    code = read_text(said, "code")
    return DownloadFailure(
        code if code in DOWNLOAD_CODES else "DownloadFailed", read_text(said, "message"), read_text(said, "hint")
    )


def format_bytes(number: float) -> str:
    """Bytes for people, in decimal units as disks and networks count them: 41.2 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.0f} {unit}" if unit in ("B", "kB") or number >= 99.95 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.2f} TB"


def format_figures(download: ModelDownload) -> str:
    """How far a download is, for people: "41.2 of 65.5 GB (62 %), 310 MB/s, 1m18s left"; empty if that is unknown."""
    if download.bytes is None or not download.total:
        return ""
    total = format_bytes(download.total)
    done = format_bytes(download.bytes)
    same = done.rpartition(" ")[2] == total.rpartition(" ")[2]
    parts = [f"{done.rpartition(' ')[0] if same else done} of {total} ({download.percent} %)"]
    if download.state is DownloadState.DOWNLOADING:
        if download.bytes_per_second is not None:
            parts.append(f"{format_bytes(download.bytes_per_second)}/s")
        if download.seconds_left is not None:
            parts.append(f"{format_duration(download.seconds_left)} left")
    return ", ".join(parts)


def _progress(said: Mapping[str, Any], at: datetime | None) -> DownloadProgress:
    phase = said.get("phase")
    return DownloadProgress(
        phase=phase if phase in DOWNLOAD_PHASES else "",
        bytes=read_count(said, "bytes"),
        total=read_count(said, "total"),
        files=read_count(said, "files"),
        of=read_count(said, "of"),
        resumed=read_count(said, "resumed"),
        rate=read_number(said, "rate"),
        seconds_left=read_number(said, "seconds_left"),
        file=read_text(said, "file"),
        at=at,
    )


def _done(said: Mapping[str, Any]) -> DownloadDone:
    return DownloadDone(
        bytes=read_count(said, "bytes"),
        files=read_count(said, "files"),
        fetched=read_count(said, "fetched"),
        seconds=read_number(said, "seconds") or 0.0,
        commit=read_text(said, "commit"),
    )


def _time(line: str) -> datetime | None:
    """The time with which a line begins (RFC 3339 with nanoseconds), or None."""
    first = line.partition(" ")[0]
    if not first.endswith("Z") or "T" not in first:
        return None
    whole, _, fraction = first[:-1].partition(".")
    try:
        return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}").replace(tzinfo=UTC)
    except ValueError:
        return None
