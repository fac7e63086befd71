"""What one pipeline stage leaves for its KV cache."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from rayllm_ctl.model.facts import ModelFacts
from rayllm_ctl.model.hardware import GPU
from rayllm_ctl.model.plan import Band
from rayllm_ctl.model.quantities import GIB
from rayllm_ctl.planner.memory.activations import Peak, ProfileRun, peak_of
from rayllm_ctl.planner.memory.allocator import allocated
from rayllm_ctl.planner.memory.drafts import Draft
from rayllm_ctl.planner.memory.graphs import NOTHING, Graphs, graph_memory
from rayllm_ctl.planner.memory.options import Options
from rayllm_ctl.planner.memory.overheads import load_extras, non_torch
from rayllm_ctl.planner.memory.shards import ShardSettings, Stage, linear_size, stage_tensors
from rayllm_ctl.planner.memory.types import MemorySettings

EstimateCache = dict[Hashable, object]
"""What was computed before for the same facts, by what it depends on."""


@dataclass(frozen=True)
class EstimateContext:
    """One question: a model on a GPU under one version's rules."""

    facts: ModelFacts
    gpu: GPU
    release: tuple[int, int, int]
    settings: MemorySettings
    options: Options
    shape: ShardSettings
    second_runner: bool
    memo: EstimateCache
    draft: Draft | None = None

    @property
    def requested(self) -> int:
        return math.ceil(self.gpu.memory_bytes * self.settings.gpu_memory_utilization)


@dataclass(frozen=True)
class Budget:
    """The parts of one stage's memory in bytes. `parameters`: raw; `weights`: as the allocator counts them, with what
    is set aside while they load, less what is offloaded."""

    stage: Stage
    parameters: int
    weights: int
    adapters: int
    peak: Peak
    activation: Band
    non_torch: Band
    graphs: Graphs
    cache: Band


def stage_budget(case: EstimateContext, stage: Stage) -> Budget:
    """The budget of one pipeline stage."""
    facts, settings, shape = case.facts, case.settings, case.shape
    adapters = list(adapter_tensors(stage, shape, case.options))
    extras = load_extras(
        facts, stage, shape, release=case.release, gpu=case.gpu, tokens=settings.max_num_batched_tokens
    )
    parameters, weights = _weights(case, stage, tuple(extras))
    weights -= min(case.options.offload, parameters)
    load = ProfileRun(
        settings.max_num_batched_tokens,
        settings.max_num_seqs,
        shape.tensor,
        shape.dtype_bytes,
        case.options.images,
        settings.max_model_len if case.options.videos else 0,
    )
    peak = peak_of(facts, case.release, load, first=stage.first, last=stage.last, second_runner=case.second_runner)
    graphs = Graphs(NOTHING, NOTHING)
    if not settings.enforce_eager:
        graphs = graph_memory(
            facts,
            case.gpu,
            case.release,
            seqs=settings.max_num_seqs,
            tensor=settings.tensor,
            pipeline=settings.pipeline,
            second_runner=case.second_runner,
        )
    activation = _widened(case, peak)
    outside = non_torch(case.release, case.gpu, settings.tensor, settings.pipeline)
    left = case.requested - weights - sum(adapters)
    return Budget(
        stage,
        parameters,
        weights,
        sum(adapters),
        peak,
        activation,
        outside,
        graphs,
        _left(left, (activation, outside, graphs.counted)),
    )


def _weights(case: EstimateContext, stage: Stage, extras: tuple[int, ...]) -> tuple[int, int]:
    """(bytes of the parameters, bytes that the allocator counts for them and for `extras`)."""
    key = ("weights", case.shape, case.options.images, stage.key, extras)
    known = case.memo.get(key)
    if isinstance(known, tuple):
        return known
    tensors = list(stage_tensors(case.facts, stage, case.shape, encoders=case.options.images))
    if case.draft is not None and stage.last:
        tensors += case.draft.tensors(case.shape)
    case.memo[key] = found = (sum(tensors), allocated([*tensors, *extras]))
    return found


def _widened(case: EstimateContext, peak: Peak) -> Band:
    """The band of the peak. Wider where logs scatter: recurrent layers since 0.26 (their warm-up is charged,
    vllm#50780), parallel streams (DeepSeek V4 on GH200 took 4 GiB more than the formula at 16384 tokens, 0.22), and
    encoders, whose largest item may be a video."""
    high = 1.02 * peak.most + 0.06 * GIB + 0.15 * peak.encoder
    if "hybrid" in case.facts.traits and case.release >= (0, 26, 0):
        high += 0.5 * GIB
    if case.facts.streams > 1:
        high += 280_000 * case.settings.max_num_batched_tokens
    return Band(0.985 * peak.least - 0.02 * GIB, peak.total, high)


def _left(amount: float, parts: tuple[Band, ...]) -> Band:
    """What is left after parts whose errors are independent: their widths add up as squares."""
    typical = amount - sum(part.typical for part in parts)
    more = math.sqrt(sum((part.high - part.typical) ** 2 for part in parts))
    less = math.sqrt(sum((part.typical - part.low) ** 2 for part in parts))
    return Band(typical - more, typical, typical + less)


def adapter_tensors(stage: Stage, shape: ShardSettings, options: Options) -> Iterator[int]:
    """LoRA adapters: for each slot and each projection of a fused layer two matrices of the highest rank (lora/layers).
    vLLM makes them at load for every layer of the decoder."""
    if not options.lora_slots:
        return
    known: dict[int, int] = {}
    for layer in stage.layers:
        size = known.get(id(layer))
        if size is None:
            size = 0
            for linear in layer.linears:
                inputs, outputs = linear_size(linear, shape.tensor)
                size += options.lora_rank * (inputs * len(linear.parts) + outputs)
            for experts in layer.experts:
                count = -(-experts.count // shape.tensor) if shape.expert_parallel else experts.count
                width = experts.intermediate if shape.expert_parallel else -(-experts.intermediate // shape.tensor)
                sides = 2 if experts.gated else 1
                size += options.lora_rank * count * ((sides + 1) * (experts.hidden + width))
            known[id(layer)] = size = size * options.lora_slots * shape.dtype_bytes
        yield size
