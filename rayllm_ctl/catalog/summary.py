"""What a list shows of a model: figures that take long to compute for all of them, so the catalog keeps them."""

from __future__ import annotations

from typing import Any

from rayllm_ctl.model.plan.facts import AttentionCache, LatentCache, ModelFacts


def summarize(facts: ModelFacts) -> dict[str, Any]:
    """The summary of a model as data/models.jsonl has it. Parameters are counted, contextLength is in tokens."""
    return {
        "architecture": facts.architecture,
        "parameters": facts.parameters,
        "activeParameters": facts.active_parameters if facts.moe else facts.parameters,
        "contextLength": facts.max_model_len,
        "weights": facts.quantization.description if facts.quantization else facts.dtype or "not stated",
        "weightBits": _bits(facts),
        "kinds": _kinds(facts),
    }


def _bits(facts: ModelFacts) -> int:
    if facts.quantization is not None:
        return facts.quantization.weight_bits
    return 32 if facts.dtype == "float32" else 16


def _kinds(facts: ModelFacts) -> list[str]:
    caches = [cache for layer in facts.layers for cache in layer.caches]
    attention = [cache for cache in caches if isinstance(cache, AttentionCache)]
    kinds = {
        "MoE": facts.moe,
        "MLA": any(isinstance(cache, LatentCache) for cache in caches),
        "sliding window": any(cache.window for cache in attention),
        "chunked": any(cache.chunk for cache in attention),
        "recurrent": any(not isinstance(cache, (AttentionCache, LatentCache)) for cache in caches),
        "multimodal": facts.multimodal,
    }
    return [kind for kind, holds in kinds.items() if holds] or ["dense"]
