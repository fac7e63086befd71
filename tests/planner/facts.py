"""Facts of made-up models in the shapes that matter: dense, MoE, quantized in blocks."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.model.plan.facts import AttentionCache, Experts, Layer, Linear, ModelFacts, Part, RotaryCache, Scheme

FP8_BLOCK = Scheme("fp8", 8, floating=True, block=(128, 128))


def dense(
    *,
    layers: int = 32,
    hidden: int = 4096,
    heads: int = 32,
    kv_heads: int = 8,
    head_dim: int = 128,
    intermediate: int = 14336,
    vocab: int = 128256,
    scheme: Scheme | None = None,
    max_model_len: int = 131072,
) -> ModelFacts:
    """A decoder with grouped-query attention and a gated MLP; the defaults are the sizes of Llama-3.1-8B."""
    attention = (Part(heads, head_dim), Part(kv_heads, head_dim, True), Part(kv_heads, head_dim, True))
    layer = Layer(
        linears=(
            Linear("self_attn.qkv_proj", hidden, attention, scheme=scheme),
            Linear("self_attn.o_proj", heads * head_dim, (Part(hidden),), "row", scheme=scheme, input_units=heads),
            Linear("mlp.gate_up_proj", hidden, (Part(intermediate), Part(intermediate)), scheme=scheme),
            Linear("mlp.down_proj", intermediate, (Part(hidden),), "row", scheme=scheme),
        ),
        caches=(AttentionCache(kv_heads, head_dim, head_dim),),
    )
    return ModelFacts(
        architecture="LlamaForCausalLM",
        model_type="llama",
        dtype="bfloat16",
        hidden_size=hidden,
        intermediate_size=intermediate,
        vocab_size=vocab,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        max_model_len=max_model_len,
        layers=(layer,) * layers,
        rotary=(RotaryCache(max_model_len, head_dim),),
    )


def moe(*, count: int = 128, top_k: int = 8, intermediate: int = 768, scheme: Scheme | None = None) -> ModelFacts:
    """A decoder whose MLPs are experts; the defaults are the sizes of Qwen3-30B-A3B."""
    base = dense(layers=48, hidden=2048, heads=32, kv_heads=4, vocab=151936, max_model_len=40960)
    attention = tuple(linear for linear in base.layers[0].linears if linear.name.startswith("self_attn"))
    layer = replace(
        base.layers[0], linears=attention, experts=(Experts(count, top_k, 2048, intermediate, scheme=scheme),)
    )
    return replace(base, architecture="Qwen3MoeForCausalLM", layers=(layer,) * 48, traits=frozenset({"moe"}))
