"""openPangu Embedded and Pro MoE V2: grouped attention, or one with learned tokens before the first (openpangu.py)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import Sizes
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention
from rayllm_ctl.catalog.modelconfig.decoders.patterns import first_dense
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext, MoESpec
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.plan.facts import AttentionCache, Part, RotaryCache, Vector


def _out_bias(fields: Fields) -> bool:
    return fields.flag("attention_bias") or fields.flag("bias")


def _qkv_bias(fields: Fields) -> bool:
    return fields.flag("qkv_bias", default=_out_bias(fields))


def _learned_tokens(fields: Fields) -> int:
    return fields.integer("param_sink_number", default=0, low=0)


def _attention_with_sinks(context: LayerContext) -> None:
    """Keys of a rotated and a plain part, values of another width, and the learned tokens' keys and values.

    KV heads are not repeated where ranks outnumber them: such a TP is refused.
    """
    fields, sizes, layer = context.fields, context.sizes, context.layer
    sinks, heads, kv_heads = _learned_tokens(fields), sizes.heads, sizes.kv_heads
    key = fields.integer("qk_nope_dim", low=0) + fields.integer("qk_rope_dim")
    value = fields.integer("v_channels")
    parts = (Part(heads, key), Part(kv_heads, key), Part(kv_heads, value))
    shards = ("q_proj", "k_proj", "v_proj")
    layer.linear("self_attn.qkv_proj", sizes.hidden, parts, bias=_qkv_bias(fields), shards=shards)
    layer.linear("self_attn.o_proj", heads * value, sizes.hidden, "row", bias=_out_bias(fields), input_units=heads)
    layer.norm(key)
    layer.vectors.append(Vector(sinks * kv_heads * key, kv_heads))
    if fields.flag("param_sink_with_value"):
        layer.vectors.append(Vector(sinks * kv_heads * value, kv_heads))
    layer.caches.append(AttentionCache(kv_heads, key, value, context.window))


def _rotary(fields: Fields, sizes: Sizes) -> tuple[RotaryCache, ...]:
    tables = rotary_caches(fields, sizes.head_dim)
    if not _learned_tokens(fields):
        return tables
    return (RotaryCache(tables[0].positions, fields.integer("qk_rope_dim")),)


_PANGU = DecoderSpec(
    qkv_bias=_qkv_bias, out_bias=_out_bias, mixers={True: _attention_with_sinks, False: attention},
    kinds=lambda fields, sizes: [bool(_learned_tokens(fields))] * sizes.layers, mlp_bias=("mlp_bias",),
    intermediate=("intermediate_size",), norms=lambda fields: 4 if fields.flag("sandwich_norm") else 2, tables=_rotary,
    moe=MoESpec(
        intermediate=("moe_intermediate_size",), experts=("n_routed_experts",), top_k_default=None, optional=True,
        dense=first_dense, correction=("router_enable_expert_bias",), shared_count=("n_shared_experts",),
    ),
)  # fmt: skip

ROWS = {"PanguEmbeddedForCausalLM": _PANGU, "PanguProMoEV2ForCausalLM": _PANGU}
