"""Attention beside recurrent layers: Qwen3-Next and Qwen3.5, Kimi Linear, Falcon-H1, Bamba and Granite 4,
Jamba, LFM2; Mamba alone.

Layouts from vLLM's layers/mamba and the model files named at each row.
"""

from __future__ import annotations

from collections.abc import Callable

from rayllm_ctl.catalog.modelconfig.body import HIDDEN, MOST_HEADS, Sizes, read_layers
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention, feed_forward, nothing, shared_experts
from rayllm_ctl.catalog.modelconfig.decoders.latent import body_sizes, latent_attention, latent_sizes
from rayllm_ctl.catalog.modelconfig.decoders.mixers import Mamba1, Mamba2, delta_net, expanded, kimi_delta
from rayllm_ctl.catalog.modelconfig.decoders.moe import QWEN
from rayllm_ctl.catalog.modelconfig.decoders.patterns import first_dense, listed_kinds, sparse_step
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext, MoESpec
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import Part, StateCache


def qwen_layers(fields: Fields, sizes: Sizes) -> list[bool]:
    """Which of Qwen's layers have attention; the others are gated delta nets."""
    every = fields.integer("full_attention_interval", default=4)
    kinds = listed_kinds(fields, sizes.layers)
    return [kind == "full_attention" for kind in kinds] or [(i + 1) % every == 0 for i in range(sizes.layers)]


def _qwen_intermediate(fields: Fields) -> int:
    has_dense = any(sparse_step(fields, index) for index in range(read_layers(fields)))
    return fields.integer("intermediate_size" if has_dense else "moe_intermediate_size")


def _granite_head(fields: Fields) -> int:
    """0 where the config says "auto"."""
    return fields.integer("mamba_d_head") if isinstance(fields.raw("mamba_d_head"), (int, float)) else 0


# Of Falcon-H1, Bamba and Granite 4
_GRANITE_MAMBA = Mamba2(
    heads=("mamba_n_heads", None), groups=("mamba_n_groups", 1), state=("mamba_d_state", None), taps="mamba_d_conv",
    bias="mamba_proj_bias", conv_bias="mamba_conv_bias", norm="mamba_rms_norm", head_dim=_granite_head, prefix="mamba.",
    inner=lambda context: context.fields.integer("mamba_d_ssm", default=expanded(context)),
)  # fmt: skip
_MAMBA2 = Mamba2(
    heads=("num_heads", None), groups=("n_groups", 8), state=("state_size d_state", None), taps="conv_kernel d_conv",
    bias="use_bias", conv_bias="use_conv_bias", inner=lambda context: context.intermediate,
    head_dim=lambda fields: fields.integer("head_dim"),
)  # fmt: skip
_MAMBA1 = Mamba1(
    state=("state_size d_state", None), taps="conv_kernel d_conv", rank="time_step_rank", bias="use_bias",
    conv_bias="use_conv_bias", inner=lambda context: context.intermediate,
)  # fmt: skip
_JAMBA_MAMBA = Mamba1(
    state=("mamba_d_state", 16), taps="mamba_d_conv", rank="mamba_dt_rank", bias="mamba_proj_bias",
    conv_bias="mamba_conv_bias", inner=expanded, norms=True, prefix="mamba.",
)  # fmt: skip


def _attention_and_mamba(context: LayerContext) -> None:
    attention(context)
    _GRANITE_MAMBA.add(context)


def _attends(name: str, indices: str) -> Callable[[Fields, Sizes], list[bool]]:
    """Which layers have attention: those listed by kind, or by index."""

    def layers(fields: Fields, sizes: Sizes) -> list[bool]:
        kinds = fields.texts("layer_types", "layers_block_type")
        listed = fields.integers(indices)
        return [kinds[i] == name if i < len(kinds) else i in listed for i in range(sizes.layers)]

    return layers


