"""From a model, a GPU and settings to where its memory goes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rayllm_ctl.model.enginefacts import EngineFacts
from rayllm_ctl.model.facts import Layer, ModelFacts, Scheme, StateCache
from rayllm_ctl.model.hardware import GPU
from rayllm_ctl.model.plan import Band, MemoryPlan
from rayllm_ctl.planner.memory import activations, engine as rules
from rayllm_ctl.planner.memory.allocator import allocated
from rayllm_ctl.planner.memory.graphs import graph_memory
from rayllm_ctl.planner.memory.kvcache import Layout, align_hybrid, group_layers
from rayllm_ctl.planner.memory.pages import CacheShape
from rayllm_ctl.planner.memory.shards import DTYPE_BYTES, Shape, Stage, stage_tensors, stages
from rayllm_ctl.planner.memory.types import Formula, MemoryEstimate, MemorySettings

GIB = 2**30

ONLINE_FP8 = Scheme("fp8", 8, floating=True, group=-1, online=True)


@dataclass(frozen=True)
class Budget:
    """What one pipeline stage leaves for its KV cache, in bytes."""

    parameters: int
    weights: int
    activation: Band
    non_torch: Band
    graphs: Band
    cache: Band


def estimate(facts: ModelFacts, gpu: GPU, engine: EngineFacts, settings: MemorySettings) -> MemoryEstimate:
    """Memory of the fullest GPU of one replica.

    Bands hold in about nine of ten cases. Nothing is refused here: a cache that holds less than one request has a
    max_concurrency below 1, and what lies outside the budget is in `problems`.
    """
    release = engine.release
    dtype_bytes = (
        DTYPE_BYTES.get(settings.dtype or "", 2) if settings.dtype not in (None, "auto") else model_bytes(facts)
    )
    second = engine.uses_second_runner(
        facts.architecture,
        moe=facts.moe,
        hybrid="hybrid" in facts.traits,
        quantized=facts.quantization is not None or settings.quantization is not None,
    )
    online = None if facts.quantization or not settings.quantization else online_scheme(settings.quantization)
    shape = Shape(
        settings.tensor,
        dtype_bytes,
        online,
        expert_parallel=bool(settings.args.get("enable_expert_parallel")),
        mxfp4=rules.mxfp4_padding(release, gpu),
    )
    requested = math.ceil(gpu.memory_bytes * settings.gpu_memory_utilization)
    cut = stages(facts, settings.pipeline)
    budgets = [_budget(facts, gpu, engine, settings, shape, stage, requested, second) for stage in cut]
    layout = _layout(facts, gpu, engine, settings, shape, cut, second)
    tightest = min(budgets, key=lambda budget: budget.cache.typical)
    fullest = max(budgets, key=lambda budget: budget.weights)
    return _answer(facts, gpu, settings, requested, tightest, fullest, layout)


def model_bytes(facts: ModelFacts) -> int:
    """Bytes per element when the user names no dtype: vLLM serves float32 checkpoints in 16 bits."""
    return 2


def online_scheme(method: str) -> Scheme | None:
    """The scheme that vLLM applies to a plain checkpoint for --quantization; None for methods that need a checkpoint."""
    if method in ("fp8", "fp8_per_tensor", "ptpc_fp8"):
        return ONLINE_FP8
    if method == "bitsandbytes":
        return Scheme("bitsandbytes", 4, group=64, scale_bytes=4, weight_only=True, online=True)
    return None


def _budget(
    facts: ModelFacts,
    gpu: GPU,
    engine: EngineFacts,
    settings: MemorySettings,
    shape: Shape,
    stage: Stage,
    requested: int,
    second: bool,
) -> Budget:
    tensors = list(stage_tensors(facts, stage, shape))
    parameters = sum(tensors)
    tables = [
        table.positions * table.width * (4 if table.float32 else shape.dtype_bytes)
        for table in facts.rotary
        for _ in range(table.count)
    ]
    weights = allocated([*tensors, *tables])
    tokens = settings.max_num_batched_tokens
    layer = activations.layer_bytes(facts, tokens=tokens, tensor=settings.tensor, dtype_bytes=shape.dtype_bytes)
    workspace = activations.workspace_bytes(
        facts, engine.release, tokens=tokens, tensor=settings.tensor, dtype_bytes=shape.dtype_bytes
    )
    sampler = 0
    if stage.last:
        sampler = activations.sampler_bytes(
            facts,
            activations.sampler_of(engine.release, second_runner=second),
            seqs=settings.max_num_seqs,
            tokens=tokens,
            dtype_bytes=shape.dtype_bytes,
        )
    peak = activations.Peak(sampler, layer, workspace, 0).total
    activation = Band(0.985 * peak - 0.02 * GIB, peak, 1.02 * peak + 0.06 * GIB)
    outside = rules.non_torch(engine.release, gpu, settings.tensor, settings.pipeline)
    graphs = Band(0.0, 0.0, 0.0)
    if not settings.enforce_eager:
        graphs = graph_memory(facts, seqs=settings.max_num_seqs, tensor=settings.tensor, pipeline=settings.pipeline)
    counted = graphs if engine.cuda_graphs_in_budget else Band(0.0, 0.0, 0.0)
    left = requested - weights
    cache = Band(
        left - activation.high - outside.high - counted.high,
        left - activation.typical - outside.typical - counted.typical,
        left - activation.low - outside.low - counted.low,
    )
    return Budget(parameters, weights, activation, outside, graphs, cache)


def _layout(
    facts: ModelFacts,
    gpu: GPU,
    engine: EngineFacts,
    settings: MemorySettings,
    shape: Shape,
    cut: tuple[Stage, ...],
    second: bool,
) -> Layout:
    release = engine.release
    kinds = {type(cache).__name__ + getattr(cache, "kind", "") for layer in facts.layers for cache in layer.caches}
    block = settings.block_size or rules.block_size(
        release,
        gpu,
        latent=bool(kinds & {"LatentCachemla"}),
        sparse="LatentCacheindexer" in kinds,
        compressed="LatentCachecompressed" in kinds,
    )
    element, fp8 = cache_element(settings.kv_cache_dtype, facts, engine, shape.dtype_bytes)
    cache_shape = CacheShape(
        settings.tensor, element, shape.dtype_bytes, block, fp8, packed_latent="dsa" in facts.traits
    )
    layers: tuple[Layer, ...] = facts.layers
    aligned, _ = align_hybrid(layers, cache_shape)
    if aligned > block:
        cache_shape = replace(cache_shape, block=aligned)
        block = aligned
    scans = any(isinstance(c, StateCache) and c.kind in ("mamba1", "mamba2") for layer in layers for c in layer.caches)
    prefix = settings.args.get("enable_prefix_caching")
    held = rules.state_blocks(
        release,
        prefix_caching=prefix if isinstance(prefix, bool) else None,
        scans=scans,
        length=settings.max_model_len,
        block=block,
    )
    cache_shape = replace(cache_shape, state_blocks=held)
    in_flight = rules.in_flight_tokens(
        release, tokens=settings.max_num_batched_tokens, pipeline=settings.pipeline, second_runner=second
    )
    return group_layers([stage.layers for stage in cut], cache_shape, rules.cache_rules(release), in_flight)


def cache_element(asked: str, facts: ModelFacts, engine: EngineFacts, dtype_bytes: int) -> tuple[float, bool]:
    """(bytes per cached element, whether it is fp8). "auto" follows what the checkpoint says of its cache: always for
    compressed-tensors, for modelopt since 0.14 (utils/torch_utils.py)."""
    name = asked
    if name == "auto" and facts.quantization is not None and facts.quantization.kv_cache_dtype:
        follows = facts.quantization.method == "compressed-tensors" or engine.release >= (0, 14, 0)
        name = facts.quantization.kv_cache_dtype if follows else "auto"
    if name.startswith(("fp8", "int8")):
        return 1.0, name.startswith("fp8")
    if name.startswith("nvfp4"):
        return 0.5625, False
    if name in ("bfloat16", "float16"):
        return 2.0, False
    return float(dtype_bytes), False


def _answer(
    facts: ModelFacts,
    gpu: GPU,
    settings: MemorySettings,
    requested: int,
    tightest: Budget,
    fullest: Budget,
    layout: Layout,
) -> MemoryEstimate:
    length = settings.max_model_len
    per_block = layout.bytes_per_block
    cache = Band(max(0.0, tightest.cache.low), max(0.0, tightest.cache.typical), max(0.0, tightest.cache.high))
    fixed = settings.args.get("kv_cache_memory_bytes")
    if isinstance(fixed, int) and not isinstance(fixed, bool) and fixed > 0:
        cache = Band(fixed, fixed, fixed)

    def blocks(amount: float) -> int:
        return int(amount // per_block) if per_block else 1

    counts = [blocks(cache.low), blocks(cache.typical), blocks(cache.high)]
    request = layout.blocks_per_request(length) if per_block else 0
    if request:
        concurrency = Band(*(count / request for count in counts))
        tokens = Band(*(float(layout.tokens(count, length)) for count in counts))
        longest = Band(*(float(layout.longest(count, facts.max_model_len)) for count in counts))
    else:
        most = float(settings.max_num_seqs)
        concurrency, tokens = Band(most, most, most), Band(most * length, most * length, most * length)
        longest = Band(float(facts.max_model_len), float(facts.max_model_len), float(facts.max_model_len))
    plan = MemoryPlan(
        total_bytes=gpu.memory_bytes,
        requested_bytes=requested,
        parameter_bytes=fullest.parameters,
        weights_bytes=fullest.weights,
        activation_bytes=int(tightest.activation.typical),
        non_torch_bytes=int(tightest.non_torch.typical),
        cuda_graph_bytes=int(tightest.graphs.typical),
        kv_cache_bytes=cache,
        kv_cache_tokens=tokens,
        max_concurrency=concurrency,
    )
    formulas = (
        Formula("requested", f"{gpu.memory_bytes} B x {settings.gpu_memory_utilization}", requested),
        Formula("weights", "parameters and rotary tables, in blocks of the allocator", fullest.weights),
    )
    return MemoryEstimate(
        plan=plan,
        activation=tightest.activation,
        non_torch=tightest.non_torch,
        cuda_graphs=tightest.graphs,
        block_size=min((pages.block for pages, _ in layout.groups if pages.kind != "state"), default=0),
        bytes_per_block=per_block,
        blocks=Band(*(float(count) for count in counts)),
        groups=layout.table(length),
        kv_bytes_per_request=request * per_block,
        longest_context=longest,
        formulas=formulas,
    )
