"""Which differences are noise."""

from __future__ import annotations

import copy
import io
import json
import random
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from rayllm_ctl.console.bench.compare import comparison_lines
from rayllm_ctl.console.style import Printer
from rayllm_ctl.errors import UsageError
from rayllm_ctl.loadtest.samples import distribution
from rayllm_ctl.workflows.bench import compare as benchcompare
from rayllm_ctl.workflows.bench.compare import compare_results
from rayllm_ctl.workflows.bench.report import write_report

CONDITIONS: dict[str, Any] = {
    "startedAt": "2026-11-01T10:00:00+00:00",
    "prompts": {
        "input": {"kind": "fixed", "low": 256}, "output": {"kind": "uniform", "low": 8, "high": 64}, "prefix": 0,
        "prefixes": 1, "seed": 0, "tokenizer": None,
    },
    "request": {"api": "chat", "stream": True, "fields": {}},
    "versions": {"rayllm-ctl": "0.1.0", "vllm": "0.29.0", "ray": None},
}  # fmt: skip


def result(seed: int, scale: float = 1.0, concurrency: int = 8, failed: int = 0) -> dict[str, Any]:
    chance = random.Random(seed)
    e2e = [scale * chance.lognormvariate(0, 0.3) for _ in range(150)]
    ttft = [x / 10 for x in e2e]
    timeline = [{"succeeded": chance.randint(35, 45), "outputTokens": 400, "failed": 0} for _ in range(30)]
    return {
        **CONDITIONS,
        "load": {"concurrency": concurrency},
        "requests": {"failed": failed},
        "durationSeconds": 30.0,
        "throughput": {
            "requestsPerSecond": sum(second["succeeded"] for second in timeline) / 30, "outputTokensPerSecond": 400.0,
        },
        "latencySeconds": {"ttft": distribution(ttft), "tpot": None, "itl": None, "e2e": distribution(e2e)},
        "timeline": timeline,
        "samples": {"begin": [0.0] * 150, "ttft": ttft, "tpot": [None] * 150, "e2e": e2e},
    }  # fmt: skip


def written(path: Path, *runs: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"runs": runs}))
    return path


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchcompare, "RESAMPLES", 200)


def test_a_slower_service_is_seen(tmp_path: Path) -> None:
    first = written(tmp_path / "a", result(1), result(1, concurrency=16))
    second = written(tmp_path / "b", result(3), result(3, 1.2, concurrency=16))
    same, slower = compare_results(first, second)
    assert all(ratio.low <= ratio.ratio <= ratio.high for ratio in (*same.ratios, *slower.ratios))
    found = {ratio.name: ratio for ratio in slower.ratios}
    assert set(found) == {"requests/s", "output tokens/s", "TTFT", "TTFT p50", "end to end", "end to end p50"}
    assert not found["end to end"].noise
    assert found["end to end"].low < 1.2 < found["end to end"].high


def test_an_interval_holds_the_truth_about_19_times_of_20(tmp_path: Path) -> None:
    pairs = [
        compare_results(written(tmp_path / "a", result(seed)), written(tmp_path / "b", result(1000 + seed)))[0]
        for seed in range(30)
    ]
    held = [ratio.noise for pair in pairs for ratio in pair.ratios if ratio.name in ("requests/s", "end to end")]
    assert 0.85 <= fmean(held) < 1


