"""How fast a replica answers: roofline bands for prefill and decode, and time to first token and per token at a load.

Decode step = max(bytes / (0.8 x bandwidth), FLOPs / (0.5 x peak)) + 12 us per all-reduce + 1 ms. Held against 13 public
measurements the step was within 8 % for dense models of 7B and more (median 12 %, mean 21 % over all), 32 to 59 % short
of the measured time below 2B, and 5 to 46 % short for MoE; the bands below carry those errors. No prefill measurement
stands behind this, so its band is as wide as published utilizations of the tensor cores (30 to 65 % of the peak).
"""

from __future__ import annotations

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.calibration import Calibration
from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import Band, Figures, LoadPoint, Throughput
from rayllm_ctl.planner.request import Workload
from rayllm_ctl.planner.speed.work import ModelWork

_BANDWIDTH_SHARE = 0.8
_COMPUTE_SHARE = 0.5
_PREFILL_SHARE = Band(0.30, 0.50, 0.65)
_ALL_REDUCE_SECONDS = 12e-6
_STEP_SECONDS = 1e-3
_LINK_SHARE = 0.7
"""Share of a link's bandwidth that an all-reduce of a long prompt reaches (an assumption)."""

_NETWORK_BANDWIDTH = 1.25e9
_NETWORK_ALL_REDUCE_SECONDS = 2.5e-4
"""Bytes/s of a node and seconds of a small all-reduce over a plain network of 10 Gbit/s (assumptions)."""

_STAGE_HOP_SECONDS = 1e-4
"""Handing activations to the next pipeline stage over a network (an assumption)."""

_SMALL, _MEDIUM = 2e9, 7e9
_DENSE = Band(0.92, 1.0, 1.15)
_MEDIUM_MODEL = Band(0.95, 1.2, 1.6)
_SMALL_MODEL = Band(1.4, 1.8, 2.45)
_MOE = Band(1.0, 1.3, 1.9)


@dataclass(frozen=True)
class Speed:
    """The roofline of one replica: `work` over `tensor` x `pipeline` GPUs. `error`: measured over computed step.

    networked: the GPUs that share a layer are in several nodes. calibration: what was measured of such a replica.
    """

    work: ModelWork
    gpu: GPU
    tensor: int
    pipeline: int
    error: Band
    networked: bool = False
    calibration: Calibration | None = None

    def step(self, batch: float, length: float) -> float:
        """Seconds of one decode step of `batch` requests that are `length` tokens long, before the error band."""
        stages, ranks = self.pipeline, self.tensor
        share = max(1.0, batch / stages)
        moved = self.work.weight_bytes(share) / ranks / stages + share * self.work.cache_bytes(length, ranks) / stages
        operations = share * (self.work.flops_per_token + self.work.head_flops + self.work.attention_flops(length))
        compute = operations / ranks / stages / (_COMPUTE_SHARE * self._peak())
        stage = max(moved / (_BANDWIDTH_SHARE * self.gpu.bandwidth), compute)
        together = self._all_reduces() + (self._all_reduce_transfer(batch) if self.networked else 0.0)
        return stages * stage + together + _STEP_SECONDS + (stages - 1) * _STAGE_HOP_SECONDS

    def prefill(self, tokens: float) -> Band:
        """Seconds of computing a prompt of `tokens` tokens alone."""
        operations = tokens * (self.work.flops_per_token + self.work.attention_flops(tokens / 2)) + self.work.head_flops
        compute = operations / self.tensor / self._peak()
        read = self.work.weight_bytes(tokens) / self.tensor / (_BANDWIDTH_SHARE * self.gpu.bandwidth)
        overhead = _STEP_SECONDS + self._all_reduces() + self._all_reduce_transfer(tokens)
        return Band(
            max(compute / _PREFILL_SHARE.high, read) + overhead,
            max(compute / _PREFILL_SHARE.typical, read) + overhead,
            max(compute / _PREFILL_SHARE.low, read) + overhead,
        )

    def _peak(self) -> float:
        flops = self.gpu.flops
        wide = flops.get("bf16") or flops.get("fp16", 0.0)
        if self.work.fp4 and "fp4" in flops:
            return flops["fp4"]
        return flops["fp8"] if (self.work.fp8 or self.work.fp4) and "fp8" in flops else wide

    def _all_reduces(self) -> float:
        each = _NETWORK_ALL_REDUCE_SECONDS if self.networked else _ALL_REDUCE_SECONDS
        return 2 * self.work.layers * each if self.tensor > 1 else 0.0

    def _all_reduce_transfer(self, tokens: float) -> float:
        """A ring moves 2 (n - 1) / n of the activations, twice a layer, in 16 bits."""
        link = _NETWORK_BANDWIDTH if self.networked else self.gpu.link_bandwidth
        if self.tensor == 1 or not link:
            return 0.0
        volume = 2 * self.work.layers * tokens * self.work.hidden * 2 * 2 * (self.tensor - 1) / self.tensor
        return volume / (_LINK_SHARE * link)


