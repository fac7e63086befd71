"""When requests are due."""

from __future__ import annotations

from itertools import islice, pairwise
from statistics import fmean

import pytest

from rayllm_ctl.loadtest.arrivals import arrivals
from rayllm_ctl.loadtest.settings import Load


def due(load: Load, count: int) -> list[float]:
    return list(islice(arrivals(load, seed=1), count))


def test_constant_and_in_bursts() -> None:
    assert due(Load(rate=4, arrivals="constant"), 4) == [0, 0.25, 0.5, 0.75]
    assert due(Load(rate=4, arrivals="burst", burst=2), 5) == [0, 0, 0.5, 0.5, 1]


def test_poisson_has_the_rate_and_its_spread() -> None:
    gaps = [after - before for before, after in pairwise(due(Load(rate=50), 20_000))]
    mean = fmean(gaps)
    assert mean == pytest.approx(1 / 50, rel=0.03)
    # The standard deviation of exponential gaps is their mean.
    assert fmean((gap - mean) ** 2 for gap in gaps) ** 0.5 == pytest.approx(mean, rel=0.05)
    assert due(Load(rate=50), 5) == due(Load(rate=50), 5)


def test_a_ramp_begins_slowly_and_ends_at_the_rate() -> None:
    times = due(Load(rate=100, arrivals="constant", ramp=10), 1000)
    assert sum(moment < 5 for moment in times) == pytest.approx(125, abs=2)
    assert sum(moment < 10 for moment in times) == pytest.approx(500, abs=2)
    assert times[-1] - times[-2] == pytest.approx(0.01)
