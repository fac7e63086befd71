"""Facts of an architecture that is not known here: from the sizes that nearly every config states, and its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.catalog.modelconfig.body import INTERMEDIATE, read_sizes
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.read import checkpoint_dtype
from rayllm_ctl.catalog.modelconfig.rope import max_model_len
from rayllm_ctl.model.plan.facts import AttentionCache, Layer, Linear, ModelFacts, Part, Quantization

_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


def read_sized(config: Mapping[str, Any], tensor_bytes: int) -> ModelFacts:
    """Facts with the trait "unknown": equal layers that hold what the embedding and the head leave of `tensor_bytes`.

    UsageError names a size that the config does not state.
    """
    fields = Fields(config)
    text = next((fields.child(name) for name in ("text_config", "llm_config") if fields.has(name)), fields)
    sizes, dtype = read_sizes(text), checkpoint_dtype(fields, text)
    tied = text.flag("tie_word_embeddings", default=fields.flag("tie_word_embeddings"))
    element = _BYTES.get(dtype, 2)
    rest = tensor_bytes // element - sizes.vocab * sizes.hidden * (1 if tied else 2)
    width = max(1, rest // sizes.layers // sizes.hidden)
    layer = Layer(
        linears=(Linear("layer", sizes.hidden, (Part(width),)),),
        caches=(AttentionCache(sizes.kv_heads, sizes.head_dim, sizes.head_dim),),
    )
    names = fields.texts("architectures", longest=16)
    model_type = fields.text("model_type", default=text.text("model_type"))
    quantized = fields.child("quantization_config").text("quant_method") if fields.has("quantization_config") else ""
    return ModelFacts(
        architecture=names[0] if names else model_type,
        model_type=model_type,
        dtype=dtype,
        hidden_size=sizes.hidden,
        intermediate_size=text.integer(*INTERMEDIATE, default=4 * sizes.hidden),
        vocab_size=sizes.vocab,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        max_model_len=max_model_len(text, model_type),
        layers=(layer,) * sizes.layers,
        tied_embeddings=tied,
        quantization=Quantization(quantized, quantized, 8 * element) if quantized else None,
        traits=frozenset({"unknown"}),
    )
