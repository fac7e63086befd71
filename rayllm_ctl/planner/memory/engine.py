"""What differs between vLLM versions and GPUs in how memory is spent, with the evidence for each figure.

Rules are vLLM's own code at the version named; fitted figures come from public start-up logs. A kind of GPU without a
log of its own gets the nearest kind's figure and a wider band.
"""

from __future__ import annotations

from dataclasses import dataclass

from rayllm_ctl.model.hardware import GPU
from rayllm_ctl.model.plan import Band
from rayllm_ctl.planner.memory.kvcache import Rules
from rayllm_ctl.planner.memory.shards import Padding

GIB = 2**30
Release = tuple[int, int, int]


def cache_rules(release: Release) -> Rules:
    """How a version lays out the KV cache (v1/core/kv_cache_utils.py and envs.py of each version)."""
    return Rules(
        widen=1.5 if release >= (0, 18, 0) else 1.25 if release >= (0, 12, 0) else 0.0,
        whole_chunks=release < (0, 14, 0),
        packed=release >= (0, 21, 0),
        tokens_from_concurrency=release >= (0, 21, 0),
        null_block=release >= (0, 29, 0),
    )


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


@dataclass(frozen=True)
class Overheads:
    """Bands of what is outside the formulas, in bytes per GPU: non-torch memory, CUDA graphs, and the rest."""

    non_torch: Band
    graphs: Band
    slack: Band


def linked(gpu: GPU) -> bool:
    """Whether GPUs of this kind talk over NVLink (or xGMI) in a node."""
    return gpu.interconnect in ("nvlink", "xgmi")


def non_torch(release: Release, gpu: GPU, tensor: int, pipeline: int) -> Band:
    """Memory outside torch per GPU in bytes: CUDA context growth, NCCL, all-reduce buffers.

    H100, one GPU: 0.13 GiB before 0.18, 0.25 from there (0.24 to 0.27 over 30 models, 0.46 for Granite 3). Two or
    four over NVLink: 2.06 to 2.21 from 0.18. PCIe cards have no custom all-reduce buffers: 0.2 to 0.5.
    """
    single = 0.25 if release >= (0, 18, 0) else 0.13
    if tensor == 1:
        return _gib(single - 0.06 - (0.12 if pipeline > 1 else 0.0), single, single + 0.25)
    if not linked(gpu):
        return _gib(0.2, 0.4, 1.0)
    if release >= (0, 18, 0):
        typical = 2.07 if tensor == 2 else 2.15
        return _gib(typical - 0.15, typical, typical + 0.35)
    return _gib(0.5, 0.9, 2.1)


def _gib(low: float, typical: float, high: float) -> Band:
    return Band(low * GIB, typical * GIB, high * GIB)
