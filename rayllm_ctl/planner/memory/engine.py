"""vLLM's own rules, by version and GPU, for how the KV cache is laid out."""

from __future__ import annotations

from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.planner.memory.kvcache import KVCachePolicy, Packing

Release = tuple[int, int, int]


def cache_policy(release: Release) -> KVCachePolicy:
    """How a version lays out the KV cache (v1/core/kv_cache_utils.py and envs.py of each version)."""
    return KVCachePolicy(
        widen=1.5 if release >= (0, 18, 0) else 1.25 if release >= (0, 12, 0) else 0.0,
        whole_chunks=release < (0, 14, 0),
        packed=_packing(release),
        tokens_from_concurrency=release >= (0, 21, 0),
        null_block=release >= (0, 29, 0),
    )


def _packing(release: Release) -> Packing:
    """How DeepSeek V4's pages of several sizes share a block; other models pad them to one size."""
    steps: tuple[tuple[Release, Packing], ...] = (
        ((0, 29, 0), "whole"),
        ((0, 27, 0), "tuples"),
        ((0, 23, 0), "slots-by-size"),
        ((0, 20, 0), "slots"),
    )
    return next((packing for since, packing in steps if release >= since), "")


def in_flight_tokens(release: Release, *, tokens: int, pipeline: int, second_runner: bool) -> int:
    """Tokens scheduled but not settled: sliding windows keep blocks for them. One batch before 0.26; then one per
    concurrent batch (async scheduling overlaps two)."""
    if release < (0, 26, 0):
        return tokens
    if second_runner:
        return (pipeline + 1) * tokens
    return (2 if pipeline == 1 else pipeline) * tokens


def state_blocks(release: Release, *, prefix_caching: bool | None, scans: bool, length: int, block: int) -> int:
    """Blocks of recurrent state that a request holds.

    Without prefix caching one; in mode "align" two; in mode "all" one per block of tokens. Hybrids cache prefixes by
    default since 0.28: before 0.26 vLLM does not support it for them (config/model.py is_prefix_caching_supported), in
    0.26 and 0.27 it is opt-in (engine/arg_utils.py, "and not model_config.is_hybrid"; read in 0.17, 0.25 to 0.29 and
    0.32). "all" is the default for Mamba mixers (scans) that opt in before 0.28 (models/config.py MambaModelConfig).
    Since 0.30 a Mamba mixer keeps one more block for a checkpoint (mamba_mixer2.py).
    """
    cached = release >= (0, 28, 0) if prefix_caching is None else prefix_caching
    if not cached or release < (0, 11, 0):
        return 1
    if scans and release < (0, 28, 0):
        return max(1, -(-length // max(1, block)))
    if release < (0, 14, 0):
        return 1
    return 3 if scans and release >= (0, 30, 0) else 2


def requires_state_blocks(release: Release) -> bool:
    """Whether a start with full CUDA graphs fails unless there is a block of recurrent state for each of max_num_seqs.

    Since 0.20, for every kind of state (config/compilation.py resolve_cudagraph_mode_and_sizes, kv_cache_interface.py
    has_mamba_layers; read in 0.20, 0.26 and 0.33). 0.18 and 0.19 capture smaller batches instead.
    """
    return release >= (0, 20, 0)


def packs_sparse_latent(release: Release, gpu: GPU | None) -> bool:
    """Whether an fp8 cache of sparse MLA takes DeepSeek's packed layout.

    FlashMLA's sparse kernel and those for consumer Blackwell need it. On Blackwell servers FlashInfer's is preferred
    for fp8 caches since 0.17, which keeps plain fp8 (platforms/cuda.py _get_backend_priorities, mla_attention.py; read
    in 0.17, 0.19, 0.21, 0.26 and 0.29).
    """
    return gpu is None or not (major(gpu) == 10 and release >= (0, 17, 0))


def block_size(release: Release, gpu: GPU, *, latent: bool, sparse: bool, compressed: bool) -> int:
    """Tokens per block where the user does not say: 16, or what the attention kernel for MLA wants."""
    if compressed:
        return 256
    if sparse:
        return 64
    if latent and major(gpu) == 10:
        return 128 if release < (0, 12, 0) else 64
    if latent and major(gpu) == 9 and release < (0, 17, 0):
        return 64
    return 16


def major(gpu: GPU) -> int:
    """The first number of the compute capability; 0 where there is none (AMD)."""
    return gpu.compute_capability[0] if gpu.compute_capability else 0
