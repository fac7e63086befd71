"""DecoderSpec of the decoders with routed experts and ordinary attention, by architecture."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import EXPERTS, MOST_EXPERTS
from rayllm_ctl.catalog.modelconfig.families.decoder import DecoderSpec, MoESpec
from rayllm_ctl.catalog.modelconfig.fields import Fields


def sparse_step(fields: Fields, index: int) -> bool:
    """Qwen: dense where listed, or between sparse steps."""
    step = fields.integer("decoder_sparse_step", default=1, low=0)
    experts = fields.integer(*EXPERTS, default=0, low=0, high=MOST_EXPERTS)
    return index in fields.integers("mlp_only_layers") or not experts or not step or (index + 1) % step != 0


def first_dense(fields: Fields, index: int) -> bool:
    """DeepSeek's rule, also GLM's: the first layers are dense, later ones may alternate."""
    first = fields.integer("first_k_dense_replace", "num_dense_layers", default=0, low=0)
    frequency = fields.raw("moe_layer_freq")
    if isinstance(frequency, list):
        return not fields.integer_at(index, "moe_layer_freq", low=0)
    return index < first or index % fields.integer("moe_layer_freq", default=1) != 0


def _listed(fields: Fields, index: int) -> bool:
    """EXAONE MoE: a list of booleans; GLM and others of the family: mlp_layer_types."""
    kinds = fields.raw("is_moe_layer")
    if isinstance(kinds, list) and kinds:
        return not kinds[min(index, len(kinds) - 1)]
    types = fields.texts("mlp_layer_types")
    if types:
        return types[min(index, len(types) - 1)] == "dense"
    return first_dense(fields, index)


def _ernie(fields: Fields, index: int) -> bool:
    first = fields.integer_at(0, "moe_layer_start_index", default=0, low=0)
    last = fields.integer_at(0, "moe_layer_end_index", default=MOST_EXPERTS, low=-1)
    step = fields.integer_at(0, "moe_layer_interval", default=1)
    return not (first <= index <= (last if last >= 0 else MOST_EXPERTS) and (index + 1) % step == 0)


def step_layers(fields: Fields, index: int) -> bool:
    """Step: "4,5,6": the layers with experts; absent: all but the first."""
    listed = fields.raw("moe_layers_enum")
    if isinstance(listed, str):
        return str(index) not in [part.strip() for part in listed[:8192].split(",")]
    if isinstance(listed, list):
        return index not in fields.integers("moe_layers_enum")
    return index < 1


_GROUPED = MoESpec(
    intermediate=("moe_intermediate_size",), shared_count=("n_shared_experts", "num_shared_experts"), dense=first_dense
)
_GLM4 = replace(_GROUPED, router_float32=True, correction=True)
_QWEN = MoESpec(
    intermediate=("moe_intermediate_size",),
    dense=sparse_step,
    shared_total=("shared_expert_intermediate_size",),
    shared_name="mlp.shared_expert",
    shared_gate=True,
)
_GRANITE = MoESpec(intermediate=("intermediate_size",), name="block_sparse_moe.experts", router="block_sparse_moe.gate")
_ERNIE = MoESpec(
    intermediate=("moe_intermediate_size",),
    shared_count=("moe_num_shared_experts",),
    router_float32=True,
    correction=True,
    dense=_ernie,
)
STEP = MoESpec(
    intermediate=("moe_intermediate_size",),
    experts=("moe_num_experts",),
    shared_total=("share_expert_dim", "share_expert_dims"),
    shared_name="share_expert",
    name="moe.experts",
    router="moe.gate",
    dense=step_layers,
)

_EXAONE = DecoderSpec(
    qkv_bias=("attention_bias", "bias"),
    out_bias=("attention_bias", "bias"),
    qk_norm="head",
    window_pattern=4,
    moe=replace(_GROUPED, correction=True, dense=_listed),
)

MIXTURES: dict[str, DecoderSpec] = {
    "MixtralForCausalLM": DecoderSpec(
        window_uniform=True,
        moe=replace(_GRANITE, intermediate=("intermediate_size",)),
    ),
    "Qwen2MoeForCausalLM": DecoderSpec(qkv_bias=True, moe=_QWEN),
    "Qwen3MoeForCausalLM": DecoderSpec(qkv_bias=("attention_bias",), qk_norm="head", moe=_QWEN),
    "MellumForCausalLM": DecoderSpec(qkv_bias=("attention_bias",), qk_norm="head", moe=_QWEN),
    "PhiMoEForCausalLM": DecoderSpec(
        qkv_bias=True,
        out_bias=True,
        head_bias=True,
        norm_bias=True,
        window_uniform=True,
        moe=_GRANITE,
    ),
    "GptOssForCausalLM": DecoderSpec(
        qkv_bias=True,
        out_bias=True,
        sinks=True,
        rotary_float32=True,
        window_pattern=2,
        attention="attn.",
        moe=MoESpec(intermediate=("intermediate_size",), router="mlp.router", router_bias=True, bias=True),
    ),
    "Glm4MoeForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias",), qk_norm="head", qk_norm_if=("use_qk_norm",), moe=_GLM4
    ),
    "Dots1ForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias",), qk_norm="head", moe=replace(_GROUPED, correction=True)
    ),
    "DeepseekForCausalLM": DecoderSpec(qkv_bias=("attention_bias",), moe=_GROUPED),
    "GraniteMoeForCausalLM": DecoderSpec(moe=_GRANITE),
    "GraniteMoeSharedForCausalLM": DecoderSpec(
        moe=replace(_GRANITE, shared_total=("shared_intermediate_size",), shared_name="shared_mlp")
    ),
    "OlmoeForCausalLM": DecoderSpec(qk_norm="full", moe=MoESpec(intermediate=("intermediate_size",))),
    "FlexOlmoForCausalLM": DecoderSpec(qk_norm="full-replicated", moe=MoESpec(intermediate=("intermediate_size",))),
    "MiniMaxM2ForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias",),
        qk_norm="full",
        qk_norm_if=("use_qk_norm",),
        moe=replace(_GRANITE, router_float32=True, correction=True),
    ),
    "Ernie4_5_MoeForCausalLM": DecoderSpec(
        qkv_bias=("use_bias",), out_bias=("use_bias",), mlp_bias=("use_bias",), tied=True, moe=_ERNIE
    ),
    "AriaTextModel": DecoderSpec(
        qkv_bias=("attention_bias",),
        out_bias=("attention_bias",),
        moe=MoESpec(intermediate=("intermediate_size",), shared_count=("moe_num_shared_experts",), router="mlp.router"),
    ),
    "ExaoneMoeForCausalLM": _EXAONE,
    "ExaoneMoEForCausalLM": _EXAONE,
    "GraniteMoeSWAForCausalLM": DecoderSpec(
        sinks=True, moe=replace(_GRANITE, shared_total=("shared_intermediate_size",), shared_name="shared_mlp")
    ),
    "AfmoeForCausalLM": DecoderSpec(
        qk_norm="head", norms=4, gate=True, window_pattern=4, moe=replace(_GLM4, dense=first_dense)
    ),
    "HunYuanMoEV1ForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias", "bias"),
        out_bias=("attention_bias", "bias"),
        qk_norm="head",
        qk_norm_if=("use_qk_norm",),
        moe=MoESpec(
            intermediate=("moe_intermediate_size", "intermediate_size"),
            shared_count=("num_shared_expert",),
            shared_name="mlp.shared_mlp",
        ),
    ),
    "HYV3ForCausalLM": DecoderSpec(
        qk_norm="head", qk_norm_if=("qk_norm", "use_qk_norm"), moe=replace(_GLM4, dense=first_dense)
    ),
    "Param2MoEForCausalLM": DecoderSpec(
        qkv_bias=("use_qkv_bias",),
        out_bias=("use_bias",),
        qk_norm="head",
        qk_norm_if=("use_qk_norm",),
        moe=replace(_GROUPED, correction=True),
    ),
    "Cohere2MoeForCausalLM": DecoderSpec(
        norms=1,
        tied=True,
        window_pattern=4,
        moe=MoESpec(
            intermediate=("intermediate_size",),
            shared_count=("num_shared_experts",),
            dense=first_dense,
            dense_intermediate=("prefix_dense_intermediate_size", "intermediate_size"),
        ),
    ),
    "DbrxForCausalLM": DecoderSpec(
        norm_bias=False,
        attention="norm_attn_norm.attn.",
        projections=("Wqkv", "out_proj"),
        qkv_shards=("Wqkv",),
        moe=MoESpec(intermediate=("ffn_hidden_size",), name="ffn.experts", router="ffn.router.layer"),
    ),
    "Grok1ForCausalLM": DecoderSpec(norms=4, moe=MoESpec(intermediate=("moe_intermediate_size", "intermediate_size"))),
    "Grok1ModelForCausalLM": DecoderSpec(
        norms=4, moe=MoESpec(intermediate=("moe_intermediate_size", "intermediate_size"))
    ),
}
