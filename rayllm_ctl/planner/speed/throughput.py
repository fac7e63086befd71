"""The throughput section of a plan, and what about it no measurement confirms."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.model.plan.plan import Band, LoadPoint, Throughput
from rayllm_ctl.planner.request import Workload
from rayllm_ctl.planner.speed.figures import at_load, long_prompt
from rayllm_ctl.planner.speed.replica import ReplicaSpeed

_SMALLEST_MEASURED = 3e9
"""Parameters."""


def throughput(facts: ModelFacts, rate: ReplicaSpeed, load: Workload, batch: float, within: Band) -> Throughput:
    """The throughput section of a plan, for one replica with `batch` requests in flight, of which it takes `within`."""
    return Throughput(
        load=LoadPoint(load.input_tokens, load.output_tokens, round(batch, 1)),
        concurrency_at_load=Band(int(within.low), int(within.typical), int(within.high)),
        one_request=at_load(rate, load, 1.0),
        at_load=at_load(rate, load, batch),
        extrapolated=tuple(extrapolations(facts, rate)),
        calibration=rate.calibration,
        long_prompt=long_prompt(rate, load, batch),
    )


def extrapolations(facts: ModelFacts, rate: ReplicaSpeed) -> Iterator[str]:
    """What about this replica lies outside the measurements behind the figures, or rests on few of them."""
    if facts.parameters < _SMALLEST_MEASURED:
        yield "under 3B parameters: not measured"
    if "hybrid" in facts.traits or "mla" in facts.traits or "dsa" in facts.traits:
        yield "state-space, linear or latent attention: few measurements"
    if rate.gpu.vendor != "nvidia":
        yield f"{rate.gpu.vendor.upper()} GPUs: few measurements, all but one of vLLM 0.6"
    if rate.old_engine:
        yield "vLLM before 0.8: few measurements"
    if rate.data > 1:
        yield "data parallelism with shared experts: not measured" if rate.moe else "data parallelism: not measured"
    if rate.networked:
        yield "TP across nodes (10 Gbit/s assumed): not measured"
    elif rate.over_pcie:
        yield "TP over PCIe: few measurements"
    if rate.pipeline > 1:
        yield "pipeline parallelism: one measurement"
