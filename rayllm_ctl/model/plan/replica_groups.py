"""Replicas of a Serve configuration, and the groups of workers that hold them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.text.problems import Path


@dataclass(frozen=True)
class Unit:
    """What has to fit one worker: a replica, or a bundle of one that is spread over nodes.

    low, high: how many there are when the application starts, and at most. per_worker: how many may share a worker.
    """

    name: str
    path: Path
    resources: Mapping[str, float]
    accelerator: str | None
    labels: Mapping[str, str]
    low: int
    high: int
    per_worker: int | None = None


@dataclass(frozen=True)
class Group:
    """A worker group and what one of its workers offers. memory: bytes that its replicas reserve."""

    name: str
    units: tuple[Unit, ...]
    accelerator: str | None
    labels: Mapping[str, str]
    cpus: int
    gpus: int
    memory: int
    custom: Mapping[str, float]
    min_workers: int
    max_workers: int

    @property
    def sharing(self) -> int:
        """The most replicas that may run on one worker at once."""
        free = {"CPU": float(self.cpus), "GPU": float(self.gpus), **self.custom}
        if self.memory:
            free["memory"] = float(self.memory)
        return max(_fitting(free, unit) for unit in self.units)


def _fitting(free: Mapping[str, float], unit: Unit) -> int:
    """How many of a unit fit what is free, as far as it asks for something."""
    limits = [unit.high, *([unit.per_worker] if unit.per_worker else [])]
    limits += [math.floor(free.get(name, amount) / amount + 1e-9) for name, amount in unit.resources.items()]
    return max(1, min(limits))
