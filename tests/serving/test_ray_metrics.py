"""What Ray is told of the gateway's figures, with a stand-in for ray.util.metrics."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import Any

import pytest

from rayllm_ctl.serving.gateway.telemetry import OVERHEAD, PROMPT_TOKENS


class Series:
    """A counter or a histogram."""

    recorded: list[tuple[str, float, dict[str, str]]] = []  # noqa: RUF012 - of all series

    def __init__(self, name: str, *_: Any) -> None:
        self.name = name

    def inc(self, value: float, tags: dict[str, str]) -> None:
        self.recorded.append((self.name, value, tags))


class Histogram(Series):
    """Observes values."""

    def observe(self, value: float, tags: dict[str, str]) -> None:
        self.recorded.append((self.name, value, tags))


def test_counts_are_added_up_and_every_value_is_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = ModuleType("ray.util.metrics")
    stand_in.Counter, stand_in.Histogram = Series, Histogram  # type: ignore[attr-defined]
    util = ModuleType("ray.util")
    util.metrics = stand_in  # type: ignore[attr-defined]
    for module in (ModuleType("ray"), util, stand_in):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(Series, "recorded", [])
    monkeypatch.delitem(sys.modules, "rayllm_ctl.serving.ray_metrics", raising=False)
    from rayllm_ctl.serving import ray_metrics

    monkeypatch.setattr(ray_metrics, "INTERVAL_SECONDS", 0.001)

    async def run() -> None:
        metrics = ray_metrics.RayMetrics()
        for tokens in (3, 4, 0):
            metrics.add(PROMPT_TOKENS, tokens, ("key", "m"))
            metrics.add(OVERHEAD, tokens / 1000, ("m",))
        metrics.add(PROMPT_TOKENS, 5, ("other", "m"))
        await asyncio.sleep(0.01)
        metrics.add(PROMPT_TOKENS, 6, ("key", "m"))
        await asyncio.sleep(0.01)

    asyncio.run(run())
    monkeypatch.delitem(sys.modules, "rayllm_ctl.serving.ray_metrics")
    observed = [value for name, value, _ in Series.recorded if name == OVERHEAD.name]
    counted = [(value, tags) for name, value, tags in Series.recorded if name == PROMPT_TOKENS.name]
    assert observed == [0.003, 0.004, 0.0]
    assert counted == [
        (7, {"key": "key", "model": "m"}),
        (5, {"key": "other", "model": "m"}),
        (6, {"key": "key", "model": "m"}),
    ]
