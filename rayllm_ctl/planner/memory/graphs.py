"""CUDA graphs: what vLLM estimates before it makes the KV cache, which it takes off the budget since 0.21."""

from __future__ import annotations

from rayllm_ctl.model.facts import ModelFacts
from rayllm_ctl.model.plan import Band

MIB = 2**20
GIB = 2**30


def capture_sizes(seqs: int) -> tuple[int, ...]:
    """Batch sizes that vLLM captures: 1, 2, 4, then steps of 8 to 256 and of 16 to 512, at most twice max_num_seqs
    (config/vllm.py)."""
    most = min(512, 2 * seqs)
    sizes = [size for size in (1, 2, 4) if size <= most]
    sizes += [size for size in range(8, 256, 8) if size <= most] + [
        size for size in range(256, 513, 16) if size <= most
    ]
    return tuple(sizes)


def graph_memory(facts: ModelFacts, *, seqs: int, tensor: int, pipeline: int) -> Band:
    """Bytes per GPU that graphs take: a fixed part and a part per layer and captured size.

    0.19 on H100 (51 and 35 sizes) measured 0.65 GiB at 16 layers of a stage to 1.85 GiB at 80 layers.
    """
    layers = max(1, facts.layer_count // pipeline)
    share = len(capture_sizes(seqs)) / 51
    typical = (0.45 + 0.0145 * layers * share) * GIB
    return Band(0.5 * typical, typical, 2.0 * typical)
