"""Ling and Ring (Bailing) and Sarvam: one MoE behind grouped, latent, lightning and delta attention.

Layouts from vLLM 0.29's bailing_moe.py, bailing_moe_linear.py, bailing_moe_v3.py and sarvam.py.
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_EXPERTS, MOST_HEADS, TOP_K, Body, read_layers, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.latent import LatentSizes, latent_attention
from rayllm_ctl.catalog.modelconfig.families.mixers import linear_state
from rayllm_ctl.catalog.modelconfig.families.moe import first_dense
from rayllm_ctl.catalog.modelconfig.families.uneven import final_norm, uneven_body
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.facts import Layer, Part, RotaryCache, StateCache, Vector


def _feed_forward(
    fields: Fields, hidden: int, pieces: LayerBuilder, *, dense: bool, router_float32: bool, correction: bool
) -> None:
    """A dense block, or routed experts with shared ones beside them, which may have a width of their own."""
    bias = fields.flag("use_bias")
    if dense:
        pieces.mlp(hidden, fields.integer("intermediate_size"), bias=bias)
        return
    width = fields.integer("moe_intermediate_size")
    pieces.experts(
        hidden,
        width,
        fields.integer("num_experts", high=MOST_EXPERTS),
        fields.integer(*TOP_K, high=MOST_EXPERTS),
        router_float32=router_float32,
        correction=correction,
    )
    shared = fields.integer("num_shared_experts", default=0, low=0, high=MOST_EXPERTS)
    if shared:
        each = fields.integer("moe_shared_expert_intermediate_size", default=width)
        pieces.mlp(hidden, each * shared, bias=bias, prefix="mlp.shared_experts.")


def _wide_router(fields: Fields, *, default: str) -> bool:
    return fields.text("router_dtype", default=default) == "fp32"


def read_bailing(fields: Fields, builder: Builder) -> Body:
    """Ling 1.5 and 2.0, Sarvam 30B: grouped attention with fused projections (bailing_moe.py)."""
    sizes = read_sizes(fields)
    dense = [first_dense(fields, index) for index in range(sizes.layers)]
    bias = fields.flag("use_bias")
    router, correction = _wide_router(fields, default=""), fields.flag("moe_router_enable_expert_bias")

    def make(index: int, pieces: LayerBuilder) -> None:
        pieces.attention(
            sizes.hidden,
            sizes.heads,
            sizes.kv_heads,
            sizes.head_dim,
            bias=bias or fields.flag("use_qkv_bias"),
            out_bias=bias,
            prefix="attention.",
            names=("query_key_value", "dense"),
            shards=("query_key_value",),
        )
        if fields.flag("use_qk_norm"):
            pieces.norm(sizes.head_dim, 2, bias=not fields.flag("use_rmsnorm"))
        _feed_forward(fields, sizes.hidden, pieces, dense=dense[index], router_float32=router, correction=correction)
        pieces.norm(sizes.hidden, 2)

    layers = builder.layers(sizes.layers, lambda index: dense[index], make)
    return uneven_body(fields, builder, sizes, layers, fields.integer("intermediate_size"), {"moe"})


def read_sarvam_latent(fields: Fields, builder: Builder) -> Body:
    """Sarvam 105B: DeepSeek's attention without its fused projection, which is the same size (sarvam.py)."""
    sizes, count = LatentSizes(fields), read_layers(fields)
    first = fields.integer("first_k_dense_replace", default=1, low=0)
    every = fields.integer("moe_layer_freq", default=1)
    dense = [index < first or (index - first) % every != 0 for index in range(count)]
    router, correction = (
        _wide_router(fields, default="fp32"),
        fields.flag("moe_router_enable_expert_bias", default=True),
    )

    def make(index: int, pieces: LayerBuilder) -> None:
        latent_attention(sizes, pieces)
        _feed_forward(fields, sizes.hidden, pieces, dense=dense[index], router_float32=router, correction=correction)
        pieces.norm(sizes.hidden, 2)

    layers = builder.layers(count, lambda index: dense[index], make)
    rotary = rotary_caches(fields, sizes.rope, width=sizes.rope)
    return _latent_body(fields, builder, sizes, layers, rotary, tied=fields.flag("tie_word_embeddings"))


