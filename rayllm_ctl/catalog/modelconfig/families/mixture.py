"""Traits of the decoders with routed experts and ordinary attention, by architecture."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import EXPERTS, MOST_EXPERTS
from rayllm_ctl.catalog.modelconfig.families.decoder import Mixture, Traits
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


_GROUPED = Mixture(
    intermediate=("moe_intermediate_size",), shared_count=("n_shared_experts", "num_shared_experts"), dense=first_dense
)
_GLM4 = replace(_GROUPED, router_float32=True, correction=True)
_QWEN = Mixture(
    intermediate=("moe_intermediate_size",),
    dense=sparse_step,
    shared_total=("shared_expert_intermediate_size",),
    shared_name="mlp.shared_expert",
    shared_gate=True,
)
_GRANITE = Mixture(intermediate=("intermediate_size",), name="block_sparse_moe.experts", router="block_sparse_moe.gate")
_ERNIE = Mixture(
    intermediate=("moe_intermediate_size",),
    shared_count=("moe_num_shared_experts",),
    router_float32=True,
    correction=True,
    dense=_ernie,
)
STEP = Mixture(
    intermediate=("moe_intermediate_size",),
    experts=("moe_num_experts",),
    shared_total=("share_expert_dim", "share_expert_dims"),
    shared_name="share_expert",
    name="moe.experts",
    router="moe.gate",
    dense=step_layers,
)

_EXAONE = Traits(
    qkv_bias=("attention_bias", "bias"),
    out_bias=("attention_bias", "bias"),
    qk_norm="head",
    window_pattern=4,
    mixture=replace(_GROUPED, correction=True, dense=_listed),
)

MIXTURES: dict[str, Traits] = {
    "MixtralForCausalLM": Traits(
        window_uniform=True,
        mixture=replace(_GRANITE, intermediate=("intermediate_size",)),
    ),
    "Qwen2MoeForCausalLM": Traits(qkv_bias=True, mixture=_QWEN),
    "Qwen3MoeForCausalLM": Traits(qkv_bias=("attention_bias",), qk_norm="head", mixture=_QWEN),
    "MellumForCausalLM": Traits(qkv_bias=("attention_bias",), qk_norm="head", mixture=_QWEN),
    "PhiMoEForCausalLM": Traits(
        qkv_bias=True,
        out_bias=True,
        head_bias=True,
        norm_bias=True,
        window_uniform=True,
        mixture=_GRANITE,
    ),
    "GptOssForCausalLM": Traits(
        qkv_bias=True,
        out_bias=True,
        sinks=True,
        rotary_float32=True,
        window_pattern=2,
        attention="attn.",
        mixture=Mixture(intermediate=("intermediate_size",), router="mlp.router", router_bias=True, bias=True),
    ),
    "Glm4MoeForCausalLM": Traits(
        qkv_bias=("attention_bias",), qk_norm="head", qk_norm_if=("use_qk_norm",), mixture=_GLM4
    ),
    "Dots1ForCausalLM": Traits(
        qkv_bias=("attention_bias",), qk_norm="head", mixture=replace(_GROUPED, correction=True)
    ),
    "DeepseekForCausalLM": Traits(qkv_bias=("attention_bias",), mixture=_GROUPED),
    "GraniteMoeForCausalLM": Traits(mixture=_GRANITE),
    "GraniteMoeSharedForCausalLM": Traits(
        mixture=replace(_GRANITE, shared_total=("shared_intermediate_size",), shared_name="shared_mlp")
    ),
    "OlmoeForCausalLM": Traits(qk_norm="full", mixture=Mixture(intermediate=("intermediate_size",))),
    "FlexOlmoForCausalLM": Traits(qk_norm="full-replicated", mixture=Mixture(intermediate=("intermediate_size",))),
    "MiniMaxM2ForCausalLM": Traits(
        qkv_bias=("attention_bias",),
        qk_norm="full",
        qk_norm_if=("use_qk_norm",),
        mixture=replace(_GRANITE, router_float32=True, correction=True),
    ),
    "Ernie4_5_MoeForCausalLM": Traits(
        qkv_bias=("use_bias",), out_bias=("use_bias",), mlp_bias=("use_bias",), tied=True, mixture=_ERNIE
    ),
    "AriaTextModel": Traits(
        qkv_bias=("attention_bias",),
        out_bias=("attention_bias",),
        mixture=Mixture(
            intermediate=("intermediate_size",), shared_count=("moe_num_shared_experts",), router="mlp.router"
        ),
    ),
    "ExaoneMoeForCausalLM": _EXAONE,
    "ExaoneMoEForCausalLM": _EXAONE,
    "GraniteMoeSWAForCausalLM": Traits(
        sinks=True, mixture=replace(_GRANITE, shared_total=("shared_intermediate_size",), shared_name="shared_mlp")
    ),
    "AfmoeForCausalLM": Traits(
        qk_norm="head", norms=4, gate=True, window_pattern=4, mixture=replace(_GLM4, dense=first_dense)
    ),
    "HunYuanMoEV1ForCausalLM": Traits(
        qkv_bias=("attention_bias", "bias"),
        out_bias=("attention_bias", "bias"),
        qk_norm="head",
        qk_norm_if=("use_qk_norm",),
        mixture=Mixture(
            intermediate=("moe_intermediate_size", "intermediate_size"),
            shared_count=("num_shared_expert",),
            shared_name="mlp.shared_mlp",
        ),
    ),
    "HYV3ForCausalLM": Traits(
        qk_norm="head", qk_norm_if=("qk_norm", "use_qk_norm"), mixture=replace(_GLM4, dense=first_dense)
    ),
    "Param2MoEForCausalLM": Traits(
        qkv_bias=("use_qkv_bias",),
        out_bias=("use_bias",),
        qk_norm="head",
        qk_norm_if=("use_qk_norm",),
        mixture=replace(_GROUPED, correction=True),
    ),
    "Cohere2MoeForCausalLM": Traits(
        norms=1,
        tied=True,
        window_pattern=4,
        mixture=Mixture(
            intermediate=("intermediate_size",),
            shared_count=("num_shared_experts",),
            dense=first_dense,
            dense_intermediate=("prefix_dense_intermediate_size", "intermediate_size"),
        ),
    ),
    "DbrxForCausalLM": Traits(
        norm_bias=False,
        attention="norm_attn_norm.attn.",
        projections=("Wqkv", "out_proj"),
        qkv_shards=("Wqkv",),
        mixture=Mixture(intermediate=("ffn_hidden_size",), name="ffn.experts", router="ffn.router.layer"),
    ),
    "Grok1ForCausalLM": Traits(norms=4, mixture=Mixture(intermediate=("moe_intermediate_size", "intermediate_size"))),
    "Grok1ModelForCausalLM": Traits(
        norms=4, mixture=Mixture(intermediate=("moe_intermediate_size", "intermediate_size"))
    ),
}
