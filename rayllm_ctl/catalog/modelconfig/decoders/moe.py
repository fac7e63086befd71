"""Decoders with grouped-query attention and routed experts: a row each, with the rules that only it has."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import Sizes
from rayllm_ctl.catalog.modelconfig.decoders.patterns import (
    FULL,
    Window,
    ernie_dense,
    first_dense,
    listed_dense,
    sparse_step,
)
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, MoESpec
from rayllm_ctl.catalog.modelconfig.fields import Fields


def _laguna_heads(fields: Fields, index: int) -> int:
    return fields.integer_at(index, "num_attention_heads_per_layer", "num_attention_heads")


def _laguna_gate(fields: Fields, sizes: Sizes) -> int:
    """A gate per head or per feature."""
    gating = fields.raw("gating")
    return (sizes.head_dim if isinstance(gating, str) and gating != "per-head" else 1) if gating else 0


def _laguna_dense(fields: Fields, index: int) -> bool:
    kinds = fields.texts("mlp_layer_types")
    return kinds[index] == "dense" if index < len(kinds) else index in fields.integers("mlp_only_layers")


def _llama4_chunks(fields: Fields, count: int) -> list[Window]:
    """Three chunked layers to one full."""
    chunk = fields.integer("attention_chunk_size", default=0, low=0)
    roped = fields.integers("no_rope_layers")
    interval = fields.integer("no_rope_layer_interval", default=4)
    local = [bool(roped[i]) if i < len(roped) else (i + 1) % interval != 0 for i in range(count)]
    return [(0, chunk) if is_local else FULL for is_local in local]


def _llama4_dense(fields: Fields, index: int) -> bool:
    listed = fields.integers("moe_layers")
    step = fields.integer("interleave_moe_layer_step", default=1, low=0)
    return index not in listed if listed else not step or (index + 1) % step != 0


_GROUPED = MoESpec(
    intermediate=("moe_intermediate_size",), shared_count=("n_shared_experts", "num_shared_experts"), dense=first_dense
)
_GLM4 = _GROUPED._replace(router_float32=True, correction=True)
QWEN = MoESpec(
    intermediate=("moe_intermediate_size",), dense=sparse_step, shared_total=("shared_expert_intermediate_size",),
    shared_name="mlp.shared_expert", shared_gate=True,
)  # fmt: skip
_GRANITE = MoESpec(intermediate=("intermediate_size",), name="block_sparse_moe.experts", router="block_sparse_moe.gate")
_ERNIE = MoESpec(
    intermediate=("moe_intermediate_size",), shared_count=("moe_num_shared_experts",), router_float32=True,
    correction=True, dense=ernie_dense,
)  # fmt: skip
_EXAONE = DecoderSpec(
    qkv_bias=("attention_bias", "bias"), out_bias=("attention_bias", "bias"), qk_norm="head", window_pattern=4,
    moe=_GROUPED._replace(correction=True, dense=listed_dense),
)  # fmt: skip

ROWS: dict[str, DecoderSpec] = {
    "MixtralForCausalLM": DecoderSpec(window_uniform=True, moe=_GRANITE),
    "Qwen2MoeForCausalLM": DecoderSpec(qkv_bias=True, moe=QWEN),
    "Qwen3MoeForCausalLM": DecoderSpec(qkv_bias=("attention_bias",), qk_norm="head", moe=QWEN),
    "MellumForCausalLM": DecoderSpec(qkv_bias=("attention_bias",), qk_norm="head", moe=QWEN),
    "PhiMoEForCausalLM": DecoderSpec(
        qkv_bias=True, out_bias=True, head_bias=True, norm_bias=True, window_uniform=True, moe=_GRANITE,
    ),
    "GptOssForCausalLM": DecoderSpec(
        qkv_bias=True, out_bias=True, sinks=True, rotary_float32=True, window_pattern=2, attention="attn.",
        moe=MoESpec(intermediate=("intermediate_size",), router="mlp.router", router_bias=True, bias=True),
    ),
    "Glm4MoeForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias",), qk_norm="head", qk_norm_if=("use_qk_norm",), moe=_GLM4,
    ),
    "Dots1ForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias",), qk_norm="head", moe=_GROUPED._replace(correction=True),
    ),
    "DeepseekForCausalLM": DecoderSpec(qkv_bias=("attention_bias",), moe=_GROUPED),
    "GraniteMoeForCausalLM": DecoderSpec(moe=_GRANITE),
    "GraniteMoeSharedForCausalLM": DecoderSpec(
        moe=_GRANITE._replace(shared_total=("shared_intermediate_size",), shared_name="shared_mlp"),
    ),
    "OlmoeForCausalLM": DecoderSpec(qk_norm="full", moe=MoESpec(intermediate=("intermediate_size",))),
    "FlexOlmoForCausalLM": DecoderSpec(qk_norm="full-replicated", moe=MoESpec(intermediate=("intermediate_size",))),
    "MiniMaxM2ForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias",), qk_norm="full", qk_norm_if=("use_qk_norm",),
        moe=_GRANITE._replace(router_float32=True, correction=True),
    ),
    "Ernie4_5_MoeForCausalLM": DecoderSpec(
        qkv_bias=("use_bias",), out_bias=("use_bias",), mlp_bias=("use_bias",), tied=True, moe=_ERNIE,
    ),
    "AriaTextModel": DecoderSpec(
        qkv_bias=("attention_bias",), out_bias=("attention_bias",),
        moe=MoESpec(intermediate=("intermediate_size",), shared_count=("moe_num_shared_experts",), router="mlp.router"),
    ),
    "ExaoneMoeForCausalLM": _EXAONE,
    "ExaoneMoEForCausalLM": _EXAONE,
    "GraniteMoeSWAForCausalLM": DecoderSpec(
        sinks=True, moe=_GRANITE._replace(shared_total=("shared_intermediate_size",), shared_name="shared_mlp"),
    ),
    "AfmoeForCausalLM": DecoderSpec(qk_norm="head", norms=4, gate=True, window_pattern=4, moe=_GLM4),
    "HunYuanMoEV1ForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias", "bias"), out_bias=("attention_bias", "bias"), qk_norm="head",
        qk_norm_if=("use_qk_norm",),
        moe=MoESpec(
            intermediate=("moe_intermediate_size", "intermediate_size"), shared_count=("num_shared_expert",),
            shared_name="mlp.shared_mlp",
        ),
    ),
    "HYV3ForCausalLM": DecoderSpec(qk_norm="head", qk_norm_if=("qk_norm", "use_qk_norm"), moe=_GLM4),
    "Param2MoEForCausalLM": DecoderSpec(
        qkv_bias=("use_qkv_bias",), out_bias=("use_bias",), qk_norm="head", qk_norm_if=("use_qk_norm",),
        moe=_GROUPED._replace(correction=True),
    ),
    "Cohere2MoeForCausalLM": DecoderSpec(
        norms=1, tied=True, window_pattern=4,
        moe=MoESpec(intermediate=("intermediate_size",), shared_count=("num_shared_experts",), dense=first_dense),
        intermediate=("prefix_dense_intermediate_size", "intermediate_size"),
    ),
    "DbrxForCausalLM": DecoderSpec(
        norm_bias=False, attention="norm_attn_norm.attn.", projections=("Wqkv", "out_proj"), qkv_shards=("Wqkv",),
        moe=MoESpec(intermediate=("ffn_hidden_size",), name="ffn.experts", router="ffn.router.layer"),
    ),
    "Grok1ForCausalLM": DecoderSpec(norms=4, moe=MoESpec(intermediate=("moe_intermediate_size", "intermediate_size"))),
    "Grok1ModelForCausalLM": DecoderSpec(
        norms=4, moe=MoESpec(intermediate=("moe_intermediate_size", "intermediate_size")),
    ),
    # Laguna: heads that vary per layer
    "LagunaForCausalLM": DecoderSpec(
        qkv_bias=("qkv_bias",), out_bias=("attention_bias",), qk_norm="head", head_gate=_laguna_gate,
        heads=lambda context: context.sizes._replace(heads=_laguna_heads(context.fields, context.layer_index)),
        varies=_laguna_heads, intermediate=("intermediate_size",),
        moe=MoESpec(
            intermediate=("moe_intermediate_size",), experts=("num_experts",), top_k_default=None, dense=_laguna_dense,
            correction=True, shared_total=("shared_expert_intermediate_size",), shared_default=None,
            shared_name="mlp.shared_expert",
        ),
    ),
    # Llama 4: experts in every or every second layer, one shared expert
    "Llama4ForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias",), out_bias=("attention_bias",), windows=_llama4_chunks, mlp="feed_forward.",
        intermediate=lambda fields: fields.integer(
            "intermediate_size_mlp", default=fields.integer("intermediate_size")
        ),
        moe=MoESpec(
            intermediate=("intermediate_size",), experts=("num_local_experts",), dense=_llama4_dense,
            name="feed_forward.experts", router="feed_forward.router", shared_count=1,
            shared_name="feed_forward.shared_expert",
        ),
    ),
}  # fmt: skip
