"""Planned against measured speed: the errors that docs/contributing/accuracy.md publishes stay within limits."""

from __future__ import annotations

import pytest

from rayllm_ctl.planner.speed.coefficients import FITTED
from scripts.fit_speed import fit, loss
from scripts.measured_speed import Measured, errors, measurements


@pytest.fixture(scope="module")
def rows() -> list[Measured]:
    return measurements()


@pytest.mark.parametrize(
    ("figure", "limit"), [("tpotSeconds", 0.12), ("ttftSeconds", 0.18), ("outputTokensPerSecond", 0.20)]
)
def test_the_median_error_and_the_bias_are_small(rows: list[Measured], figure: str, limit: float) -> None:
    found = errors(ratio for row in rows for ratio in row.ratios(FITTED))[figure]
    assert found.median <= limit
    assert abs(found.bias) <= 0.05


def test_the_bands_hold_at_least_eight_of_ten_figures(rows: list[Measured]) -> None:
    inside = [held for row in rows for _, held in row.covered()]
    assert len(inside) == 199
    assert sum(inside) / len(inside) >= 0.8


def test_the_coefficients_are_those_of_the_fit(rows: list[Measured]) -> None:
    """But for their rounding: fitting again makes the mean error less than one per cent smaller."""
    assert loss(rows, FITTED) <= 1.01 * loss(rows, fit(rows, FITTED))
