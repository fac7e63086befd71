"""Search for the highest request rate that meets the limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.loadtest.settings import Settings

STEPS = 5
"""Bisection steps: the result is then within 3 % of the initial interval."""

_HIGHEST = 100_000.0
_LOWEST = 1 / 64


def search_rate(
    settings: Settings, run: Callable[[Settings], Mapping[str, Any]]
) -> tuple[tuple[Mapping[str, Any], ...], float | None]:
    """The results of all tested rates, and the highest that meets the limits; None if none does.

    The rate is doubled until it is too high, or halved until it is good, then found by bisection. A rate at which no
    request was sent says nothing, so the search ends there.
    """
    (load,) = settings.loads
    assert load.rate is not None
    runs: list[Mapping[str, Any]] = []

    def good(rate: float) -> bool:
        result = run(replace(settings, loads=(replace(load, rate=rate),)))
        runs.append(result)
        # If the generator cannot keep up, the result is about the generator.
        return bool(result["goodput"]["met"]) and not result["generator"]["saturated"] and not result["interrupted"]

    def ended() -> bool:
        return bool(runs) and bool(runs[-1]["interrupted"] or not runs[-1]["requests"]["total"])

    rate, highest, too_high = load.rate, None, None
    while not ended() and (highest is None or too_high is None) and _LOWEST <= rate <= _HIGHEST:
        if good(rate):
            highest = rate
            rate *= 2
        else:
            too_high = rate
            rate /= 2
    for _ in range(STEPS):
        if highest is None or too_high is None or ended():
            break
        rate = (highest + too_high) / 2
        if good(rate):
            highest = rate
        else:
            too_high = rate
    return tuple(runs), highest
