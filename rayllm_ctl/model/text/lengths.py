"""Lengths of prompts and answers in tokens: one number, or a distribution in the forms that `bench` sends."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.text.patterns import Pattern

FORMS = "N, uniform:MIN:MAX or lognormal:MEDIAN:SIGMA[:MAX], in tokens from 1 on"

LONGEST = 10_000_000

_NUMBER = r"[1-9][0-9]{0,7}"
DISTRIBUTION = Pattern(
    rf"uniform:{_NUMBER}:{_NUMBER}|lognormal:{_NUMBER}:(?:[0-9](?:\.[0-9]{{1,12}})?|\.[0-9]{{1,12}})(?::{_NUMBER})?"
)
_FORM = Pattern(rf"{_NUMBER}|{DISTRIBUTION.expression}")

Shares = tuple[tuple[float, float], ...]
"""(share, tokens): classes of lengths by the share of what they stand for, in order. The shares add up to 1."""

_UNIFORM_CLASSES = 24
_LOWEST, _HIGHEST, _WIDTH, _NARROWEST = -3.5, 3.0, 0.25, 0.1
"""Classes of a lognormal distribution in standard deviations of the logarithm: from where to where, above twice sigma,
around which the second moment lies; and how wide one is for a sigma up to 1. For a larger one they are narrower, down
to the last figure."""

_USUAL = 0.999


@dataclass(frozen=True)
class Lengths:
    """A distribution of numbers of tokens.

    fixed: always `low`. uniform: `low` to `high`, both included. lognormal: with the median `low`, and `sigma` the
    standard deviation of the logarithm; at most `high`.
    """

    kind: Literal["fixed", "uniform", "lognormal"]
    low: int
    high: int
    sigma: float = 0.0

    @property
    def mean(self) -> float:
        return sum(share * tokens for share, tokens in self.classes())

    @property
    def usual_maximum(self) -> int:
        """Tokens that 99.9 % do not exceed."""
        if self.kind != "lognormal":
            return self.high
        reached = 0.0
        for share, tokens in self.classes():
            reached += share
            if reached >= _USUAL:
                return math.ceil(tokens)
        return self.high

    def classes(self) -> Shares:
        """The distribution as classes, each with its mean length."""
        if self.low == self.high or self.kind == "fixed" or (self.kind == "lognormal" and not self.sigma):
            return ((1.0, float(self.low)),)
        return _uniform(self.low, self.high) if self.kind == "uniform" else _lognormal(self.low, self.sigma, self.high)


def parse_lengths(value: int | str) -> Lengths:
    """ValueError if `value` has none of FORMS."""
    if isinstance(value, int):
        return Lengths("fixed", value, value)
    return _parsed(value)


def average(value: int | str | None) -> int | None:
    """The mean length, at least 1; None if there is none."""
    return value if value is None or isinstance(value, int) else max(1, round(parse_lengths(value).mean))


@cache
def _parsed(text: str) -> Lengths:
    if not _FORM.fullmatch(text):
        raise ValueError(f"expected {FORMS}")
    kind, *parts = text.split(":")
    match kind, parts:
        case number, ():
            found = Lengths("fixed", int(number), int(number))
        case "uniform", (low, high):
            found = Lengths("uniform", int(low), int(high))
        case _, (low, sigma, *high):
            found = Lengths("lognormal", int(low), int(high[0]) if high else LONGEST, float(sigma))
    if not found.low <= found.high <= LONGEST:
        raise ValueError(f"expected {FORMS}")
    return found


@cache
def _uniform(low: int, high: int) -> Shares:
    count = high - low + 1
    number = min(count, _UNIFORM_CLASSES)
    edges = [low + count * index // number for index in range(number + 1)]
    return tuple(((end - begin) / count, (begin + end - 1) / 2) for begin, end in itertools.pairwise(edges))


@cache
def _lognormal(median: int, sigma: float, most: int) -> Shares:
    """Classes of equal width in the logarithm, and one of what is cut off at `most`. The mean of a class from the
    partial expectation of a lognormal variable: median exp(sigma² / 2) (Phi(z2 - sigma) - Phi(z1 - sigma))."""
    top = min(2 * sigma + _HIGHEST, math.log(most / median) / sigma)
    number = math.ceil((top - _LOWEST) / max(_NARROWEST, min(_WIDTH, _WIDTH / sigma)))
    edges = [_LOWEST + (top - _LOWEST) * index / number for index in range(number + 1)]
    inner, whole = [-math.inf, *edges[1:-1], edges[-1]], median * math.exp(sigma**2 / 2)
    found = []
    for begin, end in itertools.pairwise(inner):
        share = _below(end) - _below(begin)
        found.append((share, max(1.0, whole * (_below(end - sigma) - _below(begin - sigma)) / share)))
    rest = 1 - _below(top)
    return (*found, (rest, min(float(most), median * math.exp(sigma * top))))


def _below(deviations: float) -> float:
    """The standard normal distribution."""
    return (1 + math.erf(deviations / math.sqrt(2))) / 2