def _granite_block(context: LayerContext) -> None:
    """Experts, a shared block beside them or alone, or a dense block."""
    shared = context.fields.integer("shared_intermediate_size", default=0, low=0)
    if not context.is_dense or not shared:
        feed_forward(context)
    elif context.spec.moe:
        shared_experts(context, context.spec.moe, shared)


def _jamba_layers(fields: Fields, sizes: Sizes) -> list[bool]:
    period = fields.integer("attn_layer_period", default=8)
    offset = fields.integer("attn_layer_offset", default=4, low=0)
    return [i % period == offset for i in range(sizes.layers)]


def _jamba_dense(fields: Fields, index: int) -> bool:
    every = fields.integer("expert_layer_period", default=2)
    first = fields.integer("expert_layer_offset", default=1, low=0)
    return fields.integer("num_experts", default=16) == 1 or index % every != first


def _mamba_sizes(fields: Fields) -> Sizes:
    heads = fields.integer("num_heads", default=1, high=MOST_HEADS)
    return Sizes(fields.integer(*HIDDEN), read_layers(fields), heads, 1, 1, fields.integer("vocab_size"))


def _mamba_inner(fields: Fields) -> int:
    hidden, expand = fields.integer(*HIDDEN), fields.integer("expand", default=2, high=64)
    return fields.integer("intermediate_size", "d_inner", default=hidden * expand)


def _mamba(context: LayerContext) -> None:
    """Mamba 2 where the config has heads, else Mamba 1."""
    has_heads = context.fields.has("num_heads") and context.fields.has("head_dim")
    (_MAMBA2 if has_heads else _MAMBA1).add(context)


def short_convolution(context: LayerContext) -> None:
    fields, layer = context.fields, context.layer
    taps = fields.integer("conv_L_cache", default=3, low=2, high=64)
    bias, dim = fields.flag("conv_bias"), fields.integer("conv_dim", default=context.sizes.hidden)
    layer.linear("short_conv.conv", taps, dim, bias=bias, quantizable=False)
    layer.linear("short_conv.in_proj", dim, (Part(dim), Part(dim), Part(dim)), bias=bias)
    layer.linear("short_conv.out_proj", dim, dim, "row", bias=bias)
    layer.caches.append(StateCache("short_conv", conv=(dim, taps - 1)))


