"""Moondream 3: attention beside a feed-forward block, scaled by position and content (vLLM: moondream3.py of 0.29).

Left out: the float32 biases of the experts that vLLM makes while loading (0.5 MiB a layer).
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_EXPERTS, MOST_HEADS, Sizes
from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention, dense
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import Part, RotaryCache, Vector

_ROTATED = 32
"""Features of a head that are rotated, whatever the config says."""


def _sizes(fields: Fields) -> Sizes:
    hidden, layers = fields.integer("dim"), fields.integer("n_layers", high=MOST_LAYERS)
    heads, kv_heads = fields.integer("n_heads", high=MOST_HEADS), fields.integer("n_kv_heads", high=MOST_HEADS)
    return Sizes(hidden, layers, heads, kv_heads, max(1, hidden // heads), fields.integer("vocab_size"))


def _dense_layers(fields: Fields, sizes: Sizes) -> list[bool]:
    first = fields.child("moe").integer("start_layer", default=4, low=0)
    return [index < first for index in range(sizes.layers)]


def _scaled_attention(context: LayerContext) -> None:
    attention(context)
    heads, hidden = context.sizes.heads, context.sizes.hidden
    context.layer.vectors.append(Vector(heads, heads))
    for name in ("attn.tau_wq", "attn.tau_wv"):
        context.layer.linear(name, 3 * hidden, (Part(heads),), quantizable=False)


def _blocks(context: LayerContext) -> None:
    """No format quantizes the experts, of which every rank holds some whole."""
    if context.kind:
        dense(context, context.intermediate)
        return
    moe, layer, hidden = context.fields.child("moe"), context.layer, context.sizes.hidden
    count = moe.integer("n_experts", default=64, high=MOST_EXPERTS)
    top_k = moe.integer("n_experts_per_tok", default=8, high=MOST_EXPERTS)
    inner = moe.integer("expert_inner_dim", default=1024)
    layer.linear("mlp.gate", hidden, count, "none", bias=True, quantizable=False)
    layer.experts(hidden, inner, count, top_k, quantizable=False)


ROWS = {
    "Moondream3TextModel": DecoderSpec(
        qkv_bias=True, out_bias=True, attention="attn.", projections=("qkv_proj", "out_proj"), mixer=_scaled_attention,
        kinds=_dense_layers, windowed=False, gated=False, mlp_bias=True, mlp_names=("fc1", "fc2"), feed_forward=_blocks,
        intermediate=("ff_dim",), norms=1, norm_bias=True, sizes=_sizes, head_bias=True, untied=True,
        tables=lambda fields, _sizes: (RotaryCache(fields.integer("max_context"), _ROTATED),),
    ),
}  # fmt: skip
