"""What the Job that downloads a model logs, as its readers understand it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rayllm_ctl.model.observed.model_downloads import (
    DownloadFailure,
    DownloadState,
    ModelDownload,
    format_bytes,
    format_figures,
    read_download_log,
    read_termination_message,
)

FETCHING = '{"event": "progress", "phase": "fetching", "bytes": %d, "total": 1000, "files": 1, "of": 3, "rate": 10}'


def line(second: int, body: str) -> str:
    return f"2026-03-01T12:00:{second:02d}.123456789Z rayllm-model {body}"


def test_the_newest_line_counts_and_the_time_at_which_bytes_arrived() -> None:
    log = "\n".join([line(1, FETCHING % 100), line(3, FETCHING % 200), line(5, FETCHING % 200), "WARNING of a library"])
    report = read_download_log(log)
    assert report.progress is not None
    assert (report.progress.bytes, report.progress.total, report.progress.of) == (200, 1000, 3)
    assert report.progress.at == datetime(2026, 3, 1, 12, 0, 5, 123456, tzinfo=UTC)
    assert report.moved == datetime(2026, 3, 1, 12, 0, 3, 123456, tzinfo=UTC)


def test_a_log_that_was_read_without_times_has_figures_and_no_times() -> None:
    report = read_download_log(f"rayllm-model {FETCHING % 100}")
    assert report.progress is not None
    assert (report.progress.bytes, report.progress.at, report.moved) == (100, None, None)


def test_requests_that_are_repeated_are_a_trouble_until_bytes_arrive() -> None:
    retrying = '{"event": "retrying", "code": "DownloadThrottled", "message": "429", "hint": "later", "seconds": 8.0}'
    log = [line(1, FETCHING % 5), line(2, retrying), line(3, FETCHING % 5), line(4, retrying)]
    report = read_download_log("\n".join(log))
    assert report.trouble == DownloadFailure("DownloadThrottled", "429", "later")
    assert report.troubled == datetime(2026, 3, 1, 12, 0, 2, 123456, tzinfo=UTC)
    assert read_download_log("\n".join([*log, line(5, FETCHING % 6)])).trouble is None


def test_a_download_that_starts_again_has_not_failed_any_more() -> None:
    failed = '{"event": "failed", "code": "DownloadThrottled", "message": "429"}'
    assert read_download_log(line(1, failed)).failure == DownloadFailure("DownloadThrottled", "429")
    assert read_download_log("\n".join([line(1, failed), line(2, FETCHING % 5)])).failure is None


def test_the_end_of_a_download() -> None:
    done = '{"event": "done", "bytes": 1000, "files": 3, "fetched": 600, "seconds": 9.5, "commit": null}'
    report = read_download_log(line(9, done))
    assert report.done is not None
    assert (report.done.bytes, report.done.fetched, report.done.commit) == (1000, 600, "")


def test_what_a_waiting_pod_lacks() -> None:
    log = 'rayllm-model {"event": "waiting", "folder": "/models/a", "why": "no marker"}'
    assert read_download_log(log).waiting == "/models/a: no marker"


@pytest.mark.parametrize("odd", ["", "rayllm-model", 'rayllm-model {"event": "progr', "rayllm-model [1]", "{}", "\x00"])
def test_odd_lines_are_passed_over(odd: str) -> None:
    assert read_download_log(odd) == read_download_log("")


@pytest.mark.parametrize("odd", ["-5", "true", '"9"', "1e400", "null"])
def test_odd_figures_are_unknown(odd: str) -> None:
    report = read_download_log(f'rayllm-model {{"event": "progress", "bytes": {odd}, "rate": {odd}}}')
    assert report.progress is None or (report.progress.bytes, report.progress.rate) == (0, None)


def test_a_termination_message() -> None:
    message = '{"event": "failed", "code": "DownloadCorrupt", "message": "a.bin is damaged", "hint": "h"}\n'
    assert read_termination_message(message) == DownloadFailure("DownloadCorrupt", "a.bin is damaged", "h")


def test_a_failure_of_a_later_release_is_a_failure() -> None:
    assert read_termination_message('{"code": "DownloadLate", "message": "m"}') == DownloadFailure(
        "DownloadFailed", "m"
    )


@pytest.mark.parametrize("text", ["", "Traceback (most recent call last):", "{}", '{"message": "m"}', "[1]"])
def test_other_termination_messages_are_none(text: str) -> None:
    assert read_termination_message(text) is None


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (999_600, "1.0 MB"), (310e6, "310 MB"), (65.5e9, "65.5 GB"), (140e9, "140 GB"),
     (1.5e12, "1.50 TB")],
)  # fmt: skip
def test_bytes_for_people(number: float, text: str) -> None:
    assert format_bytes(number) == text


def test_figures_for_people() -> None:
    download = ModelDownload(
        "job", "hf://Qwen/Qwen3-32B", DownloadState.DOWNLOADING, bytes=41_200_000_000, total=65_500_000_000, percent=62,
        bytes_per_second=310e6, seconds_left=78,
    )  # fmt: skip
    assert format_figures(download) == "41.2 of 65.5 GB (62 %), 310 MB/s, 1m18s left"
    assert download.model == "Qwen/Qwen3-32B"


def test_unknown_figures_are_not_zero() -> None:
    assert format_figures(ModelDownload("job", "s3://b/m", DownloadState.PENDING)) == ""
