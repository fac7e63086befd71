"""openPangu Embedded and Pro MoE V2: grouped attention, or one with learned tokens before the first (openpangu.py)."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import MOST_EXPERTS, TOP_K, Body, Sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.moe import first_dense
from rayllm_ctl.catalog.modelconfig.families.uneven import uneven_body
from rayllm_ctl.catalog.modelconfig.families.windows import layer_windows
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import AttentionCache, Part, RotaryCache, Vector


def read_pangu(fields: Fields, builder: Builder) -> Body:
    """The config says which attention it is: `param_sink_number` stands for the one with learned tokens."""
    sizes = read_sizes(fields)
    sinks = fields.integer("param_sink_number", default=0, low=0)
    experts = fields.integer("n_routed_experts", default=0, low=0, high=MOST_EXPERTS)
    dense = [not experts or first_dense(fields, index) for index in range(sizes.layers)]
    windows = layer_windows(fields, sizes.layers)
    intermediate = fields.integer("intermediate_size")
    norms = 4 if fields.flag("sandwich_norm") else 2

    def make(index: int, pieces: LayerBuilder) -> None:
        window, _ = windows[index]
        if sinks:
            _with_sinks(fields, sizes, sinks, window, pieces)
        else:
            qkv_bias, out_bias = _biases(fields)
            pieces.attention(
                sizes.hidden,
                sizes.heads,
                sizes.kv_heads,
                sizes.head_dim,
                bias=qkv_bias,
                out_bias=out_bias,
                window=window,
            )
        if dense[index]:
            pieces.mlp(sizes.hidden, intermediate, bias=fields.flag("mlp_bias"))
        else:
            _mixture(fields, sizes.hidden, experts, pieces)
        pieces.norm(sizes.hidden, norms)

    layers = builder.layers(sizes.layers, lambda index: (dense[index], windows[index]), make)
    body = uneven_body(fields, builder, sizes, layers, intermediate, {"moe"} if experts else set())
    if not sinks or not body.rotary:
        return body
    return replace(body, rotary=(RotaryCache(body.rotary[0].positions, fields.integer("qk_rope_dim")),))


def _biases(fields: Fields) -> tuple[bool, bool]:
    """Of the projections to queries, keys and values, and of the one back."""
    both = fields.flag("attention_bias") or fields.flag("bias")
    return fields.flag("qkv_bias", default=both), both


def _with_sinks(fields: Fields, sizes: Sizes, sinks: int, window: int, pieces: LayerBuilder) -> None:
    """Keys of a rotated and a plain part, values of another width, and the learned tokens' keys and values.

    KV heads are not repeated where ranks outnumber them: such a TP is refused.
    """
    key = fields.integer("qk_nope_dim", low=0) + fields.integer("qk_rope_dim")
    value = fields.integer("v_channels")
    qkv_bias, out_bias = _biases(fields)
    parts = (Part(sizes.heads, key), Part(sizes.kv_heads, key), Part(sizes.kv_heads, value))
    shards = ("q_proj", "k_proj", "v_proj")
    pieces.linear("self_attn.qkv_proj", sizes.hidden, parts, bias=qkv_bias, shards=shards)
    units = sizes.heads
    pieces.linear("self_attn.o_proj", units * value, sizes.hidden, "row", bias=out_bias, input_units=units)
    pieces.norm(key)
    pieces.vectors.append(Vector(sinks * sizes.kv_heads * key, sizes.kv_heads))
    if fields.flag("param_sink_with_value"):
        pieces.vectors.append(Vector(sinks * sizes.kv_heads * value, sizes.kv_heads))
    pieces.caches.append(AttentionCache(sizes.kv_heads, key, value, window))


def _mixture(fields: Fields, hidden: int, experts: int, pieces: LayerBuilder) -> None:
    width = fields.integer("moe_intermediate_size")
    pieces.experts(
        hidden,
        width,
        experts,
        fields.integer(*TOP_K, high=MOST_EXPERTS),
        correction=fields.flag("router_enable_expert_bias"),
    )
    shared = fields.integer("n_shared_experts", default=0, low=0, high=MOST_EXPERTS)
    if shared:
        pieces.mlp(hidden, width * shared, prefix="mlp.shared_experts.")
