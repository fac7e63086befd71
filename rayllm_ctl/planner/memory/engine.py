"""vLLM's own rules, by version and GPU, for how the KV cache and padded weights are laid out."""

from __future__ import annotations

from rayllm_ctl.model.hardware import GPU
from rayllm_ctl.planner.memory.kvcache import KVCachePolicy, Packing
from rayllm_ctl.planner.memory.shards import Padding

Release = tuple[int, int, int]


def cache_rules(release: Release) -> KVCachePolicy:
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
    default since 0.26 (config/model.py is_prefix_caching_supported); "all" was the default for Mamba mixers (scans)
    until 0.28. Since 0.30 a Mamba mixer keeps one more block for a checkpoint (mamba_mixer2.py).
    """
    cached = release >= (0, 26, 0) if prefix_caching is None else prefix_caching
    if not cached or release < (0, 11, 0):
        return 1
    if scans and release < (0, 29, 0):
        return max(1, -(-length // max(1, block)))
    if release < (0, 14, 0):
        return 1
    return 3 if scans and release >= (0, 30, 0) else 2


def block_size(release: Release, gpu: GPU, *, latent: bool, sparse: bool, compressed: bool) -> int:
    """Tokens per block where the user does not say: 16, or what the attention kernel for MLA wants."""
    major = gpu.compute_capability[0] if gpu.compute_capability else 0
    if compressed:
        return 256
    if sparse:
        return 64
    if latent and major == 10:
        return 128 if release < (0, 12, 0) else 64
    if latent and major == 9 and release < (0, 17, 0):
        return 64
    return 16


def mxfp4_padding(release: Release, gpu: GPU) -> Padding:
    """Sizes that the kernels for mxfp4 experts round up to (quantization/mxfp4.py, fused_moe/oracle/mxfp4.py).

    Marlin before Hopper and on consumer Blackwell: 128 and 256 (gpt-oss-20b on A100, 0.19: 13.72 GiB; 120b at TP 4:
    17.22). FlashInfer on B200: 128 (256 before 0.19) and 256. Triton on Hopper pads while it swizzles: packed values to
    256 inputs (gpt-oss-120b, 0.11: 64.38 GiB), later only the scales (0.25: 61.29). ROCm: 256.
    """
    if gpu.vendor == "amd":
        return Padding(256, 256)
    major = gpu.compute_capability[0] if gpu.compute_capability else 0
    if major == 10:
        return Padding(128 if release >= (0, 19, 0) else 256, 256)
    if major == 9:
        return Padding(64, 1, inputs=256) if release < (0, 19, 0) else Padding(64, 1, scales=256)
    return Padding(128, 256)
