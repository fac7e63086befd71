"""When the requests of an open loop are to be sent."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import count

from rayllm_ctl.loadtest.settings import Load


def arrivals(load: Load, seed: int) -> Iterator[float]:
    """Seconds from the beginning of the test at which each request is due, in order, without end.

    The times of a load at full rate are stretched where it ramps up, so that the rate grows in proportion to time.
    """
    assert load.rate is not None
    for moment in _steady(load, load.rate, seed):
        yield _ramped(moment, load.ramp)


def _steady(load: Load, rate: float, seed: int) -> Iterator[float]:
    if load.arrivals == "poisson":
        random_ = random.Random(seed)  # noqa: S311
        moment = 0.0
        while True:
            moment += random_.expovariate(rate)
            yield moment
    size = load.burst if load.arrivals == "burst" else 1
    for number in count():
        yield (number // size) * size / rate


def _ramped(moment: float, ramp: float) -> float:
    """When as many requests have arrived, with a rate that grows for `ramp` seconds, as at full rate after `moment`.

    At time t of the ramp t^2 / (2 ramp) seconds of the full rate have gone by.
    """
    if ramp <= 0:
        return moment
    return math.sqrt(2 * ramp * moment) if moment < ramp / 2 else moment + ramp / 2
