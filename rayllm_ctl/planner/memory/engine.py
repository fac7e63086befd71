"""vLLM's own rules, by version and GPU, for how the KV cache is laid out."""

from __future__ import annotations

from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.planner import vllm_rules
from rayllm_ctl.planner.memory.kvcache import KVCachePolicy, Packing

Release = tuple[int, int, int]


def cache_policy(release: Release) -> KVCachePolicy:
    """How a version lays out the KV cache."""
    return KVCachePolicy(
        widen=_widening(release),
        whole_chunks=vllm_rules.CHUNKS_ARE_KEPT_WHOLE.holds(release),
        packed=_packing(release),
        tokens_from_concurrency=vllm_rules.TOKENS_FOLLOW_CONCURRENCY.holds(release),
        null_block=vllm_rules.ONE_BLOCK_IS_NULL.holds(release),
    )


def _widening(release: Release) -> float:
    if vllm_rules.GROUPS_MAY_GROW_BY_HALF.holds(release):
        return 1.5
    return 1.25 if vllm_rules.GROUPS_MAY_GROW_BY_A_QUARTER.holds(release) else 0.0


def _packing(release: Release) -> Packing:
    """How DeepSeek V4's pages of several sizes share a block; other models pad them to one size."""
    steps: tuple[tuple[vllm_rules.VersionRule, Packing], ...] = (
        (vllm_rules.PAGES_IN_WHOLE_BLOCKS, "whole"),
        (vllm_rules.PAGES_IN_TUPLES, "tuples"),
        (vllm_rules.SLOTS_BY_SIZE, "slots-by-size"),
        (vllm_rules.SLOTS, "slots"),
    )
    return next((packing for rule, packing in steps if rule.holds(release)), "")


def in_flight_tokens(release: Release, *, tokens: int, pipeline: int, second_runner: bool) -> int:
    """Tokens scheduled but not settled: sliding windows keep blocks for them. Of one batch, or since batches overlap of
    each concurrent one (async scheduling overlaps two)."""
    if not vllm_rules.BATCHES_OVERLAP.holds(release):
        return tokens
    if second_runner:
        return (pipeline + 1) * tokens
    return (2 if pipeline == 1 else pipeline) * tokens


def state_blocks(release: Release, *, prefix_caching: bool | None, scans: bool, length: int, block: int) -> int:
    """Blocks of recurrent state that a request holds.

    Without prefix caching one; in mode "align" two; in mode "all", which Mamba mixers (scans) took, one per block of
    tokens.
    """
    cached = prefix_caching
    if cached is None:
        cached = vllm_rules.PREFIXES_OF_STATES_BY_DEFAULT.holds(release)
    if not cached or not vllm_rules.PREFIXES_OF_STATES.holds(release):
        return 1
    if scans and vllm_rules.STATE_OF_EVERY_BLOCK.holds(release):
        return max(1, -(-length // max(1, block)))
    if not vllm_rules.TWO_STATES.holds(release):
        return 1
    return 3 if scans and vllm_rules.STATE_OF_A_CHECKPOINT.holds(release) else 2


def requires_state_blocks(release: Release) -> bool:
    """Whether a start with full CUDA graphs fails unless there is a block of recurrent state for each of max_num_seqs,
    of whatever kind."""
    return vllm_rules.GRAPHS_REQUIRE_STATES.holds(release)


def packs_sparse_latent(release: Release, gpu: GPU | None) -> bool:
    """Whether an fp8 cache of sparse MLA takes DeepSeek's packed layout.

    FlashMLA's sparse kernel and those for consumer Blackwell need it, FlashInfer's does not.
    """
    return gpu is None or not (major(gpu) == 10 and vllm_rules.SPARSE_LATENT_STAYS_PLAIN_ON_BLACKWELL.holds(release))


def block_size(release: Release, gpu: GPU, *, latent: bool, sparse: bool, compressed: bool) -> int:
    """Tokens per block where the user does not say: 16, or what the attention kernel for MLA wants."""
    if compressed:
        return 256
    if sparse:
        return 64
    if latent and major(gpu) == 10:
        return 128 if vllm_rules.BLOCKS_OF_128_FOR_LATENT_ON_BLACKWELL.holds(release) else 64
    if latent and major(gpu) == 9 and vllm_rules.BLOCKS_OF_64_FOR_LATENT_ON_HOPPER.holds(release):
        return 64
    return 16


def major(gpu: GPU) -> int:
    """The first number of the compute capability; 0 where there is none (AMD)."""
    return gpu.compute_capability[0] if gpu.compute_capability else 0
