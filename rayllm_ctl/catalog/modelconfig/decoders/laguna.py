"""Laguna: heads that vary per layer, a gate on the attention's output, experts with a shared one."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention_of
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext, MoESpec
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import Part


def _heads(fields: Fields, index: int) -> int:
    return fields.integer_at(index, "num_attention_heads_per_layer", "num_attention_heads")


def _attention(context: LayerContext) -> None:
    sizes = context.sizes._replace(heads=_heads(context.fields, context.layer_index))
    attention_of(context, sizes)
    gating = context.fields.raw("gating")
    per_element = isinstance(gating, str) and gating != "per-head"
    if gating:
        gate = Part(sizes.heads, sizes.head_dim if per_element else 1)
        context.layer.linear("self_attn.g_proj", sizes.hidden, (gate,))


def _dense(fields: Fields, index: int) -> bool:
    kinds = fields.texts("mlp_layer_types")
    return kinds[index] == "dense" if index < len(kinds) else index in fields.integers("mlp_only_layers")


ROWS = {
    "LagunaForCausalLM": DecoderSpec(
        qkv_bias=("qkv_bias",), out_bias=("attention_bias",), qk_norm="head", mixer=_attention, varies=_heads,
        intermediate=("intermediate_size",),
        moe=MoESpec(
            intermediate=("moe_intermediate_size",), experts=("num_experts",), top_k_default=None, dense=_dense,
            correction=True, shared_total=("shared_expert_intermediate_size",), shared_default=None,
            shared_name="mlp.shared_expert",
        ),
    ),
}  # fmt: skip