def test_other_loads_and_failures_are_noted(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a", result(1)), written(tmp_path / "b", result(2, concurrency=4, failed=3))
    (found,) = compare_results(first, second)
    assert found.notes == (
        "the loads differ: concurrency is 8 in the first and 4 in the second",
        "3 requests of the second failed; only successful requests are compared",
    )
    assert found.same_load is False


def test_the_figures_are_those_that_bench_prints(tmp_path: Path) -> None:
    """Of 2.4 s: the two requests of the last, shorter second count as well."""
    short = {
        **result(1),
        "durationSeconds": 2.4,
        "throughput": {"requestsPerSecond": 12 / 2.4, "outputTokensPerSecond": 120 / 2.4},
        "timeline": [{"succeeded": count, "outputTokens": 10 * count, "failed": 0} for count in (4, 6, 2)],
    }
    (found,) = compare_results(written(tmp_path / "a", short), written(tmp_path / "b", short))
    figures = {ratio.name: (ratio.first, ratio.second, ratio.ratio) for ratio in found.ratios}
    assert figures["requests/s"] == (5.0, 5.0, 1.0)
    assert figures["output tokens/s"] == (50.0, 50.0, 1.0)
    assert figures["end to end p50"][0] == short["latencySeconds"]["e2e"]["p50"]


def test_throughput_of_a_load_without_two_seconds_is_named_as_not_compared(tmp_path: Path) -> None:
    short = {**result(1), "durationSeconds": 1.2, "timeline": result(1)["timeline"][:2]}
    (found,) = compare_results(written(tmp_path / "a", result(1)), written(tmp_path / "b", short))
    assert found.notes == ("requests/s and output tokens/s are not compared: a load took less than two seconds",)
    assert {ratio.name for ratio in found.ratios} == {"TTFT", "TTFT p50", "end to end", "end to end p50"}


def test_each_table_names_its_load(tmp_path: Path) -> None:
    both = written(tmp_path / "a", result(1), result(2, concurrency=16))
    other = written(tmp_path / "b", result(1), result(2, concurrency=32))
    table = list(comparison_lines(compare_results(both, other), Printer(io.StringIO(), colors=False, terminal=False)))
    assert [line for line in table if "in flight" in line and "differ" not in line] == [
        "8 in flight",
        "16 in flight and 32 in flight",
    ]


FIXED = {"kind": "fixed", "low": 1000}


def change(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A result of which one entry differs."""
    made = copy.deepcopy(result(2))
    inner = made
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "same", "note"),
    [
        (("prompts", "input"), FIXED, False, "prompts.input is 256 in the first and 1000 in the second"),
        (("prompts", "output"), None, False, "prompts.output is uniform:8:64 in the first and not set in the second"),
        (("prompts", "tokenizer"), "t", False, "prompts.tokenizer is not set in the first and t in the second"),
        (("request", "stream"), False, False, "request.stream is true in the first and false in the second"),
        (("prompts", "seed"), 1, True, "prompts.seed is 0 in the first and 1 in the second"),
        (("load", "durationSeconds"), 60.0, True, "durationSeconds is not set in the first and 60.0 in the second"),
    ],
)  # fmt: skip
def test_another_load_is_called_so(tmp_path: Path, path: tuple[str, ...], value: Any, same: bool, note: str) -> None:
    (found,) = compare_results(written(tmp_path / "a", result(1)), written(tmp_path / "b", change(path, value)))
    assert found.notes == (f"the loads differ: {note}",)
    assert found.same_load is same
    table = list(comparison_lines([found], Printer(io.StringIO(), colors=False, terminal=False)))
    assert table[0] == "8 in flight"
    assert note in table[1]
    assert all(row.endswith("another load") for row in table[3:]) is not same


def test_versions_and_models_may_differ_and_are_named(tmp_path: Path) -> None:
    other = change(("versions", "vllm"), "0.32.0")
    first = written(tmp_path / "a", {"models": ["one"], **result(1)})
    (found,) = compare_results(first, written(tmp_path / "b", {"models": ["two"], **other}))
    assert found.same_load is True
    assert found.notes == (
        "the versions differ: vllm is 0.29.0 in the first and 0.32.0 in the second",
        "the models differ: one in the first and two in the second",
    )


def test_of_a_result_of_an_older_release_the_load_is_unknown(tmp_path: Path) -> None:
    old = {name: value for name, value in result(1).items() if name not in CONDITIONS}
    (found,) = compare_results(written(tmp_path / "a", old), written(tmp_path / "b", result(2, 2.0)))
    assert found.same_load is None
    assert found.notes == (
        "the first is from an older release and lacks lengths, seed, date and versions: whether its load is the "
        "same is unknown",
    )
    table = list(comparison_lines([found], Printer(io.StringIO(), colors=False, terminal=False)))
    assert any(row.endswith("worse, if the loads are the same") for row in table)


@pytest.mark.parametrize(
    ("text", "says"), [("{", "not JSON"), ("{}", "not a result of bench"), ("[1]", "not a result of bench")]
)
def test_files_that_are_no_results(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "a").write_text(text)
    with pytest.raises(UsageError, match=says):
        compare_results(tmp_path / "a", tmp_path / "a")
    for name, value in (("timeline", "x"), ("samples", []), ("durationSeconds", None), ("throughput", 3)):
        damaged = written(tmp_path / "damaged", result(1) | {name: value})
        with pytest.raises(UsageError, match=r"not a result of bench: \w+Error"):
            compare_results(damaged, damaged)
        with pytest.raises(UsageError, match=r"not a result of bench: \w+Error"):
            list(write_report(damaged, tmp_path / "page.html", None))
    both = written(tmp_path / "both", result(1), result(2))
    with pytest.raises(UsageError, match=r"1 loads and .* has 2"):
        compare_results(written(tmp_path / "one", result(1)), both)
