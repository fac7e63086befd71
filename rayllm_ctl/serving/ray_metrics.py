"""The gateway's figures as metrics of Ray, which every pod of a Ray cluster exports for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from ray.util import metrics

from rayllm_ctl.serving.gateway.steps import Metric

INTERVAL_SECONDS: Final = 1.0
"""For how long counts are collected. Ray itself exports them every 10 s (metrics_report_interval_ms)."""


class RayMetrics:
    """Ray exports the name with the prefix `ray_`. Used on one event loop.

    To record a value takes Ray tens of microseconds, so counts are added up first; a histogram needs every value.
    """

    def __init__(self) -> None:
        self._series: dict[str, metrics.Counter | metrics.Histogram] = {}
        self._counts: dict[tuple[Metric, tuple[str, ...]], float] = {}

    def add(self, metric: Metric, value: float, labels: Sequence[str]) -> None:
        """Add to a counter or observe a value."""
        if metric.boundaries:
            self._record(metric, value, labels)
        elif value > 0:
            if not self._counts:
                asyncio.get_running_loop().call_later(INTERVAL_SECONDS, self._write)
            count = metric, tuple(labels)
            self._counts[count] = self._counts.get(count, 0) + value

    def _write(self) -> None:
        counts, self._counts = self._counts, {}
        for (metric, labels), value in counts.items():
            self._record(metric, value, labels)

    def _record(self, metric: Metric, value: float, labels: Sequence[str]) -> None:
        series = self._series.get(metric.name) or self._series.setdefault(metric.name, _series(metric))
        tags = dict(zip(metric.labels, labels, strict=True))
        if isinstance(series, metrics.Histogram):
            series.observe(value, tags)
        else:
            series.inc(value, tags)


def _series(metric: Metric) -> metrics.Counter | metrics.Histogram:
    if metric.boundaries:
        return metrics.Histogram(metric.name, metric.description, list(metric.boundaries), metric.labels)
    return metrics.Counter(metric.name, metric.description, metric.labels)
