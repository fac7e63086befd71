"""The highest rate of requests at which a service keeps its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.loadtest.settings import Settings

STEPS = 5
"""Halvings between a rate that is good and one that is not: the answer is then within 3 % of their distance."""

_HIGHEST = 100_000.0
_LOWEST = 1 / 64


def search_rate(
    settings: Settings, run: Callable[[Settings], Mapping[str, Any]]
) -> tuple[tuple[Mapping[str, Any], ...], float | None]:
    """The results of all rates that were tried, and the highest that is good; None if none is.

    The rate is doubled until it is too high, or halved until it is good, and then looked for between the two.
    """
    (load,) = settings.loads
    assert load.rate is not None
    runs: list[Mapping[str, Any]] = []

    def good(rate: float) -> bool:
        found = run(replace(settings, loads=(replace(load, rate=rate),)))
        runs.append(found)
        # A generator that cannot keep up measures itself.
        return bool(found["goodput"]["met"]) and not found["generator"]["saturated"] and not found["interrupted"]

    def interrupted() -> bool:
        return bool(runs) and bool(runs[-1]["interrupted"])

    rate, highest, too_high = load.rate, None, None
    while not interrupted() and (highest is None or too_high is None) and _LOWEST <= rate <= _HIGHEST:
        if good(rate):
            highest = rate
            rate *= 2
        else:
            too_high = rate
            rate /= 2
    for _ in range(STEPS):
        if highest is None or too_high is None or interrupted():
            break
        rate = (highest + too_high) / 2
        if good(rate):
            highest = rate
        else:
            too_high = rate
    return tuple(runs), highest