def read_bailing_linear(fields: Fields, builder: Builder) -> Body:
    """Ring and Ling 2.5: lightning attention, every so many layers a latent one (bailing_moe_linear.py)."""
    sizes, count = LatentSizes(fields), read_layers(fields)
    head_dim = fields.integer("head_dim", default=max(1, sizes.hidden // sizes.heads))
    group = fields.integer("layer_group_size", default=1, low=0)
    linear = [group > 0 and (index + 1) % group != 0 for index in range(count)]
    dense = [first_dense(fields, index) for index in range(count)]
    router, correction = _wide_router(fields, default="fp32"), fields.flag("moe_router_enable_expert_bias")

    def make(index: int, pieces: LayerBuilder) -> None:
        if linear[index]:
            _lightning(fields, sizes, head_dim, pieces)
        else:
            latent_attention(sizes, pieces)
        _feed_forward(fields, sizes.hidden, pieces, dense=dense[index], router_float32=router, correction=correction)
        pieces.norm(sizes.hidden, 2)

    layers = builder.layers(count, lambda index: (linear[index], dense[index]), make)
    rotary = rotary_caches(fields, sizes.rope, width=sizes.rope)
    if any(linear):
        rotary += rotary_caches(fields, head_dim)
    return _latent_body(fields, builder, sizes, layers, rotary, hybrid=True)


def _lightning(fields: Fields, sizes: LatentSizes, head_dim: int, pieces: LayerBuilder) -> None:
    """Lightning attention with a gate. Its norm is taken over groups, which TP must divide."""
    inner = sizes.heads * head_dim
    groups = fields.integer("group_norm_size", default=1, high=MOST_HEADS)
    if inner % groups:
        raise fields.wrong("group_norm_size", groups, f"a divisor of {inner}, heads times head_dim")
    heads, bias = Part(sizes.heads, head_dim), fields.flag("use_bias")
    pieces.linear(
        "self_attn.query_key_value", sizes.hidden, (heads, heads, heads), bias=bias or fields.flag("use_qkv_bias")
    )
    if fields.flag("use_qk_norm"):
        pieces.norm(head_dim, 2)
    pieces.linear("self_attn.g_proj", sizes.hidden, (Part(groups, inner // groups),))
    pieces.linear("self_attn.dense", inner, sizes.hidden, "row", bias=bias, input_units=sizes.heads)
    pieces.vectors.append(Vector(inner, sizes.heads))
    pieces.caches.append(linear_state(sizes.heads, head_dim))


def read_bailing_delta(fields: Fields, builder: Builder) -> Body:
    """Ling 3.0: Kimi's delta attention at full rank, every so many layers a gated latent one (bailing_moe_v3.py)."""
    sizes, count = LatentSizes(fields), read_layers(fields)
    head_dim = fields.integer("head_dim")
    group = fields.integer("layer_group_size")
    delta = [(i + 1) % group != 0 and i < count // group * group for i in range(count)]
    dense = [first_dense(fields, index) for index in range(count)]
    gates = {"head_wise": 1, "element_wise": sizes.value}
    gate = gates.get(fields.text("gated_attention_proj_granularity_type"), 0)

    def make(index: int, pieces: LayerBuilder) -> None:
        if delta[index]:
            _delta(fields, sizes, head_dim, pieces)
        else:
            latent_attention(sizes, pieces, prefix="attention.", out="dense")
            if gate:
                pieces.linear("attention.g_proj", sizes.hidden, (Part(sizes.heads, gate),))
        _feed_forward(fields, sizes.hidden, pieces, dense=dense[index], router_float32=True, correction=True)
        pieces.norm(sizes.hidden, 2)

    layers = builder.layers(count, lambda index: (delta[index], dense[index]), make)
    rotary = rotary_caches(fields, sizes.rope, width=sizes.rope)
    return _latent_body(fields, builder, sizes, layers, rotary, hybrid=True)


def _delta(fields: Fields, sizes: LatentSizes, head_dim: int, pieces: LayerBuilder) -> None:
    """Delta attention. vLLM fuses b_proj with the others unless the checkpoint leaves it alone: the same size."""
    inner, heads = Part(sizes.heads, head_dim), sizes.heads
    taps = fields.integer("short_conv_kernel_size", default=4, low=2, high=64)
    shards = ("q_proj", "k_proj", "v_proj")
    pieces.linear("attention.qkv_proj", sizes.hidden, (inner, inner, inner), shards=shards)
    pieces.linear("attention.b_proj", sizes.hidden, (Part(heads),))
    pieces.linear("attention.f_proj", sizes.hidden, (inner,))
    pieces.linear("attention.conv1d", taps, (inner, inner, inner), quantizable=False, float32=True)
    pieces.linear("attention.g_proj", sizes.hidden, (inner,))
    pieces.linear("attention.o_proj", heads * head_dim, sizes.hidden, "row", input_units=heads)
    pieces.vectors += [Vector(inner.size, heads, float32=True), Vector(heads, heads, float32=True), Vector(head_dim)]
    state = (heads, head_dim, head_dim)
    pieces.caches.append(StateCache("kda", conv=(3 * inner.size, taps - 1), ssm=state, ssm_float32=True))


def _latent_body(
    fields: Fields,
    builder: Builder,
    sizes: LatentSizes,
    layers: tuple[Layer, ...],
    rotary: tuple[RotaryCache, ...],
    *,
    tied: bool = False,
    hybrid: bool = False,
) -> Body:
    return Body(
        layers,
        sizes.hidden,
        fields.integer("intermediate_size"),
        fields.integer("vocab_size"),
        sizes.heads,
        1,
        sizes.width,
        extra=final_norm(sizes.hidden, builder),
        tied=tied,
        rotary=rotary,
        traits=frozenset({"mla", "moe"} | ({"hybrid"} if hybrid else set())),
    )
