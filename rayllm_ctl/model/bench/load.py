"""Results of load tests and their comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class Results:
    """One result for each load, in the form of loadtest.result; with find_max also the highest rate that is good."""

    target: str
    models: tuple[str, ...]
    runs: tuple[Mapping[str, Any], ...]
    searched: bool = False
    highest_rate: float | None = None

    @property
    def interrupted(self) -> bool:
        return any(run["interrupted"] for run in self.runs)

    @property
    def failed(self) -> bool:
        """Whether a request failed, or no rate kept the limits; in a search, loads that are too high may fail."""
        if self.searched:
            return self.highest_rate is None
        return any(run["requests"]["failed"] for run in self.runs)

    def to_json(self) -> dict[str, Any]:
        """The facts of all loads, and the result of each. highestRate: only of a search."""
        head: dict[str, Any] = {"target": self.target, "models": list(self.models)}
        found = {"highestRate": self.highest_rate} if self.searched else {}
        return {**head, **found, "runs": list(self.runs)}


@dataclass(frozen=True)
class LoadProgress:
    """How far a load is. load: its settings. number: which of the loads, from 1; count: of all of them, None in a
    search, which ends when it has found the rate. elapsed: seconds since it began, None during the warm-up.
    """

    load: Mapping[str, Any]
    number: int
    count: int | None
    done: int
    failed: int
    running: int
    elapsed: float | None
    ended: bool

    @property
    def share(self) -> float:
        """How much of the load is over, by requests or by time, whichever is further."""
        return max(self._of_requests, self._of_time)

    @property
    def expected(self) -> tuple[float, bool] | None:
        """Seconds that the load will take, and whether that is certain; None while it cannot be told."""
        if self.elapsed is None or not self.share:
            return None
        if self._of_time >= self._of_requests:
            return float(self.load["duration"]), "requests" not in self.load
        return self.elapsed / self.share, False

    @property
    def _of_requests(self) -> float:
        return min(1.0, self.done / self.load["requests"]) if "requests" in self.load else 0.0

    @property
    def _of_time(self) -> float:
        if "duration" not in self.load or self.elapsed is None:
            return 0.0
        return min(1.0, self.elapsed / float(self.load["duration"]))


@dataclass(frozen=True)
class Ratio:
    """A figure of the second result as a part of that of the first.

    low, high: the bootstrap interval of 95 %. noise: whether 1 lies in it. higher_is_better: of the figure.
    """

    name: str
    unit: str
    first: float
    second: float
    ratio: float
    low: float
    high: float
    higher_is_better: bool

    @property
    def noise(self) -> bool:
        return self.low <= 1 <= self.high


@dataclass(frozen=True)
class Comparison:
    """Two results. notes: what differs between them beside the figures, and what is not known of them.

    same_load: whether the ratios are of the same load; None if a result does not state its load.
    """

    first_load: Mapping[str, Any]
    second_load: Mapping[str, Any]
    ratios: tuple[Ratio, ...]
    notes: tuple[str, ...]
    same_load: bool | None = True
