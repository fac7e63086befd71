"""PodDisruptionBudget and monitors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.spec.form import SECONDS


@dataclass(frozen=True)
class PodDisruptionBudget:
    """Limits how many worker pods `kubectl drain` and the cluster's autoscaler may evict."""

    min_available: Annotated[int, "Worker pods that an eviction must leave ready."]


@dataclass(frozen=True)
class Availability:
    """What limits disruptions."""

    pod_disruption_budget: PodDisruptionBudget | None = None


@dataclass(frozen=True)
class Monitor:
    """How Prometheus finds and scrapes the pods."""

    labels: Annotated[Mapping[str, str], "Labels by which Prometheus selects the monitor."] = field(
        default_factory=dict
    )
    interval: Annotated[float | None, SECONDS, "Scrape interval; by default that of Prometheus."] = None


@dataclass(frozen=True)
class Monitoring:
    """A PodMonitor or a ServiceMonitor of the Prometheus operator."""

    pod_monitor: Monitor | None = None
    service_monitor: Monitor | None = None
