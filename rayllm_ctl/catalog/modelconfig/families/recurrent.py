"""Hybrids of attention and recurrent layers: Qwen3-Next and Qwen3.5, Nemotron-H.

Layouts from vLLM's layers/mamba (mixers, gated delta nets) and the model files named at each reader.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from rayllm_ctl.catalog.modelconfig.body import (
    EXPERTS,
    HEADS,
    MOST_EXPERTS,
    MOST_HEADS,
    TOP_K,
    Body,
    Sizes,
    read_sizes,
)
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.mixers import delta_net, mamba2
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.facts import Layer, RotaryCache

Make = Callable[[int, LayerBuilder], None]


def qwen_next_mixture(fields: Fields, pieces: LayerBuilder, hidden: int) -> None:
    """The MoE of Qwen3-Next and Qwen3.5: a gated shared expert beside the routed ones."""
    pieces.experts(
        hidden,
        fields.integer("moe_intermediate_size"),
        fields.integer("num_experts", high=MOST_EXPERTS),
        fields.integer(*TOP_K, high=MOST_EXPERTS),
    )
    shared = fields.integer("shared_expert_intermediate_size", default=0, low=0)
    if shared:
        pieces.linear("mlp.shared_expert_gate", hidden, 1, "none", quantizable=False)
        pieces.mlp(hidden, shared, prefix="mlp.shared_expert.")


def attending(fields: Fields, count: int) -> list[bool]:
    """Which of Qwen's layers have attention; the others are gated delta nets."""
    kinds = fields.texts("layer_types")
    every = fields.integer("full_attention_interval", default=4)
    return [kinds[min(i, len(kinds) - 1)] == "full_attention" if kinds else (i + 1) % every == 0 for i in range(count)]


def qwen_mixer(fields: Fields, sizes: Sizes, pieces: LayerBuilder, *, full: bool) -> None:
    """Gated attention with normalized heads, or a gated delta net."""
    if not full:
        delta_net(fields, pieces, sizes.hidden)
        return
    pieces.attention(
        sizes.hidden,
        sizes.heads,
        sizes.kv_heads,
        sizes.head_dim,
        bias=fields.flag("attention_bias", "qkv_bias"),
        gate=fields.flag("attn_output_gate", default=True),
        norm="head",
    )


def read_qwen_next(fields: Fields, builder: Builder) -> Body:
    """Qwen3-Next and Qwen3.5 / 3.6, dense and mixtures (qwen3_next.py, qwen3_5.py)."""
    sizes = read_sizes(fields)
    full = attending(fields, sizes.layers)
    experts = fields.integer("num_experts", default=0, low=0, high=MOST_EXPERTS)
    step = fields.integer("decoder_sparse_step", default=1)
    only_dense = fields.integers("mlp_only_layers")
    dense = [not experts or i in only_dense or (i + 1) % step != 0 for i in range(sizes.layers)]
    width = "intermediate_size" if not experts or any(dense) else "moe_intermediate_size"
    intermediate = fields.integer(width)

    def make(index: int, pieces: LayerBuilder) -> None:
        qwen_mixer(fields, sizes, pieces, full=full[index])
        if dense[index]:
            pieces.mlp(sizes.hidden, intermediate)
        else:
            qwen_next_mixture(fields, pieces, sizes.hidden)
        pieces.norm(sizes.hidden, 2)

    return hybrid_body(
        fields,
        builder,
        make,
        lambda index: (full[index], dense[index]),
        intermediate=intermediate,
        traits={"hybrid"} | ({"moe"} if experts else set()),
        rotary=rotary_caches(fields, sizes.head_dim),
    )


_LETTERS = {
    "mamba": "M",
    "linear_attention": "M",
    "attention": "*",
    "full_attention": "*",
    "moe": "E",
    "mlp": "-",
}
"""A layer's letter by its name in layers_block_type, before and since transformers 5."""


