"""Activations: what one layer has in memory while it computes prompts, which take more than a step of a batch.

Held against the tensors that live at the peak of transformers 5.23's own code (meta device, 8,192 tokens), within 3 %:
layers of Llama-3.1-70B, Qwen3-8B, Qwen3-30B-A3B and a GPT-NeoX. What kernels set aside is not in that.
"""

from __future__ import annotations

from rayllm_ctl.model.plan.facts import Layer, ModelFacts
from rayllm_ctl.planner.transformers.parts import Loading

UNKNOWN = "generic"
"""The trait of an architecture that is not known here."""

_STREAMS = 4
"""Copies of the hidden states beside the widest block: the residual stream, its norm, and a sum of both."""

_EAGER = frozenset(
    {
        "BloomForCausalLM", "CodeGenForCausalLM", "DeepseekV4ForCausalLM", "Gemma2ForCausalLM", "GptOssForCausalLM",
        "GPTJForCausalLM", "GraniteMoeSWAForCausalLM", "MiMoV2FlashForCausalLM", "MPTForCausalLM", "MptForCausalLM",
    }
)  # fmt: skip
"""Architectures without `_supports_sdpa` in transformers 5.23: attention writes out its scores."""


def transformers_layer_bytes(facts: ModelFacts, loading: Loading) -> int:
    """Bytes at the peak of one layer with a prompt at full length: the server computes no more tokens of prompts than
    these at once (rayllm_ctl/serving/transformers_engine.py).

    Several prompts are padded to the longest and need a mask, which attention reads in the data type; it is largest for
    two of them. Keys and values are repeated for every query head (integrations/sdpa_attention.py; not so for single
    tokens).
    """
    tokens, element = loading.context, loading.element
    square = tokens * tokens
    mask = square // 2
    queries, keys = facts.heads * facts.head_dim, facts.kv_heads * facts.head_dim
    # Queries before and after rotation, the output, and keys and values for every head.
    attention = tokens * (3 * queries + 2 * keys + (2 * queries if keys < queries else 0)) * element + mask * element
    if facts.architecture in _EAGER:
        # Scores, and their softmax in float32.
        attention += facts.heads * square * (element + 4)
    norm = 3 * tokens * facts.hidden_size * 4
    widest = max(attention, norm, tokens * _block_width(facts) * element)
    streams = _STREAMS * tokens * facts.hidden_size * element
    return streams + mask + widest + _quantized_bytes(facts, loading, tokens)


def _block_width(facts: ModelFacts) -> int:
    """Values per token of the widest MLP or projection, over all layers."""
    if UNKNOWN in facts.traits:
        return 3 * facts.intermediate_size
    return max((_width(layer) for layer in {id(one): one for one in facts.layers}.values()), default=0)


def _width(layer: Layer) -> int:
    """Of one layer: gate, up and their product, or what goes into an activation and out of it. Routed experts have
    their inputs, their blocks and their outputs for each of the chosen ones."""
    # The catalog has gate and up as the two parts of one projection.
    dense = [one.outputs * 3 // 2 if len(one.parts) == 2 else 2 * one.outputs for one in layer.linears]
    routed = [one.top_k * 3 * (one.hidden + one.intermediate) for one in layer.experts]
    return max((*dense, *routed), default=0)


def _quantized_bytes(facts: ModelFacts, loading: Loading, tokens: int) -> int:
    """What bitsandbytes needs beside its result: int32 products of 8 bits, or one matrix of 4 bits in the data type, to
    which it is unpacked for more than one token."""
    widest = max(facts.intermediate_size, facts.hidden_size)
    if loading.quantization == "bitsandbytes-8bit":
        return tokens * widest * 4
    if loading.quantization == "bitsandbytes-4bit":
        return facts.hidden_size * widest * loading.element
    return 0
