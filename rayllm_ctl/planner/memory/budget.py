"""What one pipeline stage leaves for its KV cache."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import replace

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import Band
from rayllm_ctl.planner import vllm_rules
from rayllm_ctl.planner.engine.resolved import ResolvedSettings
from rayllm_ctl.planner.memory.activations import (
    SPARSE_TRANSIENT,
    Peak,
    ProfileRun,
    gathered_bytes,
    peak_of,
    workspace_bytes,
)
from rayllm_ctl.planner.memory.allocator import allocated
from rayllm_ctl.planner.memory.drafts import Draft
from rayllm_ctl.planner.memory.engine import packs_sparse_latent
from rayllm_ctl.planner.memory.evidence import EvidenceQuery, Spread, spreads
from rayllm_ctl.planner.memory.graphs import NOTHING, Graphs, graph_memory
from rayllm_ctl.planner.memory.moekernels import ExpertKernel
from rayllm_ctl.planner.memory.options import Options
from rayllm_ctl.planner.memory.overheads import awq_growth, load_extras, non_torch
from rayllm_ctl.planner.memory.shards import ShardSettings, Stage, linear_size, stage_tensors

EstimateCache = dict[Hashable, object]
"""What was computed before for the same facts, by what it depends on."""


@dataclass(frozen=True)
class EstimateContext:
    """One question: a model on a GPU under one version's rules. unexplained: bytes of one rank that the checkpoint
    holds and its config does not explain (below 0: that it lacks)."""

    facts: ModelFacts
    gpu: GPU
    release: tuple[int, int, int]
    settings: ResolvedSettings
    options: Options
    shape: ShardSettings
    second_runner: bool
    kernel: ExpertKernel
    cache: EstimateCache
    draft: Draft | None = None
    unexplained: int = 0

    @property
    def by_files(self) -> int:
        """Bytes of one rank by which quantized weights are planned as their files have them."""
        return self.unexplained if self.facts.quantization else 0

    @property
    def requested(self) -> int:
        return math.ceil(self.gpu.memory_bytes * self.settings.gpu_memory_utilization)


@dataclass(frozen=True)
class Budget:
    """The parts of one stage's memory in bytes. `parameters`: raw; `weights`: as the allocator counts them, with what
    is set aside while they load, less what is offloaded. loading: what is allocated at most while the weights are
    quantized, 0 where that is no more than `weights`. spreads: what is not known, each with its bytes."""

    stage: Stage
    parameters: int
    weights: int
    adapters: int
    peak: Peak
    activation: Band
    non_torch: Band
    graphs: Graphs
    cache: Band
    loading: int = 0
    spreads: tuple[Spread, ...] = ()


def stage_budget(context: EstimateContext, stage: Stage) -> Budget:
    """The budget of one pipeline stage."""
    facts, settings, shape = context.facts, context.settings, context.shape
    adapters = list(adapter_tensors(stage, shape, context.options))
    extras = load_extras(
        facts,
        stage,
        shape,
        release=context.release,
        gpu=context.gpu,
        tokens=settings.max_num_batched_tokens,
        images=context.options.images and stage.first,
    )
    parameters, weights = _weights(context, stage, tuple(extras))
    weights += awq_growth(facts, context.release, weights)
    weights -= min(context.options.offload, parameters)
    peak = _peak(context, stage)
    graphs = Graphs(NOTHING, NOTHING)
    if not settings.eager:
        graphs = graph_memory(
            facts,
            context.gpu,
            context.release,
            seqs=settings.max_num_seqs,
            tokens=settings.max_num_batched_tokens,
            tensor=settings.tensor,
            pipeline=settings.pipeline,
            second_runner=context.second_runner,
            monolithic=context.kernel.monolithic,
        )
    activation = _widened(context, peak)
    outside = non_torch(
        context.release, context.gpu, settings.tensor, settings.pipeline, data=shape.data, eager=settings.eager
    )
    unknown = (*spreads(_evidence_query(context, weights, peak)), *_doubt(context))
    left = context.requested - weights - sum(adapters)
    return Budget(
        stage,
        parameters,
        weights,
        sum(adapters),
        peak,
        activation,
        outside,
        graphs,
        _left(left, (activation, outside, graphs.counted), unknown, peak.total - peak.least),
        _loading(context, stage),
        unknown,
    )


def _peak(context: EstimateContext, stage: Stage) -> Peak:
    """The profile run's peak on a stage."""
    facts, settings, shape = context.facts, context.settings, context.shape
    load = ProfileRun(
        settings.max_num_batched_tokens,
        settings.max_num_seqs,
        shape.tensor,
        shape.dtype_bytes,
        context.options.images,
        settings.max_model_len if context.options.videos else 0,
        settings.max_model_len,
        large=context.gpu.memory_bytes >= 70 * GIB,
        flashinfer=_flashinfer(context),
        spread=shape.whole_encoders,
        expert_parallel=shape.expert_parallel,
        data=shape.data,
    )
    fp8 = settings.kv_cache_dtype.startswith("fp8")
    workspace = workspace_bytes(
        facts,
        context.release,
        load,
        monolithic=context.kernel.monolithic,
        packed=fp8 and packs_sparse_latent(context.release, context.gpu),
    )
    return peak_of(
        facts,
        context.release,
        load,
        first=stage.first,
        last=stage.last,
        second_runner=context.second_runner,
        workspace=workspace,
        transient=(SPARSE_TRANSIENT if "dsa" in facts.traits else 0) + gathered_bytes(facts, load),
    )


