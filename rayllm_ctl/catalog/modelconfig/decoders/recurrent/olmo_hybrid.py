"""OLMo Hybrid: three gated delta nets to one attention layer with norms over all its heads (olmo_hybrid.py of vLLM
0.29)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS, Sizes, read_even_sizes
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention
from rayllm_ctl.catalog.modelconfig.decoders.patterns import listed_kinds
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import Part, StateCache, Vector


def _linear_layers(fields: Fields, sizes: Sizes) -> list[bool]:
    kinds = listed_kinds(fields, sizes.layers)
    return [kind == "linear_attention" for kind in kinds] or [i % 4 != 3 for i in range(sizes.layers)]


def _delta_net(context: LayerContext) -> None:
    """A gated delta net whose two gates are projections of their own (olmo_gdn_linear_attn.py)."""
    fields, sizes, layer, prefix = context.fields, context.sizes, context.layer, "linear_attn."
    key_heads = fields.integer("linear_num_key_heads", default=sizes.heads, high=MOST_HEADS)
    value_heads = fields.integer("linear_num_value_heads", default=sizes.heads, high=MOST_HEADS)
    key_dim = fields.integer("linear_key_head_dim", default=max(1, 3 * sizes.hidden // (4 * key_heads)))
    value_dim = fields.integer("linear_value_head_dim", default=2 * key_dim)
    taps = fields.integer("linear_conv_kernel_dim", default=4, low=2, high=64)
    keys, values = Part(key_heads, key_dim), Part(value_heads, value_dim)
    shards = ("q_proj", "k_proj", "v_proj", "g_proj")
    layer.linear(prefix + "in_proj_qkvg", sizes.hidden, (keys, keys, values, values), shards=shards)
    layer.linear(prefix + "b_proj", sizes.hidden, (Part(value_heads),))
    layer.linear(prefix + "a_proj", sizes.hidden, (Part(value_heads),))
    layer.linear(prefix + "conv1d", taps, (keys, keys, values), quantizable=False)
    layer.vectors += [Vector(value_heads, value_heads), Vector(value_heads, value_heads), Vector(value_dim)]
    layer.linear(prefix + "o_proj", values.size, sizes.hidden, "row", input_units=value_heads)
    channels = 2 * keys.size + values.size
    layer.caches.append(StateCache("gdn", conv=(channels, taps - 1), ssm=(value_heads, value_dim, key_dim)))


ROWS = {
    "OlmoHybridForCausalLM": DecoderSpec(
        qk_norm="full-replicated", mixers={True: _delta_net, False: attention}, kinds=_linear_layers, windowed=False,
        sizes=read_even_sizes, intermediate=("intermediate_size",),
        # a rope_theta of null in rope_parameters means no rotation
        rotary=lambda fields: fields.child("rope_parameters").has("rope_theta") or fields.has("rope_theta"),
    ),
}  # fmt: skip
