"""Fit the coefficients of the speed formula to the public measurements, and print them with their errors.

    python scripts/fit_speed.py [--leave-out]

What is made small is the mean of |ln(planned / measured)|, in which campaigns with many rows count less than in
proportion. Each coefficient in turn is made larger or smaller as long as that helps, by steps that become finer, within
the limits that physics sets. --leave-out: fit once without each campaign, and give the errors of the rows left out.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from rayllm_ctl.planner.speed.coefficients import FITTED, Coefficients
from scripts.measured_speed import FIGURES, Measured, errors, measurements

_STEPS = (0.3, 0.15, 0.07, 0.03, 0.015)
_LIMITS: Mapping[str, tuple[float, float]] = {
    "bandwidth": (0.5, 0.92),
    "step_compute": (0.05, 0.8),
    "step_compute_moe": (0.05, 0.8),
    "prompt_compute": (0.05, 0.9),
    "prompt_compute_moe": (0.05, 0.9),
    "link": (0.1, 0.9),
    "request": (0.005, 0.05),
    "amd": (1.0, 3.0),
}
_LARGE = 0.6
"""An error of which only half of what exceeds it counts: such a row has another cause than the coefficients."""


def main() -> int:
    rows = measurements()
    fitted = fit(rows, FITTED)
    for field in fields(Coefficients):
        sys.stdout.write(f"{field.name:24} {getattr(fitted, field.name):.3g}   (now {getattr(FITTED, field.name):g})\n")
    _print("now", [ratio for row in rows for ratio in row.ratios(FITTED)])
    _print("fitted", [ratio for row in rows for ratio in row.ratios(fitted)])
    if "--leave-out" in sys.argv[1:]:
        _print("left out", list(left_out(rows, fitted)))
    return 0


def left_out(rows: Sequence[Measured], start: Coefficients) -> Iterator[tuple[str, float]]:
    """The ratios of the rows of each campaign with coefficients that were fitted without it."""
    for campaign in dict.fromkeys(row.campaign for row in rows):
        fitted = fit([row for row in rows if row.campaign != campaign], start, steps=_STEPS[2:])
        for row in rows:
            if row.campaign == campaign:
                yield from row.ratios(fitted)


def fit(rows: Sequence[Measured], start: Coefficients, steps: Sequence[float] = _STEPS) -> Coefficients:
    """The coefficients with the smallest error, searched from `start`."""
    weights = _weights(rows)
    found, least = start, _loss(rows, start, weights)
    for step in steps:
        better = True
        while better:
            better = False
            for field in fields(Coefficients):
                for factor in (1 + step, 1 / (1 + step)):
                    tried = _scaled(found, field.name, factor)
                    error = _loss(rows, tried, weights)
                    if error < least - 1e-6:
                        found, least, better = tried, error, True
    return found


def _scaled(coefficients: Coefficients, name: str, factor: float) -> Coefficients:
    low, high = _LIMITS.get(name, (0.0, math.inf))
    return replace(coefficients, **{name: min(high, max(low, factor * getattr(coefficients, name)))})


def _weights(rows: Sequence[Measured]) -> dict[tuple[str, str], float]:
    counts = Counter((row.campaign, name) for row in rows for name, _ in row.figures())
    return {key: count**-0.3 for key, count in counts.items()}


def loss(rows: Sequence[Measured], coefficients: Coefficients) -> float:
    """The weighted mean error of the figures, |ln(planned / measured)|."""
    return _loss(rows, coefficients, _weights(rows))


def _loss(rows: Sequence[Measured], coefficients: Coefficients, weights: Mapping[tuple[str, str], float]) -> float:
    total = weight = 0.0
    for row in rows:
        for name, ratio in row.ratios(coefficients):
            error, own = abs(math.log(ratio)), weights[row.campaign, name]
            total += own * (error if error < _LARGE else _LARGE + (error - _LARGE) / 2)
            weight += own
    return total / weight


def _print(title: str, ratios: Sequence[tuple[str, float]]) -> None:
    for name, found in errors(ratios).items():
        sys.stdout.write(
            f"{title}: {FIGURES[name]}, {found.rows} rows: median error {found.median:.1%}, "
            f"90th percentile {found.p90:.0%}, bias {found.bias:+.1%}\n"
        )


if __name__ == "__main__":
    sys.exit(main())
