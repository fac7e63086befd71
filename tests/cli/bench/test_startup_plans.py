"""`bench --calibrate --startup-plan`: vLLM's start-up plans beside the planned KV cache."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayllm_ctl.model.kube.quantities import GIB
from tests.cli.bench.test_calibration import LOAD, MODEL, PLAN, service
from tests.cli.conftest import Run

__all__ = ["service"]

RESERVE = 150 * 2**20
KV = 30 * GIB


def written(folder: Path, ranks: int = 4, **changed: Any) -> Path:
    """Start-up plans as vLLM writes them, the last rank with `changed`."""
    folder.mkdir(exist_ok=True)
    for rank in range(ranks):
        fingerprint = f"{rank:016x}"
        last: Mapping[str, Any] = changed if rank == ranks - 1 else {}
        plan = {
            "schema": 1,
            "fingerprint": fingerprint,
            "kv_cache_memory_bytes": KV + rank,
            "free_memory_baseline": 79 * GIB,
            **last,
        }
        (folder / f"startup_plan_{fingerprint}.json").write_text(json.dumps(plan))
    return folder


def test_the_kv_cache_is_stored_beside_the_speed(run: Run, service: dict[str, Any], tmp_path: Path) -> None:
    assert not service
    file, folder = tmp_path / "c.yaml", written(tmp_path / "plans")
    planned = json.loads(run("plan", *PLAN, "-o", "json").out)["memory"]["kvCacheBytes"]["typical"]
    stored = run(*LOAD, "--calibrate", str(file), "--startup-plan", str(folder))
    assert stored.code == 0, str(stored)
    [entry] = yaml.safe_load(file.read_text())["calibrations"]
    # The fullest GPU counts, with what vLLM takes off before it writes.
    assert (entry["kvCacheBytes"], entry["plannedKvCacheBytes"]) == (KV + RESERVE, planned)
    assert entry["kvCache"] == pytest.approx((KV + RESERVE) / planned, rel=1e-3)
    assert f"GiB (measured ×{entry['kvCache']:.2f})" in " ".join(stored.out.split())
    load = ("--input-tokens", "256", "--output-tokens", "128", "--concurrency", "5")
    text = run("plan", *PLAN, *load, "--calibration", str(file)).out
    assert f"×{entry['kvCache']:.2f} KV cache" in " ".join(text.split())
    names = [one for path in sorted(folder.iterdir()) for one in ("--startup-plan", str(path))]
    data = json.loads(run(*LOAD, "--calibrate", str(file), *names, "-o", "json").out)
    assert data["runs"][0]["predicted"]["kvCacheBytes"]["measured"] == KV + RESERVE


def test_without_start_up_plans_there_is_no_figure(run: Run, service: dict[str, Any], tmp_path: Path) -> None:
    assert not service
    assert run(*LOAD, "--calibrate", str(tmp_path / "c.yaml")).code == 0
    assert "kvCache" not in (tmp_path / "c.yaml").read_text()


@pytest.mark.parametrize(
    ("ranks", "changed", "says"),
    [
        (1, {}, "1 start-up plan for TP 4, which has 4, one for each rank"),
        (8, {}, "8 start-up plans for TP 4, which has 4"),
        (
            4,
            {"free_memory_baseline": 140 * GIB},
            "is of another GPU: 140.0 GiB were free, and a H100-80GB has 79.2 GiB",
        ),
        (4, {"kv_cache_memory_bytes": 70 * GIB}, "is of another model or TP: a KV cache of 70.1 GiB and weights of"),
        (4, {"kv_cache_memory_bytes": 80 * GIB}, "larger than the memory that was free"),
        (4, {"kv_cache_memory_bytes": 0}, "`kv_cache_memory_bytes` is 0, not a number of bytes"),
        (4, {"kv_cache_memory_bytes": True}, "`kv_cache_memory_bytes` is True"),
        (4, {"free_memory_baseline": "79"}, "`free_memory_baseline` is '79'"),
        (4, {"schema": 2}, "its schema is 2, and 1 is known"),
        (4, {"fingerprint": "ffff"}, "its fingerprint is 'ffff', which is not that of its name"),
        (4, {"fingerprint": None}, "it has no `fingerprint`"),
        (0, {}, "has no startup_plan_*.json"),
    ],
)
def test_files_of_something_else_are_rejected_before_the_load(
    run: Run, service: dict[str, Any], tmp_path: Path, ranks: int, changed: dict[str, Any], says: str
) -> None:
    assert not service
    folder = written(tmp_path / "plans", ranks, **changed)
    refused = run(*LOAD, "--calibrate", str(tmp_path / "c.yaml"), "--startup-plan", str(folder))
    assert refused.code == 2, str(refused)
    assert says in refused.err
    assert "hint:" in refused.err or "is of another" in refused.err
    assert "answered" not in refused.out
    assert not (tmp_path / "c.yaml").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"schema": 1, "finger', "it is damaged: not valid JSON"),
        ("\x00\xff", "it is damaged: not valid JSON"),
        ("[1]", "it has no `schema`"),
        ('{"architectures": []}', "it has no `schema`"),
        (" " * 20_000, "it is larger than 10 kB"),
    ],
)
def test_files_that_are_no_start_up_plans(run: Run, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "config.json").write_text(text)
    refused = run(*LOAD, "--calibrate", str(tmp_path / "c"), "--startup-plan", str(tmp_path / "config.json"))
    assert (refused.code, says in refused.err) == (2, True), str(refused)


def test_a_file_counts_once_and_has_to_be_there(run: Run, tmp_path: Path) -> None:
    folder = written(tmp_path / "plans", 1)
    twice = run(*LOAD, "--calibrate", str(tmp_path / "c"), *("--startup-plan", str(folder)) * 2)
    assert "are the plan of the same rank" in twice.err
    missing = run(*LOAD, "--calibrate", str(tmp_path / "c"), "--startup-plan", str(tmp_path / "none"))
    assert (missing.code, "none: cannot be read: no such file" in missing.err) == (2, True)


def test_start_up_plans_are_for_a_calibration(run: Run, tmp_path: Path) -> None:
    refused = run(*LOAD, "--startup-plan", str(tmp_path))
    assert (refused.code, "--startup-plan requires --calibrate" in refused.err) == (2, True)
    assert MODEL not in refused.out