def read_nemotron_h(fields: Fields, builder: Builder) -> Body:
    """Nemotron-H and Nemotron 3: one mixer per layer, by a pattern of letters (nemotron_h.py)."""
    pattern = fields.text("hybrid_override_pattern").replace("|", "")
    if not pattern:
        words = fields.texts("layers_block_type")
        pattern = "".join(_LETTERS.get(word, "?") for word in words)
    if not pattern:
        raise fields.missing("hybrid_override_pattern", "layers_block_type")
    sizes = read_sizes(fields, layers=len(pattern))
    if len(pattern) < sizes.layers or set(pattern[: sizes.layers]) - set("M*E-"):
        raise fields.wrong("hybrid_override_pattern", pattern, f"{sizes.layers} letters out of M, *, E and -")
    mamba_heads = fields.integer("mamba_num_heads", default=1, high=MOST_HEADS)
    mamba_dim = fields.integer("mamba_head_dim", default=64)
    bias = fields.flag("mlp_bias")

    def make(index: int, pieces: LayerBuilder) -> None:
        kind = pattern[index]
        if kind == "M":
            mamba2(
                pieces,
                sizes.hidden,
                intermediate=mamba_heads * mamba_dim,
                heads=mamba_heads,
                head_dim=mamba_dim,
                groups=fields.integer("n_groups", default=8, high=MOST_HEADS),
                state=fields.integer("ssm_state_size", default=128),
                taps=fields.integer("conv_kernel", default=4, low=2, high=64),
                bias=fields.flag("use_bias"),
                conv_bias=fields.flag("use_conv_bias", default=True),
                float32_state=fields.text("mamba_ssm_cache_dtype", default="float32") == "float32",
            )
        elif kind == "*":
            pieces.attention(sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, prefix="mixer.")
        elif kind == "-":
            width = fields.integer_at(index, "intermediate_size")
            pieces.mlp(sizes.hidden, width, gated=False, bias=bias, prefix="mixer.", names=("up_proj", "down_proj"))
        else:
            _nemotron_mixture(fields, pieces, sizes.hidden)
        pieces.norm(sizes.hidden)

    words_found = {"hybrid"} | ({"moe"} if "E" in pattern else set())
    return hybrid_body(
        fields,
        builder,
        make,
        lambda index: pattern[index],
        intermediate=fields.integer_at(0, "intermediate_size", "moe_intermediate_size"),
        traits=words_found,
        rotary=(),
        layers=len(pattern),
    )


def _nemotron_mixture(fields: Fields, pieces: LayerBuilder, hidden: int) -> None:
    """Ungated experts, in a smaller latent space where the config gives one (Nemotron 3 Super)."""
    latent = fields.integer("moe_latent_size", default=0, low=0)
    width = fields.integer("moe_intermediate_size")
    experts = fields.integer(*EXPERTS, high=MOST_EXPERTS)
    pieces.linear("mixer.gate", hidden, experts, "none", quantizable=False)
    pieces.experts(
        latent or hidden,
        width,
        experts,
        fields.integer(*TOP_K, high=MOST_EXPERTS),
        gated=False,
        name="mixer.experts",
        router="",
        correction=True,
    )
    if latent:
        pieces.linear("mixer.fc1_latent_proj", hidden, latent, "none")
        pieces.linear("mixer.fc2_latent_proj", latent, hidden, "none")
    shared = fields.integer("n_shared_experts", default=0, low=0, high=MOST_EXPERTS)
    if shared:
        total = fields.integer("moe_shared_expert_intermediate_size", default=width) * shared
        pieces.mlp(hidden, total, gated=False, prefix="mixer.shared_experts.", names=("up_proj", "down_proj"))


def hybrid_body(
    fields: Fields,
    builder: Builder,
    make: Make,
    kind: Callable[[int], Hashable],
    *,
    intermediate: int,
    traits: set[str],
    rotary: tuple[RotaryCache, ...] | None = None,
    tied: bool = False,
    layers: int | None = None,
) -> Body:
    sizes = read_sizes(fields, layers=layers)
    ends = builder.single()
    ends.norm(sizes.hidden)
    extra: tuple[Layer, ...] = (ends.layer(),)
    return Body(
        builder.layers(sizes.layers, kind, make),
        sizes.hidden,
        intermediate,
        sizes.vocab,
        fields.integer(*HEADS, high=MOST_HEADS),
        sizes.kv_heads,
        sizes.head_dim,
        extra=extra,
        tied=fields.flag("tie_word_embeddings", default=tied),
        rotary=rotary_caches(fields, sizes.head_dim) if rotary is None else rotary,
        traits=frozenset(traits),
    )