def _flashinfer(context: EstimateContext) -> bool | None:
    """Whether FlashInfer's sampler is asked for. It runs on CUDA alone, and returns no processed log probabilities
    (v1/sample/ops/topk_topp_sampler.py, read in 0.10.2, 0.18 and 0.33)."""
    processed = str(context.settings.args.get("logprobs_mode", "")).startswith("processed")
    if context.gpu.vendor != "nvidia" or processed:
        return False
    return {"0": False, "1": True}.get(context.settings.env.get("VLLM_USE_FLASHINFER_SAMPLER", ""))


def _evidence_query(context: EstimateContext, weights: int, peak: Peak) -> EvidenceQuery:
    facts, online = context.facts, context.shape.online
    scheme = facts.quantization.method if facts.quantization else online.method if online else ""
    return EvidenceQuery(
        facts,
        context.gpu,
        context.release,
        context.second_runner,
        context.settings.tensor,
        context.shape.data,
        context.kernel.name,
        scheme,
        weights,
        peak.workspace,
        peak.encoder,
    )


def _doubt(context: EstimateContext) -> Iterator[Spread]:
    """From what is planned of the weights to what the other source says: their files, or what the config describes."""
    size = context.unexplained
    if size:
        more = max(0, size) if not context.by_files else max(0, -size)
        yield Spread("weights whose files and config differ", more, abs(size) - more)


def _weights(context: EstimateContext, stage: Stage, extras: tuple[int, ...]) -> tuple[int, int]:
    """(bytes of the parameters, bytes that the allocator counts for them and for `extras`)."""
    key = ("weights", context.shape, context.options.images, stage.key, extras, context.unexplained)
    known = context.cache.get(key)
    if isinstance(known, tuple):
        return known
    tensors = list(stage_tensors(context.facts, stage, context.shape, encoders=context.options.images))
    if context.draft is not None and stage.last:
        tensors += context.draft.tensors(context.shape)
    rest = max(-sum(tensors), context.by_files)
    context.cache[key] = found = (sum(tensors) + rest, allocated([*tensors, *extras]) + rest)
    return found


def _loading(context: EstimateContext, stage: Stage) -> int:
    """Bytes that a stage takes at most while fp8 is laid over 16-bit weights (--quantization fp8).

    Nothing if each layer is made when it is read. Before, all layers were made in 16 bits first, and in some
    releases those that are quantized were still held until the last one was read.
    """
    online = context.shape.online
    if online is None or not online.floating or vllm_rules.ONLINE_FP8_BY_LAYER.holds(context.release):
        return 0

    def sizes(shape: ShardSettings) -> list[int]:
        return list(stage_tensors(context.facts, stage, shape, encoders=context.options.images))

    whole = sizes(replace(context.shape, online=None))
    if vllm_rules.ONLINE_FP8_HOLDS_BOTH.holds(context.release):
        return 2 * sum(whole) - sum(sizes(context.shape))
    return sum(whole) + max(whole) // 2


def _widened(context: EstimateContext, peak: Peak) -> Band:
    """The band of the peak. Wider where logs scatter: the second runner's (nine logs), without torch.compile
    35 % less (Qwen3-8B on H100, 0.26), recurrent layers since 0.26
    (their warm-up is charged, vllm#50780), parallel streams (DeepSeek V4 on GH200 took 4 GiB more than the formula at
    16384 tokens, 0.22), and encoders, whose largest item may be a video."""
    high = 1.02 * peak.most + 0.06 * GIB + 0.15 * peak.encoder
    low = 0.985 * peak.least - 0.02 * GIB
    if context.second_runner:
        high, low = high + 0.06 * peak.most, low - (0.4 if context.settings.eager else 0.15) * peak.least
    if "hybrid" in context.facts.traits and vllm_rules.STATES_WARM_UP.holds(context.release):
        high += 0.5 * GIB
    if context.facts.streams > 1:
        high += 280_000 * context.settings.max_num_batched_tokens
    return Band(low, peak.total, high)


def _left(amount: float, parts: tuple[Band, ...], unknown: tuple[Spread, ...], otherwise: float) -> Band:
    """What is left after parts whose errors are independent, as those of what is not known are: their widths add up as
    squares. otherwise: what the peak may be smaller by as a whole (another sampler, no encoder, a warm start)."""
    typical = amount - sum(part.typical for part in parts)
    more = [*(part.high - part.typical for part in parts), *(spread.more for spread in unknown)]
    less = [*(part.typical - part.low for part in parts), *(spread.less for spread in unknown)]
    less[0] = max(0.0, less[0] - otherwise)
    return Band(typical - math.hypot(*more), typical, typical + otherwise + math.hypot(*less))


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
                inputs, outputs = linear_size(linear, shape.tensor_of(linear))
                size += options.lora_rank * (inputs * len(linear.parts) + outputs)
            for experts in layer.experts:
                ranks = shape.expert_ranks
                count = -(-experts.count // ranks) if shape.expert_parallel else experts.count
                width = experts.intermediate if shape.expert_parallel else -(-experts.intermediate // ranks)
                sides = 2 if experts.gated else 1
                size += options.lora_rank * count * ((sides + 1) * (experts.hidden + width))
            known[id(layer)] = size = size * options.lora_slots * shape.dtype_bytes
        yield size
