"""Parameters and results of a benchmark of an engine without a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.text.json_form import rfc3339


@dataclass(frozen=True)
class OfflineLoad:
    """How much is measured. requests: all at once, for the throughput. batch: how many form a batch, whose latency is
    measured `repeats` times after `warmup` times that do not count.
    """

    input_tokens: int
    output_tokens: int
    requests: int
    batch: int
    repeats: int
    warmup: int


@dataclass(frozen=True)
class Latency:
    """Seconds for a batch."""

    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True)
class OfflineResults:
    """vLLM's own figures; None for what was not measured. seconds: of all requests. problem: why the latency is
    missing, empty if it is not. started_at: when the measurement was begun. versions: of rayllm-ctl and of vLLM.
    """

    model: str
    gpus: str
    load: OfflineLoad
    seconds: float | None
    latency: Latency | None
    interrupted: bool
    started_at: datetime
    versions: Mapping[str, str]
    problem: str = ""

    @property
    def requests_per_second(self) -> float | None:
        return self.load.requests / self.seconds if self.seconds else None

    @property
    def output_tokens_per_second(self) -> float | None:
        """Every answer has its full length: vLLM's benchmarks ignore the end-of-sequence token."""
        rate = self.requests_per_second
        return None if rate is None else rate * self.load.output_tokens

    def to_json(self) -> dict[str, Any]:
        """As `bench offline -o json` prints it."""
        load, rate, latency = self.load, self.requests_per_second, self.latency
        throughput = {
            "requestsPerSecond": rate,
            "inputTokensPerSecond": None if rate is None else rate * load.input_tokens,
            "outputTokensPerSecond": self.output_tokens_per_second,
        }
        return {
            "model": self.model,
            "gpus": self.gpus,
            "startedAt": rfc3339(self.started_at.replace(microsecond=0)),
            "versions": dict(self.versions),
            "load": {
                "inputTokens": load.input_tokens,
                "outputTokens": load.output_tokens,
                "requests": load.requests,
                "batch": load.batch,
                "repeats": load.repeats,
                "warmup": load.warmup,
            },
            "durationSeconds": self.seconds,
            "throughput": None if rate is None else throughput,
            "batchLatencySeconds": None if latency is None else asdict(latency),
            "interrupted": self.interrupted,
        }
