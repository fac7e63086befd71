"""Ling and Ring (Bailing) and Sarvam 30B: one MoE behind grouped, latent, lightning and delta attention.

Layouts from vLLM 0.29's bailing_moe.py, bailing_moe_linear.py and bailing_moe_v3.py.
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS, Sizes
from rayllm_ctl.catalog.modelconfig.decoders.latent import (
    LATENT,
    latent_attention,
    latent_rotary,
    latent_sizes,
)
from rayllm_ctl.catalog.modelconfig.decoders.mixers import linear_state
from rayllm_ctl.catalog.modelconfig.decoders.patterns import first_dense
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext, MoESpec
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.plan.facts import Part, RotaryCache, StateCache, Vector


def _qkv_bias(fields: Fields) -> bool:
    return fields.flag("use_bias") or fields.flag("use_qkv_bias")


def _linear_layers(fields: Fields, sizes: Sizes) -> list[bool]:
    group = fields.integer("layer_group_size", default=1, low=0)
    return [group > 0 and (index + 1) % group != 0 for index in range(sizes.layers)]


def _head_dim(fields: Fields) -> int:
    sizes = latent_sizes(fields)
    return fields.integer("head_dim", default=max(1, sizes.hidden // sizes.heads))


def _lightning(context: LayerContext) -> None:
    """Lightning attention with a gate. Its norm is taken over groups, which TP must divide."""
    fields, layer, sizes = context.fields, context.layer, context.sizes
    head_dim = _head_dim(fields)
    inner = sizes.heads * head_dim
    groups = fields.integer("group_norm_size", default=1, high=MOST_HEADS)
    if inner % groups:
        raise fields.wrong("group_norm_size", groups, f"a divisor of {inner}, heads times head_dim")
    heads, bias = Part(sizes.heads, head_dim), fields.flag("use_bias")
    layer.linear("self_attn.query_key_value", sizes.hidden, (heads, heads, heads), bias=_qkv_bias(fields))
    if fields.flag("use_qk_norm"):
        layer.norm(head_dim, 2)
    layer.linear("self_attn.g_proj", sizes.hidden, (Part(groups, inner // groups),))
    layer.linear("self_attn.dense", inner, sizes.hidden, "row", bias=bias, input_units=sizes.heads)
    layer.vectors.append(Vector(inner, sizes.heads))
    layer.caches.append(linear_state(sizes.heads, head_dim))


def _two_rotations(fields: Fields, sizes: Sizes) -> tuple[RotaryCache, ...]:
    linear = rotary_caches(fields, _head_dim(fields)) if any(_linear_layers(fields, sizes)) else ()
    return latent_rotary(fields, sizes) + linear


def _delta_layers(fields: Fields, sizes: Sizes) -> list[bool]:
    group, count = fields.integer("layer_group_size"), sizes.layers
    return [(i + 1) % group != 0 and i < count // group * group for i in range(count)]


def _delta(context: LayerContext) -> None:
    """Delta attention. vLLM fuses b_proj with the others unless the checkpoint leaves it alone: the same size."""
    fields, layer, hidden, heads = context.fields, context.layer, context.sizes.hidden, context.sizes.heads
    head_dim = fields.integer("head_dim")
    inner = Part(heads, head_dim)
    taps = fields.integer("short_conv_kernel_size", default=4, low=2, high=64)
    layer.linear("attention.qkv_proj", hidden, (inner,) * 3, shards=("q_proj", "k_proj", "v_proj"))
    layer.linear("attention.b_proj", hidden, (Part(heads),))
    layer.linear("attention.f_proj", hidden, (inner,))
    layer.linear("attention.conv1d", taps, (inner,) * 3, quantizable=False, float32=True)
    layer.linear("attention.g_proj", hidden, (inner,))
    layer.linear("attention.o_proj", heads * head_dim, hidden, "row", input_units=heads)
    layer.vectors += [Vector(inner.size, heads, float32=True), Vector(heads, heads, float32=True), Vector(head_dim)]
    state = (heads, head_dim, head_dim)
    layer.caches.append(StateCache("kda", conv=(3 * inner.size, taps - 1), ssm=state, ssm_float32=True))


def _gate(fields: Fields, _sizes: Sizes) -> int:
    """Of latent attention: per head or per feature of its values."""
    gates = {"head_wise": 1, "element_wise": latent_sizes(fields).value}
    return gates.get(fields.text("gated_attention_proj_granularity_type"), 0)


_MOE = MoESpec(
    intermediate=("moe_intermediate_size",), top_k_default=None, dense=first_dense,
    router_float32=lambda fields: fields.text("router_dtype") == "fp32", correction=("moe_router_enable_expert_bias",),
    shared_count=("num_shared_experts",), shared_width=("moe_shared_expert_intermediate_size",),
    shared_bias=("use_bias",),
)  # fmt: skip
_GROUPED = DecoderSpec(
    qkv_bias=_qkv_bias, out_bias=("use_bias",), mlp_bias=("use_bias",), attention="attention.",
    projections=("query_key_value", "dense"), qkv_shards=("query_key_value",), windowed=False,
    qk_norm=lambda fields: "head" if fields.flag("use_rmsnorm") else "head-bias", qk_norm_if=("use_qk_norm",),
    intermediate=("intermediate_size",), moe=_MOE,
)  # fmt: skip
_LATENT = LATENT._replace(mlp_bias=("use_bias",), untied=True)

ROWS = {
    "BailingMoeForCausalLM": _GROUPED,
    "BailingMoeV2ForCausalLM": _GROUPED,
    "SarvamMoEForCausalLM": _GROUPED,
    # Ring and Ling 2.5
    "BailingMoeV2_5ForCausalLM": _LATENT._replace(
        mixers={True: _lightning, False: latent_attention}, kinds=_linear_layers, tables=_two_rotations,
        moe=_MOE._replace(router_float32=lambda fields: fields.text("router_dtype", default="fp32") == "fp32"),
    ),
    # Ling 3.0
    "BailingMoeV3ForCausalLM": _LATENT._replace(
        mixers={True: _delta, False: latent_attention}, kinds=_delta_layers, head_gate=_gate, attention="attention.",
        projections=("", "dense"),
        moe=_MOE._replace(router_float32=True, correction=True),
    ),
}  # fmt: skip
