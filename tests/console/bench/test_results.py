"""What a search for the highest rate has found, as text."""

from __future__ import annotations

import io
from typing import Any

import pytest

from rayllm_ctl.console.bench.results import result_lines
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.bench.load import Results
from tests.cli.bench.test_sweep import measured


def run(rate: float, total: int, answered: int, *, interrupted: bool = False) -> dict[str, Any]:
    good = {
        "objective": {"ttft": 0.5, "share": 0.95},
        "requests": 0,
        "requestsPerSecond": 0.0,
        "share": 0.0,
        "met": False,
    }
    return {
        **measured(1.0),
        "load": {"rate": rate, "arrivals": "poisson", "durationSeconds": 2.0},
        "requests": {"total": total, "succeeded": answered, "failed": total - answered, "unfinished": 0},
        "goodput": good,
        "interrupted": interrupted,
    }


def lines(*runs: dict[str, Any]) -> list[str]:
    results = Results("qwen", ("m",), runs, searched=True)
    return list(result_lines(results, Printer(io.StringIO(), colors=False, terminal=False)))


@pytest.mark.parametrize(
    ("runs", "found"),
    [
        ([run(4.0, 8, 8)], "✗ no tested rate meets TTFT 500 ms for 95%"),
        ([run(4.0, 8, 0)], "✗ no request was answered at any tested rate"),
        ([run(4.0, 8, 0), run(2.0, 0, 0)], "✗ no request was answered at any tested rate"),
        ([run(4.0, 8, 8), run(2.0, 0, 0)], "✗ no tested rate meets TTFT 500 ms for 95%"),
    ],
)
def test_a_search_says_what_it_found(runs: list[dict[str, Any]], found: str) -> None:
    shown = lines(*runs)
    assert shown[-1] == found
    ended = [line for line in shown if "the search ended at 2 requests/s" in line]
    assert len(ended) == (len(runs) == 2)
    assert all(line.endswith("no request was due within 2.00 s: --duration 5s sends about 10") for line in ended)


def test_a_load_without_requests_has_no_share_and_no_rate() -> None:
    row = next(line for line in lines(run(4.0, 8, 8), run(2.0, 0, 0)) if line.startswith("  2 requests/s"))
    assert row.split()[-2:] == ["0", "-"]
    alone = lines(run(2.0, 0, 0))
    assert [line.split() for line in alone if line.startswith(("  requests ", "  goodput "))] == [["requests", "none"]]


def test_an_interrupted_search_does_not_ask_for_a_longer_load() -> None:
    assert not any("the search ended" in line for line in lines(run(4.0, 0, 0, interrupted=True)))