def _lfm2_width(fields: Fields) -> int:
    """LFM2 shrinks the stated width by a third, scales it and rounds it up, unless switched off."""
    width = fields.integer("intermediate_size", "block_ff_dim")
    if not fields.flag("block_auto_adjust_ff_dim"):
        return width
    scaled = int(fields.number("block_ffn_dim_multiplier", default=1.0) * int(2 * width / 3))
    multiple = fields.integer("block_multiple_of", default=256)
    return -(-scaled // multiple) * multiple


def _kimi_layers(fields: Fields, sizes: Sizes) -> list[bool]:
    delta = {index - 1 for index in fields.child("linear_attn_config").integers("kda_layers")}
    return [index in delta for index in range(sizes.layers)]


QWEN_MOE = QWEN._replace(optional=True, top_k_default=None)
QWEN_NEXT = DecoderSpec(
    qkv_bias=("attention_bias", "qkv_bias"), gate=lambda fields: fields.flag("attn_output_gate", default=True),
    qk_norm="head", mixers={True: attention, False: delta_net}, kinds=qwen_layers, windowed=False,
    intermediate=_qwen_intermediate, moe=QWEN_MOE,
)  # fmt: skip
_BAMBA = DecoderSpec(
    qkv_bias=("attention_bias",), out_bias=("attention_bias",), mixers={True: attention, False: _GRANITE_MAMBA.add},
    kinds=_attends("attention", "attn_layer_indices"), windowed=False, mlp="feed_forward.", feed_forward=_granite_block,
    intermediate=("intermediate_size", "shared_intermediate_size"),
    rotary=lambda fields: fields.text("position_embedding_type") != "nope",
    moe=MoESpec(
        intermediate=("intermediate_size", "shared_intermediate_size"), experts=("num_local_experts",),
        top_k_default=None, optional=True, name="block_sparse_moe.experts", router="block_sparse_moe.gate",
        shared_total=("shared_intermediate_size",), shared_name="shared_mlp", shared_shards=("input_linear",),
    ),
)  # fmt: skip
_MAMBA = DecoderSpec(
    mixer=_mamba, windowed=False, sizes=_mamba_sizes, intermediate=_mamba_inner, feed_forward=nothing, norms=1,
    tied=True, rotary=False,
)  # fmt: skip
_LFM2 = DecoderSpec(
    projections=("qkv_proj", "out_proj"), qk_norm="head", mixers={True: attention, False: short_convolution},
    kinds=_attends("full_attention", "full_attn_idxs"), windowed=False, mlp="feed_forward.", mlp_names=("w13", "w2"),
    mlp_shards=("w1", "w3"), intermediate=_lfm2_width, tied=True,
    moe=MoESpec(
        intermediate=("moe_intermediate_size",), experts=("num_experts",), top_k_default=None, optional=True,
        dense=lambda fields, index: index < fields.integer("num_dense_layers", default=0, low=0),
        name="feed_forward.experts", router="feed_forward.gate", correction=True,
    ),
)  # fmt: skip

ROWS = {
    # qwen3_next.py, qwen3_5.py
    "Qwen3NextForCausalLM": QWEN_NEXT,
    "Qwen3_5ForCausalLM": QWEN_NEXT,
    "Qwen3_5MoeForCausalLM": QWEN_NEXT,
    # kimi_linear.py: three layers of delta attention to one latent one; Kimi K3's experts work in a smaller space
    "KimiLinearForCausalLM": DecoderSpec(
        mixers={True: kimi_delta, False: latent_attention}, kinds=_kimi_layers, windowed=False, sizes=body_sizes,
        head_gate=lambda fields, _: latent_sizes(fields).value if fields.flag("mla_use_output_gate") else 0,
        rotary=False, intermediate=("intermediate_size",),
        norms=lambda fields: 6 if fields.has("attn_res_block_size") else 2,
        moe=MoESpec(
            intermediate=("moe_intermediate_size",), experts=("num_experts",), top_k_default=None, dense=first_dense,
            correction=True, latent=("routed_expert_hidden_size",),
            latent_projections=("mlp.routed_expert_down_proj", "mlp.routed_expert_up_proj"), latent_norm=True,
            latent_quantizable=False, shared_count=("num_shared_experts",),
        ),
    ),
    # falcon_h1.py: attention and Mamba 2 side by side in every layer
    "FalconH1ForCausalLM": DecoderSpec(
        mixer=_attention_and_mamba, windowed=False, mlp="feed_forward.", mlp_bias=("mlp_bias",),
        intermediate=("intermediate_size",),
    ),
    # bamba.py, granitemoehybrid.py
    "BambaForCausalLM": _BAMBA,
    "GraniteMoeHybridForCausalLM": _BAMBA,
    # jamba.py
    "JambaForCausalLM": DecoderSpec(
        mixers={True: attention, False: _JAMBA_MAMBA.add}, kinds=_jamba_layers, windowed=False, mlp="feed_forward.",
        intermediate=("intermediate_size",), rotary=False,
        moe=MoESpec(
            intermediate=("intermediate_size",), experts=("num_experts",), experts_default=16, top_k_default=2,
            dense=_jamba_dense,
            name="feed_forward.experts", router="feed_forward.router",
        ),
    ),
    # mamba.py, mamba2.py
    "MambaForCausalLM": _MAMBA,
    "FalconMambaForCausalLM": _MAMBA,
    "Mamba2ForCausalLM": _MAMBA,
    # lfm2.py, lfm2_moe.py
    "Lfm2ForCausalLM": _LFM2,
    "Lfm2MoeForCausalLM": _LFM2,
}  # fmt: skip