def speed(
    facts: ModelFacts, work: ModelWork, gpu: GPU, tensor: int, pipeline: int, calibration: Calibration | None = None
) -> Speed:
    """The roofline of a replica, with the error band of its kind of model."""
    return Speed(work, gpu, tensor, pipeline, _error(facts), tensor > gpu.max_per_node, calibration)


def throughput(facts: ModelFacts, rate: Speed, load: Workload, batch: float, within: Band) -> Throughput:
    """The throughput section of a plan, for one replica with `batch` requests in flight, of which it takes `within`."""
    return Throughput(
        load=LoadPoint(load.input_tokens, load.output_tokens, round(batch, 1)),
        concurrency_at_load=Band(int(within.low), int(within.typical), int(within.high)),
        one_request=at_load(rate, load, 1.0),
        at_load=at_load(rate, load, batch),
        extrapolated=extrapolations(facts, rate),
        calibration=rate.calibration,
    )


def extrapolations(facts: ModelFacts, rate: Speed) -> tuple[str, ...]:
    """What about this replica lies outside the measurements that the bands were taken from."""
    found = []
    if facts.moe:
        found.append("MoE: measured steps were 5 to 46 % longer than the formula")
    if facts.parameters < _SMALL:
        found.append("under 2B parameters: measured steps were 32 to 59 % longer than the formula")
    if "hybrid" in facts.traits or "mla" in facts.traits or "dsa" in facts.traits:
        found.append("state-space, linear or latent attention: not measured")
    if rate.gpu.vendor != "nvidia":
        found.append(f"{rate.gpu.vendor.upper()} GPUs: not measured")
    if rate.networked:
        found.append("TP across nodes (10 Gbit/s assumed): not measured")
    elif rate.tensor > 1 and rate.gpu.interconnect == "pcie":
        found.append("TP over PCIe: not measured")
    if rate.pipeline > 1:
        found.append("pipeline parallelism: not measured")
    return tuple(found)


def _error(facts: ModelFacts) -> Band:
    if facts.moe:
        return _MOE
    if facts.parameters < _SMALL:
        return _SMALL_MODEL
    return _MEDIUM_MODEL if facts.parameters < _MEDIUM * 0.9 else _DENSE


def at_load(rate: Speed, load: Workload, batch: float) -> Figures:
    """Figures of `batch` requests in flight, each replaced as soon as it ends.

    Prompts and answers share the GPU, so one request takes its prompt's time plus its share of every step. A prompt
    waits for those before it as in a queue with even service times: busy share x prompt / 2 / (1 - busy share).
    A calibration multiplies what comes out.
    """
    step = rate.step(batch, load.input_tokens + load.output_tokens / 2)
    prompt = rate.prefill(load.input_tokens)
    best = _figures(load, batch, prompt.low, step * rate.error.low, rate.pipeline)
    typical = _figures(load, batch, prompt.typical, step * rate.error.typical, rate.pipeline)
    worst = _figures(load, batch, prompt.high, step * rate.error.high, rate.pipeline)
    measured = rate.calibration
    ttft, tpot, speed = (measured.ttft, measured.tpot, measured.throughput) if measured else (1.0, 1.0, 1.0)
    return Figures(
        *(
            Band(*(ratio * end for end in ends))
            for ratio, ends in (
                (ttft, (best[0], typical[0], worst[0])),
                (tpot, (best[1], typical[1], worst[1])),
                (speed, (worst[2], typical[2], best[2])),
                (speed, (worst[3], typical[3], best[3])),
            )
        )
    )


def _figures(
    load: Workload, batch: float, prompt: float, step: float, stages: int
) -> tuple[float, float, float, float]:
    """(TTFT, TPOT, tokens/s, requests/s) where a prompt takes `prompt` and a step of the batch `step` seconds."""
    share = prompt / stages + load.output_tokens * step / batch
    busy = min(0.95, prompt / stages / share) if batch > 1 else 0.0
    first = prompt + step + busy * prompt / (2 * (1 - busy))
    each = max(step, (batch * share - first) / max(1, load.output_tokens))
    return first, each, load.output_tokens / share, 1 / share
