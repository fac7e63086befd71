"""From a model, a GPU and settings to where its memory goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rayllm_ctl.model.plan.engine_facts import EngineFacts
from rayllm_ctl.model.plan.facts import ModelFacts, Scheme
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.planner.engine.encoders import spreads_items
from rayllm_ctl.planner.engine.resolved import ResolvedSettings
from rayllm_ctl.planner.memory import engine as rules
from rayllm_ctl.planner.memory.budget import EstimateCache, EstimateContext, stage_budget
from rayllm_ctl.planner.memory.drafts import Draft
from rayllm_ctl.planner.memory.kvcache import Layout, group_layers
from rayllm_ctl.planner.memory.layout import aligned, cache_shape, default_block
from rayllm_ctl.planner.memory.moekernels import expert_kernel
from rayllm_ctl.planner.memory.options import read_options
from rayllm_ctl.planner.memory.report import answer
from rayllm_ctl.planner.memory.runner import uses_second_runner
from rayllm_ctl.planner.memory.shards import DTYPE_BYTES, ShardSettings, Stage, stages
from rayllm_ctl.planner.memory.types import MemoryEstimate

_FP8 = Scheme("fp8", 8, floating=True, group=-1, online=True)
_FP8_CHANNEL = replace(_FP8, group=0)
_INT8_EXPERTS = Scheme("experts_int8", 8, weight_only=True, online=True, experts_only=True)
_ONLINE = {
    "fp8": _FP8, "fp8_per_tensor": _FP8, "ptpc_fp8": _FP8_CHANNEL, "fp8_per_channel": _FP8_CHANNEL,
    "fp8_per_block": replace(_FP8, group=0, block=(128, 128)),
    "mxfp8": replace(_FP8, method="mxfp8", group=32, scale_bytes=1),
    "mxfp4": Scheme("mxfp4", 4, floating=True, group=32, scale_bytes=1, online=True),
    "experts_int8": _INT8_EXPERTS, "int8_per_channel_weight_only": _INT8_EXPERTS,
    "nvfp4_per_token": Scheme("modelopt_fp4", 4, floating=True, group=16, scale_bytes=1, global_scale=True,
                              input_scale=True, online=True, experts_only=True),
    "bitsandbytes": Scheme("bitsandbytes", 4, group=64, scale_bytes=4, weight_only=True, online=True),
}  # fmt: skip
"""What --quantization lays over 16-bit weights (config/quantization.py _ONLINE_SHORTHANDS and quantization/online of
0.22 to 0.33; experts_int8.py; ptpc_fp8.py to 0.18). Methods for experts alone leave the other layers as they are."""


def estimate(
    facts: ModelFacts,
    gpu: GPU,
    engine: EngineFacts,
    settings: ResolvedSettings,
    cache: EstimateCache | None = None,
    draft: Draft | None = None,
    unexplained: int = 0,
) -> MemoryEstimate:
    """Memory of the fullest GPU of one replica.

    Bands hold in about nine of ten cases. Nothing is rejected here: a cache that holds less than one request has a
    max_concurrency below 1, and what lies outside the budget is in `problems`. cache: kept by a caller that asks about
    the same facts repeatedly; what does not depend on the GPU is then computed once. draft: the draft model that
    the settings' speculative_config names. unexplained: bytes that the checkpoint holds beyond what `facts` describe.
    """
    options = read_options(settings.args)
    if options.draft and facts.draft_layers:
        facts = replace(facts, layers=facts.layers + facts.draft_layers)
    second = uses_second_runner(facts, gpu, engine, settings)
    online = None if facts.quantization or not settings.quantization else online_scheme(settings.quantization)
    kernel = expert_kernel(engine.release, gpu, facts, online, adapters=options.lora_slots > 0)
    data = settings.data if facts.moe else 1
    shape = ShardSettings(
        settings.tensor,
        DTYPE_BYTES.get(settings.dtype or "", 2),
        online,
        expert_parallel=options.expert_parallel,
        mxfp4=kernel.padding,
        whole_encoders=options.whole_encoders and spreads_items(facts, engine.release),
        data=data,
        redundant=options.redundant if options.expert_parallel else 0,
    )
    context = EstimateContext(
        facts,
        gpu,
        engine.release,
        settings,
        options,
        shape,
        second,
        kernel,
        {} if cache is None else cache,
        draft,
        unexplained // (data * settings.tensor * settings.pipeline),
    )
    cut = stages(facts, settings.pipeline)
    budgets = [stage_budget(context, stage) for stage in cut]
    tightest = min(budgets, key=lambda budget: budget.cache.typical)
    fullest = max(budgets, key=lambda budget: budget.weights)
    return answer(context, tightest, fullest, _layout(context, cut))


def online_scheme(method: str) -> Scheme | None:
    """The scheme that vLLM lays over a plain checkpoint for --quantization; None if it needs a quantized one."""
    return _ONLINE.get(method)


def _layout(context: EstimateContext, cut: Sequence[Stage]) -> Layout:
    """The KV cache's blocks under the version's rules."""
    facts, settings, release = context.facts, context.settings, context.release
    shape = cache_shape(
        facts,
        release,
        settings.kv_cache_dtype,
        context.shape.dtype_bytes,
        settings.block_size or default_block(facts, release, context.gpu),
        tensor=settings.tensor,
        options=context.options,
        gpu=context.gpu,
    )
    shape = aligned(facts, release, settings, shape, context.options)
    in_flight = rules.in_flight_tokens(
        release, tokens=settings.max_num_batched_tokens, pipeline=settings.pipeline, second_runner=context.second_runner
    )
    key = ("layout", shape, rules.cache_policy(release), in_flight, tuple(stage.key for stage in cut))
    layout = context.cache.get(key)
    if not isinstance(layout, Layout):
        guessing = context.draft.facts.layers if context.draft else ()
        layers = [(*stage.layers, *guessing) if stage.last else stage.layers for stage in cut]
        layout = group_layers(layers, shape, rules.cache_policy(release), in_flight)
        context.cache[key] = layout
    return layout
