"""How the KV cache of a model is laid out under a version's rules, with or without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rayllm_ctl.model.plan.facts import LatentCache, Layer, ModelFacts, StateCache
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.planner import vllm_rules
from rayllm_ctl.planner.engine.resolved import ResolvedSettings
from rayllm_ctl.planner.memory import engine as rules
from rayllm_ctl.planner.memory.engine import Release
from rayllm_ctl.planner.memory.kvcache import align_hybrid, group_layers
from rayllm_ctl.planner.memory.options import Options, read_options
from rayllm_ctl.planner.memory.pages import CacheShape
from rayllm_ctl.planner.memory.shards import DTYPE_BYTES, stages

CPU_BLOCK = 128
"""Tokens of a block on CPUs (platforms/cpu.py)."""


def cache_element(asked: str, facts: ModelFacts, release: Release, dtype_bytes: int) -> tuple[float, bool]:
    """(bytes per cached element, whether it is fp8). "auto" follows what the checkpoint says of its cache: always for
    compressed-tensors, for modelopt by release."""
    name = asked
    if name == "auto" and facts.quantization is not None and facts.quantization.kv_cache_dtype:
        follows = facts.quantization.method == "compressed-tensors"
        follows = follows or vllm_rules.MODELOPT_SETS_THE_CACHE_DTYPE.holds(release)
        name = facts.quantization.kv_cache_dtype if follows else "auto"
    if name.startswith(("fp8", "int8")):
        return 1.0, name.startswith("fp8")
    if name.startswith("nvfp4"):
        return 0.5625, False
    if name in ("bfloat16", "float16"):
        return 2.0, False
    return float(dtype_bytes), False


def cache_shape(
    facts: ModelFacts,
    release: Release,
    kv_cache_dtype: str,
    dtype_bytes: int,
    block: int,
    *,
    tensor: int = 1,
    options: Options | None = None,
    gpu: GPU | None = None,
) -> CacheShape:
    """What decides the sizes of a model's pages, before a hybrid's are aligned."""
    options = options or Options()
    element, fp8 = cache_element(kv_cache_dtype, facts, release, dtype_bytes)
    return CacheShape(
        tensor,
        element,
        dtype_bytes,
        block,
        fp8,
        packed_latent="dsa" in facts.traits and rules.packs_sparse_latent(release, gpu),
        ssm_bytes=options.ssm_bytes,
        speculative=options.drafted,
    )


def aligned(
    facts: ModelFacts, release: Release, settings: ResolvedSettings, shape: CacheShape, options: Options
) -> CacheShape:
    """The shape with a hybrid's block size and the recurrent states that a request holds."""
    block = max(shape.block, align_hybrid(facts.layers, shape)[0])
    held = rules.state_blocks(
        release,
        prefix_caching=options.prefix_caching,
        scans=_scans(facts.layers),
        length=settings.max_model_len,
        block=block,
    )
    return replace(shape, block=block, state_blocks=held + options.drafted)


def default_block(facts: ModelFacts, release: Release, gpu: GPU) -> int:
    """Tokens of a block where the user states none."""
    latents = {c.kind for layer in facts.layers for c in layer.caches if isinstance(c, LatentCache)}
    return rules.block_size(
        release, gpu, latent="mla" in latents, sparse="indexer" in latents, compressed="compressed" in latents
    )


def cpu_request_bytes(facts: ModelFacts, release: Release, settings: ResolvedSettings) -> int:
    """Bytes of KV cache that one request of max_model_len takes on each rank of an engine on CPUs."""
    options = read_options(settings.args)
    shape = cache_shape(
        facts,
        release,
        settings.kv_cache_dtype,
        DTYPE_BYTES.get(settings.dtype or "", 2),
        settings.block_size or CPU_BLOCK,
        tensor=settings.tensor,
        options=options,
    )
    shape = aligned(facts, release, settings, shape, options)
    in_flight = rules.in_flight_tokens(
        release, tokens=settings.max_num_batched_tokens, pipeline=settings.pipeline, second_runner=False
    )
    layers = [stage.layers for stage in stages(facts, settings.pipeline)]
    layout = group_layers(layers, shape, rules.cache_policy(release), in_flight)
    return layout.blocks_per_request(settings.max_model_len) * layout.bytes_per_block


def _scans(layers: Sequence[Layer]) -> bool:
    """Whether there are Mamba mixers."""
    states = (cache for layer in layers for cache in layer.caches if isinstance(cache, StateCache))
    return any(state.kind in ("mamba1", "mamba2") for state in states)
