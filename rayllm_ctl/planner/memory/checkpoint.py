"""The size of a checkpoint against what its config describes."""

from __future__ import annotations

from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.planner.memory.shards import ShardSettings, layer_tensors, whole_weights

_SAME = 1.03
"""Files may hold so much more than the config describes: tables that vLLM computes, and the padding of formats."""


def unexplained_bytes(facts: ModelFacts, checkpoint_bytes: int | None) -> int:
    """Bytes of a quantized checkpoint beyond what its config describes; 0 where both agree, or the size is not known.

    Some tools leave layers in 16 bits and state it nowhere in the config; vLLM learns of it from the files. Layers for
    multi-token prediction, and an output head that repeats the embedding, are in the files and not loaded.
    """
    if checkpoint_bytes is None or facts.quantization is None or "unknown" in facts.traits:
        return 0
    described = whole_weights(facts, facts.dtype)
    described += sum(sum(layer_tensors(layer, ShardSettings())) for layer in facts.draft_layers)
    if facts.tied_embeddings:
        described += facts.vocab_size * facts.hidden_size * 2
    return checkpoint_bytes - described if checkpoint_bytes > _SAME * described else 0
