"""Which differences are noise."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from rayllm_ctl.errors import UsageError
from rayllm_ctl.workflows import benchcompare
from rayllm_ctl.workflows.benchcompare import compare


def result(seed: int, scale: float = 1.0, concurrency: int = 8, failed: int = 0) -> dict[str, Any]:
    chance = random.Random(seed)
    e2e = [scale * chance.lognormvariate(0, 0.3) for _ in range(150)]
    return {
        "load": {"concurrency": concurrency},
        "requests": {"failed": failed},
        "timeline": [{"succeeded": chance.randint(35, 45), "outputTokens": 400, "failed": 0} for _ in range(30)],
        "samples": {"begin": [0.0] * 150, "ttft": [x / 10 for x in e2e], "tpot": [None] * 150, "e2e": e2e},
    }


def written(path: Path, *runs: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"runs": runs} if len(runs) > 1 else runs[0]))
    return path


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchcompare, "RESAMPLES", 200)


def test_a_slower_service_is_seen(tmp_path: Path) -> None:
    first = written(tmp_path / "a", result(1), result(1, concurrency=16))
    second = written(tmp_path / "b", result(3), result(3, 1.2, concurrency=16))
    same, slower = compare(first, second)
    assert all(ratio.low <= ratio.ratio <= ratio.high for ratio in (*same.ratios, *slower.ratios))
    found = {ratio.name: ratio for ratio in slower.ratios}
    assert set(found) == {"requests/s", "output tokens/s", "TTFT", "TTFT p50", "end to end", "end to end p50"}
    assert not found["end to end"].noise
    assert found["end to end"].low < 1.2 < found["end to end"].high


def test_an_interval_holds_the_truth_about_19_times_of_20(tmp_path: Path) -> None:
    pairs = [
        compare(written(tmp_path / "a", result(seed)), written(tmp_path / "b", result(1000 + seed)))[0]
        for seed in range(30)
    ]
    held = [ratio.noise for pair in pairs for ratio in pair.ratios if ratio.name in ("requests/s", "end to end")]
    assert 0.85 <= fmean(held) < 1


def test_other_loads_and_failures_are_noted(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a", result(1)), written(tmp_path / "b", result(2, concurrency=4, failed=3))
    (found,) = compare(first, second)
    assert found.notes == (
        "the loads differ: concurrency is 8 in the first and 4 in the second",
        "3 requests of the second failed; only those that were answered are compared",
    )


@pytest.mark.parametrize(
    ("text", "says"), [("{", "not JSON"), ("{}", "not a result of bench"), ("[1]", "not a result of bench")]
)
def test_files_that_are_no_results(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "a").write_text(text)
    with pytest.raises(UsageError, match=says):
        compare(tmp_path / "a", tmp_path / "a")
    both = written(tmp_path / "both", result(1), result(2))
    with pytest.raises(UsageError, match=r"1 loads and .* has 2"):
        compare(written(tmp_path / "one", result(1)), both)
