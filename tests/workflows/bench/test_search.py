"""The search for the highest good rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rayllm_ctl.loadtest.settings import Load, Objective, Settings, Target
from rayllm_ctl.workflows.bench.search import search_rate

SETTINGS = Settings(Target("http://x/v1", ("m",)), (Load(rate=1.0, duration=1.0),), objective=Objective(ttft=1.0))


def service(capacity: float, saturated_from: float = float("inf")) -> tuple[list[float], Any]:
    """One that keeps the limits up to a rate; the rates that were tried."""
    tried: list[float] = []

    def run(settings: Settings) -> Mapping[str, Any]:
        rate = settings.loads[0].rate
        assert rate is not None
        tried.append(rate)
        return {
            "goodput": {"met": rate <= capacity},
            "generator": {"saturated": rate >= saturated_from},
            "requests": {"total": 10},
            "interrupted": False,
        }

    return tried, run


@pytest.mark.parametrize("capacity", [0.3, 1.0, 13.7, 700.0])
def test_the_highest_rate_is_found_within_three_percent(capacity: float) -> None:
    tried, run = service(capacity)
    runs, highest = search_rate(SETTINGS, run)
    assert highest is not None
    assert capacity * 0.96 <= highest <= capacity
    assert len(runs) == len(tried) < 20


def test_no_rate_is_good() -> None:
    assert search_rate(SETTINGS, service(0.0)[1])[1] is None


def test_a_generator_that_cannot_keep_up_proves_nothing() -> None:
    found = search_rate(SETTINGS, service(1000.0, saturated_from=40.0)[1])[1]
    assert found is not None
    assert found < 40


def test_a_rate_at_which_no_request_is_sent_ends_the_search() -> None:
    """It says nothing of the service: neither that the rate is too high nor that it is not."""
    tried, run = service(0.0)

    def seldom(settings: Settings) -> Mapping[str, Any]:
        result = run(settings)
        return {**result, "requests": {"total": 0}} if tried[-1] < 0.5 else result

    runs, highest = search_rate(SETTINGS, seldom)
    assert (tried, highest) == ([1.0, 0.5, 0.25], None)
    assert runs[-1]["requests"]["total"] == 0
