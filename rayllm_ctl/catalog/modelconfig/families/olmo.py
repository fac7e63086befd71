"""OLMo Hybrid: three gated delta nets to one attention layer with norms over all its heads (olmo_hybrid.py of 0.29)."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS, Body, Sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.recurrent import hybrid_body
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.facts import Part, StateCache, Vector


def read_olmo_hybrid(fields: Fields, builder: Builder) -> Body:
    """The body of OLMo Hybrid; a rope_theta of null in its rope_parameters means no rotation."""
    sizes = read_sizes(fields)
    sizes = replace(sizes, head_dim=max(1, sizes.hidden // sizes.heads))
    kinds = fields.texts("layer_types")
    linear = [kinds[min(i, len(kinds) - 1)] == "linear_attention" if kinds else i % 4 != 3 for i in range(sizes.layers)]
    intermediate = fields.integer("intermediate_size")

    def make(index: int, pieces: LayerBuilder) -> None:
        if linear[index]:
            _delta_net(fields, sizes, pieces)
        else:
            pieces.attention(sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, norm="full-replicated")
        pieces.mlp(sizes.hidden, intermediate)
        pieces.norm(sizes.hidden, 2)

    rotates = fields.child("rope_parameters").has("rope_theta") or fields.has("rope_theta")
    return hybrid_body(
        fields,
        builder,
        make,
        lambda index: linear[index],
        intermediate=intermediate,
        traits={"hybrid"},
        rotary=rotary_caches(fields, sizes.head_dim) if rotates else (),
    )


def _delta_net(fields: Fields, sizes: Sizes, pieces: LayerBuilder, *, prefix: str = "linear_attn.") -> None:
    """A gated delta net whose two gates are projections of their own (olmo_gdn_linear_attn.py)."""
    key_heads = fields.integer("linear_num_key_heads", default=sizes.heads, high=MOST_HEADS)
    value_heads = fields.integer("linear_num_value_heads", default=sizes.heads, high=MOST_HEADS)
    key_dim = fields.integer("linear_key_head_dim", default=max(1, 3 * sizes.hidden // (4 * key_heads)))
    value_dim = fields.integer("linear_value_head_dim", default=2 * key_dim)
    taps = fields.integer("linear_conv_kernel_dim", default=4, low=2, high=64)
    keys, values = Part(key_heads, key_dim), Part(value_heads, value_dim)
    shards = ("q_proj", "k_proj", "v_proj", "g_proj")
    pieces.linear(prefix + "in_proj_qkvg", sizes.hidden, (keys, keys, values, values), shards=shards)
    pieces.linear(prefix + "b_proj", sizes.hidden, (Part(value_heads),))
    pieces.linear(prefix + "a_proj", sizes.hidden, (Part(value_heads),))
    pieces.linear(prefix + "conv1d", taps, (keys, keys, values), quantizable=False)
    pieces.vectors += [Vector(value_heads, value_heads), Vector(value_heads, value_heads), Vector(value_dim)]
    pieces.linear(prefix + "o_proj", values.size, sizes.hidden, "row", input_units=value_heads)
    channels = 2 * keys.size + values.size
    pieces.caches.append(StateCache("gdn", conv=(channels, taps - 1), ssm=(value_heads, value_dim, key_dim)))
