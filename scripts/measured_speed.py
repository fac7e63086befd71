"""Public measurements of vLLM's speed (tests/data/speed.json), each with the replica that the planner makes of it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from rayllm_ctl.catalog import gpus, models
from rayllm_ctl.catalog.engines import engine
from rayllm_ctl.catalog.modelconfig import read_config
from rayllm_ctl.model.plan.plan import Figures
from rayllm_ctl.model.spec.service import Accelerator, Engine, LLMService, Load, Model, Parallelism, Replicas
from rayllm_ctl.planner.request import Candidate, Request, Workload
from rayllm_ctl.planner.search import search_plan
from rayllm_ctl.planner.speed.coefficients import Coefficients
from rayllm_ctl.planner.speed.figures import at_load, likely
from rayllm_ctl.planner.speed.replica import ReplicaSpeed, replica_speed

DATA = Path(__file__).resolve().parent.parent / "tests/data/speed.json"
FIGURES = {"ttftSeconds": "TTFT", "tpotSeconds": "TPOT", "outputTokensPerSecond": "output tokens/s"}


@dataclass(frozen=True)
class Measured:
    """One measurement. batch: requests in flight in a replica, as planned; queued: there were more than it holds, so
    that its TTFT is that of a queue. refused: why the plan of the command refuses what ran, if it does."""

    row: Mapping[str, Any]
    rate: ReplicaSpeed
    load: Workload
    batch: float
    queued: bool
    refused: str

    @property
    def campaign(self) -> str:
        return str(self.row["campaign"])

    def figures(self) -> Iterator[tuple[str, float]]:
        """What was measured and can be compared: names of FIGURES with their values, of one replica."""
        for name, value in self.row["measured"].items():
            if name == "outputTokensPerSecond":
                yield name, value / self.row.get("replicas", 1)
            elif not (name == "ttftSeconds" and self.queued):
                yield name, value

    def ratios(self, coefficients: Coefficients) -> Iterator[tuple[str, float]]:
        """Planned over measured figures."""
        found = likely(replace(self.rate, coefficients=coefficients), self.load, self.batch)
        planned = {
            "ttftSeconds": found.ttft,
            "tpotSeconds": found.tpot,
            "outputTokensPerSecond": found.output_tokens_per_second,
        }
        for name, value in self.figures():
            yield name, planned[name] / value

    def covered(self) -> Iterator[tuple[str, bool]]:
        """Whether the plan's band holds the measured figures."""
        planned: Figures = at_load(self.rate, self.load, self.batch)
        bands = {
            "ttftSeconds": planned.ttft,
            "tpotSeconds": planned.tpot,
            "outputTokensPerSecond": planned.output_tokens_per_second,
        }
        for name, value in self.figures():
            yield name, bands[name].low <= value <= bands[name].high


def measurements() -> list[Measured]:
    """All rows of the data file."""
    document = json.loads(DATA.read_text(encoding="utf-8"))
    return [_measured(row, document["configs"]) for row in document["rows"]]


def campaigns() -> dict[str, dict[str, str]]:
    """Title, source and doubts of each campaign."""
    document = json.loads(DATA.read_text(encoding="utf-8"))
    return dict(document["campaigns"])


def _measured(row: Mapping[str, Any], configs: Mapping[str, Any]) -> Measured:
    candidate, request = _planned(row, configs)
    refused = "" if candidate.throughput else "; ".join(reason.message for reason in candidate.reasons)
    if refused:
        length = row["inputTokens"] + row["outputTokens"] + 1
        relaxed = {**row, "maxModelLen": math.ceil(length / 256) * 256, "vllm": None}
        candidate, request = _planned(relaxed, configs)
    if candidate.throughput is None or candidate.settings is None:
        raise SystemExit(f"{row}: {candidate.reasons}")
    batch = candidate.throughput.load.concurrency
    each = row["inFlight"] / row.get("replicas", 1) if "inFlight" in row else batch
    load = Workload(row["inputTokens"], row["outputTokens"], None, None, None, None, stated=False)
    rate = replica_speed(request, candidate.shape, candidate.settings)
    return Measured(row, rate, load, batch, each > batch + 0.5, refused)


def _planned(row: Mapping[str, Any], configs: Mapping[str, Any]) -> tuple[Candidate, Request]:
    if "config" in row:
        config = configs[row["config"]]
    else:
        known = models.find_model(row["model"])
        if known is None:
            raise SystemExit(f"the catalog does not know {row['model']}")
        config = known.config
    facts, gpu = read_config(config), gpus.find_gpu(row["gpu"])
    service = LLMService(
        name="speed",
        model=Model(row["model"]),
        engine=Engine(
            max_model_len=row.get("maxModelLen"),
            max_num_seqs=row.get("maxNumSeqs"),
            max_num_batched_tokens=row.get("maxNumBatchedTokens"),
            dtype=row.get("dtype"),
            kv_cache_dtype=row.get("kvCacheDtype"),
            gpu_memory_utilization=row.get("utilization"),
            args=row.get("args", {}),
        ),
        accelerator=Accelerator(gpu=row["gpu"]),
        parallelism=Parallelism(row["tensor"], row["pipeline"]),
        replicas=Replicas(row.get("replicas", 1), row.get("replicas", 1)),
        load=Load(input_tokens=row["inputTokens"], output_tokens=row["outputTokens"], concurrency=row.get("inFlight")),
    )
    request = Request(service, facts, "catalog", engine(row["vllm"]), (gpu,), hand_sized=True)
    return search_plan(request)[0], request


@dataclass(frozen=True)
class Errors:
    """Of one figure: rows, median and 90th percentile of |planned / measured - 1|, and the median of the signed error,
    as shares."""

    rows: int
    median: float
    p90: float
    bias: float


def errors(ratios: Iterable[tuple[str, float]]) -> dict[str, Errors]:
    """The errors of each figure."""
    found: dict[str, list[float]] = {}
    for name, ratio in ratios:
        found.setdefault(name, []).append(ratio)
    return {name: _errors(found[name]) for name in FIGURES if name in found}


def _errors(ratios: Sequence[float]) -> Errors:
    absolute = sorted(abs(ratio - 1) for ratio in ratios)
    p90 = absolute[min(len(absolute) - 1, math.ceil(0.9 * len(absolute)) - 1)]
    return Errors(len(ratios), median(absolute), p90, median(ratios) - 1)
