"""Rates from counters: those that are read as they are, and those that Ray reports now and then."""

from __future__ import annotations

import pytest

from rayllm_ctl.model.observed.token_rates import TokenRates


def rates(interval: float | None, *readings: tuple[float, float, float]) -> list[tuple[float, float] | None]:
    """readings: the moment, and both counters."""
    found = TokenRates()
    return [found.rate("r", prompt, generated, now, interval) for now, prompt, generated in readings]


def test_counters_of_the_moment() -> None:
    readings = ((100.0, 5000.0, 700.0), (102.0, 5100.0, 720.0), (104.0, 5100.0, 720.0), (105.0, 5100.0, 730.0))
    assert rates(None, *readings) == [None, (50.0, 10.0), (0.0, 0.0), (0.0, 10.0)]


def test_an_engine_that_started_again_has_no_rate_at_first() -> None:
    assert rates(None, (0.0, 500.0, 70.0), (2.0, 10.0, 90.0), (4.0, 30.0, 94.0)) == [None, None, (10.0, 2.0)]


@pytest.mark.parametrize("phase", [0.0, 0.7, 1.9])
def test_ray_reports_every_ten_seconds_what_engines_count_all_the_time(phase: float) -> None:
    """With readings at any moment the rate is right from the first report on, and never anything else."""
    times = [2.0 * number for number in range(30)]
    counted = [10.0 * ((at + phase) // 10) for at in times]
    found = rates(10.0, *((at, 30 * count, 5 * count) for at, count in zip(times, counted, strict=True)))
    first = next(number for number, rate in enumerate(found) if rate is not None)
    assert times[first] <= 10.0
    assert set(found[first:]) == {(30.0, 5.0)}


def test_what_no_longer_changes_is_zero_once_a_report_must_have_come() -> None:
    readings = ((0.0, 0.0, 0.0), (4.0, 100.0, 10.0), (12.0, 100.0, 10.0), (18.0, 100.0, 10.0), (20.0, 100.0, 10.0))
    assert rates(10.0, *readings) == [None, (10.0, 1.0), (10.0, 1.0), (10.0, 1.0), (0.0, 0.0)]
    # The first tokens after a pause are those of one interval.
    assert rates(10.0, *readings, (22.0, 200.0, 30.0))[-1] == (10.0, 2.0)


def test_after_a_gap_a_change_is_of_the_reports_in_it() -> None:
    assert rates(10.0, (0.0, 0.0, 0.0), (31.0, 300.0, 60.0))[-1] == (10.0, 2.0)


def test_replicas_are_kept_apart() -> None:
    found = TokenRates()
    assert found.rate("a", 10.0, 10.0, 0.0, None) is None
    assert found.rate("b", 50.0, 50.0, 1.0, None) is None
    assert found.rate("a", 20.0, 12.0, 2.0, None) == (5.0, 1.0)
