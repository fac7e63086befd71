"""Decoders with grouped-query attention and routed experts: a row each."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.decoders.patterns import ernie_dense, first_dense, listed_dense, sparse_step
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, MoESpec

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
}  # fmt: skip
