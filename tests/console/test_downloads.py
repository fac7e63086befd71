"""Downloads as lines, and on a terminal."""

from __future__ import annotations

import io

import pytest

from rayllm_ctl.console.observe.event_line import format_download
from rayllm_ctl.console.observe.progress import LinePrinter
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.events import Downloading
from rayllm_ctl.model.observed.model_downloads import DownloadState, ModelDownload


def download(state: DownloadState, percent: int | None = None, attempt: int = 1) -> ModelDownload:
    done = None if percent is None else percent * 164_000_000
    total = None if percent is None else 16_400_000_000
    return ModelDownload(
        "tiny-model-1234abcd", "hf://Qwen/Qwen3-8B", state, attempt, bytes=done, total=total, percent=percent,
        bytes_per_second=310e6, seconds_left=40,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (download(DownloadState.PENDING), "Qwen/Qwen3-8B waits for its pod"),
        (download(DownloadState.DOWNLOADING), "Qwen/Qwen3-8B is downloading"),
        (download(DownloadState.DOWNLOADING, 25), "Qwen/Qwen3-8B 4.1 of 16.4 GB (25 %), 310 MB/s, 40s left"),
        (
            download(DownloadState.DOWNLOADING, 25, 2),
            "Qwen/Qwen3-8B 4.1 of 16.4 GB (25 %), 310 MB/s, 40s left, attempt 2",
        ),
        (download(DownloadState.VERIFYING, 100), "Qwen/Qwen3-8B is verified, 16.4 of 16.4 GB (100 %)"),
        (download(DownloadState.COMPLETE), "Qwen/Qwen3-8B is complete"),
        (download(DownloadState.RETRYING), "Qwen/Qwen3-8B waits for another attempt"),
    ],
)
def test_a_download_in_one_line(shown: ModelDownload, text: str) -> None:
    assert format_download(shown) == text


def test_a_line_for_each_tenth() -> None:
    out = io.StringIO()
    printer = LinePrinter(Printer.on(out, "never"))
    for percent in (1, 2, 9, 11, 12, 35):
        printer.handle(Downloading(download(DownloadState.DOWNLOADING, percent), "llm", 1.0))
    printer.handle(Downloading(download(DownloadState.COMPLETE), "llm", 2.0))
    printer.handle(Downloading(download(DownloadState.COMPLETE), "llm", 3.0))
    lines = out.getvalue().splitlines()
    assert [line.partition("Qwen3-8B ")[2].partition(",")[0] for line in lines] == [
        "164 MB of 16.4 GB (1 %)", "1.8 of 16.4 GB (11 %)", "5.7 of 16.4 GB (35 %)", "is complete",
    ]  # fmt: skip
