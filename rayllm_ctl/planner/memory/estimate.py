"""From a model, a GPU and settings to where its memory goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rayllm_ctl.model.enginefacts import EngineFacts
from rayllm_ctl.model.facts import LatentCache, Layer, ModelFacts, Scheme, StateCache
from rayllm_ctl.model.hardware import GPU
from rayllm_ctl.planner.memory import engine as rules
from rayllm_ctl.planner.memory.budget import EstimateCache, EstimateContext, stage_budget
from rayllm_ctl.planner.memory.drafts import Draft
from rayllm_ctl.planner.memory.kvcache import Layout, align_hybrid, group_layers
from rayllm_ctl.planner.memory.options import read_options
from rayllm_ctl.planner.memory.pages import CacheShape
from rayllm_ctl.planner.memory.report import answer
from rayllm_ctl.planner.memory.shards import DTYPE_BYTES, ShardSettings, Stage, stages
from rayllm_ctl.planner.memory.types import MemoryEstimate, MemorySettings

ONLINE_FP8 = Scheme("fp8", 8, floating=True, group=-1, online=True)


def estimate(
    facts: ModelFacts,
    gpu: GPU,
    engine: EngineFacts,
    settings: MemorySettings,
    memo: EstimateCache | None = None,
    draft: Draft | None = None,
) -> MemoryEstimate:
    """Memory of the fullest GPU of one replica.

    Bands hold in about nine of ten cases. Nothing is refused here: a cache that holds less than one request has a
    max_concurrency below 1, and what lies outside the budget is in `problems`. memo: kept by a caller that asks about
    the same facts again and again; what does not depend on the GPU is then computed once. draft: the draft model that
    the settings' speculative_config names.
    """
    options = read_options(settings.args)
    if options.draft and facts.draft_layers:
        facts = replace(facts, layers=facts.layers + facts.draft_layers)
    second = engine.uses_second_runner(
        facts.architecture,
        moe=facts.moe,
        hybrid="hybrid" in facts.traits,
        quantized=facts.quantization is not None or settings.quantization is not None,
    )
    online = None if facts.quantization or not settings.quantization else online_scheme(settings.quantization)
    shape = ShardSettings(
        settings.tensor,
        DTYPE_BYTES.get(settings.dtype or "", 2),
        online,
        expert_parallel=options.expert_parallel,
        mxfp4=rules.mxfp4_padding(engine.release, gpu),
    )
    case = EstimateContext(
        facts, gpu, engine.release, settings, options, shape, second, {} if memo is None else memo, draft
    )
    cut = stages(facts, settings.pipeline)
    budgets = [stage_budget(case, stage) for stage in cut]
    tightest = min(budgets, key=lambda budget: budget.cache.typical)
    fullest = max(budgets, key=lambda budget: budget.weights)
    return answer(case, tightest, fullest, _layout(case, cut))


def online_scheme(method: str) -> Scheme | None:
    """The scheme that vLLM lays over a plain checkpoint for --quantization; None where it needs a quantized one."""
    if method in ("fp8", "fp8_per_tensor", "ptpc_fp8"):
        return ONLINE_FP8
    if method == "bitsandbytes":
        return Scheme("bitsandbytes", 4, group=64, scale_bytes=4, weight_only=True, online=True)
    return None


def _layout(case: EstimateContext, cut: Sequence[Stage]) -> Layout:
    """The KV cache's blocks under the version's rules."""
    facts, settings, release = case.facts, case.settings, case.release
    latents = {c.kind for layer in facts.layers for c in layer.caches if isinstance(c, LatentCache)}
    block = settings.block_size or rules.block_size(
        release, case.gpu, latent="mla" in latents, sparse="indexer" in latents, compressed="compressed" in latents
    )
    element, fp8 = cache_element(settings.kv_cache_dtype, facts, release, case.shape.dtype_bytes)
    shape = CacheShape(
        settings.tensor,
        element,
        case.shape.dtype_bytes,
        block,
        fp8,
        packed_latent="dsa" in facts.traits,
        ssm_bytes=case.options.ssm_bytes,
        speculative=case.options.drafted,
    )
    block = max(block, align_hybrid(facts.layers, shape)[0])
    held = rules.state_blocks(
        release,
        prefix_caching=case.options.prefix_caching,
        scans=_scans(facts.layers),
        length=settings.max_model_len,
        block=block,
    )
    shape = replace(shape, block=block, state_blocks=held + case.options.drafted)
    in_flight = rules.in_flight_tokens(
        release, tokens=settings.max_num_batched_tokens, pipeline=settings.pipeline, second_runner=case.second_runner
    )
    key = ("layout", shape, rules.cache_rules(release), in_flight, tuple(stage.key for stage in cut))
    layout = case.memo.get(key)
    if not isinstance(layout, Layout):
        guessing = case.draft.facts.layers if case.draft else ()
        layers = [(*stage.layers, *guessing) if stage.last else stage.layers for stage in cut]
        layout = group_layers(layers, shape, rules.cache_rules(release), in_flight)
        case.memo[key] = layout
    return layout


def _scans(layers: Sequence[Layer]) -> bool:
    """Whether there are Mamba mixers."""
    states = (cache for layer in layers for cache in layer.caches if isinstance(cache, StateCache))
    return any(state.kind in ("mamba1", "mamba2") for state in states)


def cache_element(asked: str, facts: ModelFacts, release: tuple[int, int, int], dtype_bytes: int) -> tuple[float, bool]:
    """(bytes per cached element, whether it is fp8). "auto" follows what the checkpoint says of its cache: always for
    compressed-tensors, for modelopt since 0.14 (utils/torch_utils.py)."""
    name = asked
    if name == "auto" and facts.quantization is not None and facts.quantization.kv_cache_dtype:
        follows = facts.quantization.method == "compressed-tensors" or release >= (0, 14, 0)
        name = facts.quantization.kv_cache_dtype if follows else "auto"
    if name.startswith(("fp8", "int8")):
        return 1.0, name.startswith("fp8")
    if name.startswith("nvfp4"):
        return 0.5625, False
    if name in ("bfloat16", "float16"):
        return 2.0, False
    return float(dtype_bytes), False
