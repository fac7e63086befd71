"""What is kept of finished requests, and the figures made of it."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import floor
from typing import Any

from rayllm_ctl.loadtest.answer import Answer, read_stream, read_whole, shown
from rayllm_ctl.loadtest.connection import Exchange
from rayllm_ctl.loadtest.settings import Objective

PERCENTILES = (50, 90, 95, 99)


class Samples:
    """Figures of the requests of one load, in seconds.

    objective: what an answer has to keep to be good. count: of the tokens of an answer whose server says none.
    """

    def __init__(self, objective: Objective, count: Callable[[str], int] | None = None) -> None:
        self._objective, self._count = objective, count
        self.ttft, self.tpot, self.itl, self.e2e, self.late = (array("d") for _ in range(5))
        self.rows: list[tuple[float, float | None, float | None, float, int | None]] = []
        """Of each request that succeeded: when it began, TTFT, TPOT, end to end, tokens of the answer."""
        self.failures = array("d")
        """When each request that failed ended, on the clock of the test."""
        self.errors: Counter[str] = Counter()
        self.messages: dict[str, str] = {}
        self.succeeded = self.good = 0
        self.input_tokens = self.output_tokens = 0
        self.counted: set[str] = set()
        """Where the numbers of tokens come from: `usage`, `tokenizer`, `none`."""
        self.first = float("inf")
        self.last = float("-inf")

    def add(self, exchange: Exchange) -> None:
        """Take in a finished request."""
        self.first, self.last = min(self.first, exchange.sent or exchange.due), max(self.last, exchange.ended)
        answer = _answer(exchange)
        if answer.error:
            self.failures.append(exchange.ended)
            self.errors[answer.error] += 1
            self.messages.setdefault(answer.error, answer.message)
            return
        self.succeeded += 1
        if exchange.sent:
            self.late.append(exchange.sent - exchange.due)
        self._tokens(answer)
        self._times(exchange.due, answer)

    @property
    def total(self) -> int:
        """How many requests are over."""
        return self.succeeded + self.errors.total()

    @property
    def seconds(self) -> float:
        """From the first start to the last end."""
        return max(self.last - self.first, 0.0) if self.total else 0.0

    def _tokens(self, answer: Answer) -> None:
        source = "usage"
        if answer.completion_tokens is None:
            source = "none"
            if self._count is not None:
                answer.completion_tokens, source = self._count(answer.text), "tokenizer"
        self.counted.add(source)
        self.input_tokens += answer.prompt_tokens or 0
        self.output_tokens += answer.completion_tokens or 0

    def _times(self, begin: float, answer: Answer) -> None:
        assert answer.end is not None
        e2e = answer.end - begin
        self.e2e.append(e2e)
        ttft = tpot = None
        contents = answer.contents
        gaps = [after - before for before, after in pairwise(contents)]
        self.itl.extend(gaps)
        if contents:
            ttft = contents[0] - begin
            self.ttft.append(ttft)
            if answer.completion_tokens is not None and answer.completion_tokens > 1:
                tpot = (e2e - ttft) / (answer.completion_tokens - 1)
                self.tpot.append(tpot)
        self.rows.append((begin, ttft, tpot, e2e, answer.completion_tokens))
        limits = self._objective
        measured = ((ttft, limits.ttft), (tpot, limits.tpot), (max(gaps, default=0.0), limits.itl), (e2e, limits.e2e))
        # What has no value (a single token has no time per output token) cannot be too slow.
        self.good += all(limit is None or value is None or value <= limit for value, limit in measured)


def _answer(exchange: Exchange) -> Answer:
    """What an exchange brought. A status other than 200 comes before what happened to the body."""
    if exchange.status and exchange.status != 200 and exchange.error != "timeout":
        body = b"".join(piece for _, piece in exchange.pieces)
        return Answer(error=f"http_{exchange.status}", message=shown(body) or f"HTTP status {exchange.status}")
    if exchange.error and not (exchange.error == "reset" and exchange.streamed):
        return Answer(error=exchange.error, message=exchange.message)
    if not exchange.streamed:
        return read_whole(b"".join(piece for _, piece in exchange.pieces), exchange.ended, exchange.broken)
    answer = read_stream(exchange.pieces, exchange.broken or bool(exchange.error))
    if answer.error == "cut" and exchange.error:
        return Answer(error=exchange.error, message=exchange.message)
    return answer


def distribution(values: Sequence[float]) -> dict[str, float] | None:
    """Mean, percentiles and the largest; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    found = {"mean": sum(ordered) / len(ordered)}
    found |= {f"p{percent}": percentile(ordered, percent) for percent in PERCENTILES}
    return {**found, "max": ordered[-1]}


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Between the two values nearest to it in proportion, as numpy.percentile does by default."""
    place = (len(ordered) - 1) * percent / 100
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def histogram(values: Sequence[float], bars: int = 10) -> list[dict[str, Any]]:
    """How many values lie up to each of `bars` marks, evenly from the smallest to the largest."""
    if not values:
        return []
    low, high = min(values), max(values)
    width = (high - low) / bars
    counts = [0] * bars
    for value in values:
        counts[min(bars - 1, int((value - low) / width)) if width else bars - 1] += 1
    return [{"upToSeconds": low + width * (bar + 1), "count": count} for bar, count in enumerate(counts)]
