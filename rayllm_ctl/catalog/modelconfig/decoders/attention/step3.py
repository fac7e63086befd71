"""Step 3, 3.5 and 3.7 Flash: experts with a shared one, and attention of their own (step3_text.py of vLLM 0.29)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import EXPERTS, MOST_HEADS, TOP_K, Sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.decoders.patterns import first_dense, step_dense
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext, MoESpec
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.plan.facts import AttentionCache, Part


def _narrow_queries(context: LayerContext) -> None:
    """Queries from a narrow latent. What makes the latent, the key and the value is whole on every rank."""
    sizes, layer = context.sizes, context.layer
    latent = context.fields.integer("share_q_dim", default=2048, low=0) or sizes.head_dim
    parts = (Part(latent), Part(1, sizes.head_dim), Part(1, sizes.head_dim))
    layer.linear("self_attn.qkv_proj", sizes.hidden, parts, "none", shards=("q_proj", "k_proj", "v_proj"))
    width = sizes.heads * sizes.head_dim
    layer.linear("self_attn.o_proj", width, sizes.hidden, "row", input_units=sizes.heads)
    layer.norm(latent)
    layer.linear("self_attn.wq", latent, (Part(sizes.heads, sizes.head_dim),))
    layer.caches.append(AttentionCache(1, sizes.head_dim, sizes.head_dim))


def _flash_heads(context: LayerContext) -> Sizes:
    """The sliding layers have heads of their own."""
    sizes, other = context.sizes, context.fields.child("attention_other_setting")
    if not context.window:
        return sizes
    return sizes._replace(
        heads=other.integer("num_attention_heads", default=sizes.heads, high=MOST_HEADS),
        kv_heads=other.integer("num_attention_groups", default=sizes.kv_heads, high=MOST_HEADS),
    )


def _flash_dense(fields: Fields, index: int) -> bool:
    return step_dense(fields, index) if fields.has("moe_layers_enum") else first_dense(fields, index)


_MOE = MoESpec(
    intermediate=("moe_intermediate_size",), experts=("moe_num_experts",), top_k=("moe_top_k",), top_k_default=None,
    dense=step_dense, name="moe.experts", router="moe.gate", shared_total=("share_expert_dim", "share_expert_dims"),
    shared_default=None, shared_name="share_expert",
)  # fmt: skip
_FLASH = DecoderSpec(
    qk_norm="head", heads=_flash_heads, intermediate=("intermediate_size",),
    head_gate=lambda fields, _sizes: int(fields.flag("use_head_wise_attn_gate", default=True)),
    moe=_MOE._replace(
        experts=("moe_num_experts", *EXPERTS), top_k=("moe_top_k", *TOP_K), dense=_flash_dense,
        router_float32=lambda fields: fields.flag("need_fp32_gate", default=True), correction=("use_moe_router_bias",),
    ),
)  # fmt: skip

ROWS = {
    "Step3TextForCausalLM": DecoderSpec(
        mixer=_narrow_queries, windowed=False, intermediate=("intermediate_size",),
        # one KV head for all queries
        sizes=lambda fields: read_sizes(fields)._replace(kv_heads=1, head_dim=fields.integer("head_dim", default=256)),
        moe=_MOE, tables=lambda fields, sizes: rotary_caches(
            fields, sizes.head_dim, positions=fields.integer("max_position_embedding", default=65536)
        ),
    ),
    "Step3p5ForCausalLM": _FLASH,
    "Step3p7FlashForCausalLM": _FLASH,
}  # fmt: skip
