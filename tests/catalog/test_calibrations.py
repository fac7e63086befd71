"""Files of calibrations."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayllm_ctl.catalog.calibrations import merge_calibrations, read_calibrations
from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.model.plan.calibration import Calibration
from rayllm_ctl.workflows.bench.calibrate import write_calibrations

FIRST = Calibration(
    "Qwen/Qwen3-32B", "H100-80GB", 2, 1, "0.29.0", 0.83, 1.2, 1.1, "2026-11-23", 16, 256, 128, 640
)  # fmt: skip
OTHER = Calibration(
    "Qwen/Qwen3-32B", "H100-80GB", 4, 1, "0.29.0", 0.9, 1.0, 1.0, "2026-11-22", 8.5, 256, 128, 80, "fp8", "fp8"
)  # fmt: skip


@pytest.mark.parametrize("name", ["c.yaml", "c.json"])
def test_a_file_is_read_as_it_was_written_and_the_new_replaces_the_old(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_calibrations(path, merge_calibrations([OTHER], FIRST))
    assert read_calibrations(path) == (FIRST, OTHER)
    before = path.read_bytes()
    newer = Calibration(
        "Qwen/Qwen3-32B", "H100-80GB", 2, 1, "0.29.0", 0.5, 1.2, 1.1, "2026-11-24", 16, 256, 128, 640
    )  # fmt: skip
    write_calibrations(path, merge_calibrations(read_calibrations(path), newer))
    assert read_calibrations(path) == (newer, OTHER)
    write_calibrations(path, merge_calibrations(read_calibrations(path), FIRST))
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1]", "list `calibrations`, and nothing else"),
        ("calibrations: [{model: m}]", "entry 1 lacks `date`"),
        ("calibrations: []\ncalibrations: []", 'duplicate key "calibrations", first in line 1'),
        ("{", "not valid YAML"),
    ],
)
def test_files_that_are_none(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "c").write_text(text)
    with pytest.raises(UsageError, match=says):
        read_calibrations(tmp_path / "c")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("ttft: 1.2", "ttft: 0", "`ttft` of entry 1 is 0, not a number greater than 0"),
        ("tensor: 2", "tensor: 2.5", "`tensor` of entry 1 is 2.5, not a whole number"),
        ("tpot: 1.1", "tpots: 1.1", "unknown key `tpots`"),
        ("tensor: 4", "tensor: true", "`tensor` of entry 2 is True"),
    ],
)
def test_values_that_are_none(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "c.yaml"
    write_calibrations(path, [FIRST, OTHER])
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(UsageError, match=says):
        read_calibrations(path)


def test_a_file_that_is_not_there_or_says_the_same_twice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_calibrations(tmp_path / "none")
    write_calibrations(tmp_path / "c", [FIRST, FIRST])
    with pytest.raises(UsageError, match=r"two entries for Qwen/Qwen3-32B on 2 × H100-80GB \(TP 2\), vLLM 0.29.0"):
        read_calibrations(tmp_path / "c")
    with pytest.raises(UserError, match="cannot be written") as caught:
        write_calibrations(tmp_path / "no" / "deeper" / "c", [FIRST])
    assert (caught.value.exit_code, caught.value.hints) == (1, (f"ls -ld {tmp_path}",))
