"""A decoder by the fields that most configs share, for an architecture that has no row.

Attention is grouped-query, or latent where the config has its sizes. Which layers keep a state is told by the kinds of
layers that the config lists, and what they keep by the fields that it has; experts by their number.
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import (
    HEADS,
    HIDDEN,
    INTERMEDIATE,
    KV_HEADS,
    MOE_INTERMEDIATE,
    MOST_HEADS,
    TOP_K,
    Sizes,
    read_layers,
    read_sliding_sizes,
)
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention_of, feed_forward
from rayllm_ctl.catalog.modelconfig.decoders.hybrid import short_convolution
from rayllm_ctl.catalog.modelconfig.decoders.latent import (
    body_sizes,
    corrected,
    latent_attention,
    latent_rotary,
    shared_choices,
    sparse_latent_attention,
)
from rayllm_ctl.catalog.modelconfig.decoders.mixers import Mamba1, Mamba2, delta_net, kimi_delta, linear_state
from rayllm_ctl.catalog.modelconfig.decoders.patterns import listed_dense, listed_kinds, sparse_step, step_dense
from rayllm_ctl.catalog.modelconfig.decoders.registry import row_of
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext, Mixer, MoESpec
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import AttentionCache, Part, Vector

_STATE_WORDS = ("linear", "mamba", "recurrent", "conv", "ssm", "delta", "gdn", "kda", "lightning")
_STATES = ("mamba_d_state", "ssm_state_size", "state_size", "d_state")
_MAMBA_HEADS = ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
_DELTA = ("linear_num_value_heads", "linear_num_key_heads", "linear_key_head_dim", "linear_value_head_dim")
_LATENT = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim")
_SCORER = ("index_topk", "index_n_heads", "index_head_dim")
_SHARED_WIDTHS = ("shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim")
_MOST_PASSES = 64
_FAMILIES = {"hybrid_override_pattern": "NemotronHForCausalLM", "compress_ratios": "DeepseekV4ForCausalLM"}
"""Fields that only one family of models has."""
_UNGATED = ("relu", "relu2", "gelu_new", "gelu_fast")


def generic_row(fields: Fields) -> DecoderSpec:
    """The row of a decoder that is known by its fields alone."""
    family = next((name for field, name in _FAMILIES.items() if fields.has(field)), "")
    if not family and not fields.has(*HEADS):
        if fields.has(*KV_HEADS) or not fields.has(*_STATES):
            raise fields.missing(*HEADS)
        family = "MambaForCausalLM"
    row = row_of(family)
    if row is not None:
        return row if isinstance(row, DecoderSpec) else row(fields)
    old = fields.has("activation_function")  # GPT's and Whisper's kind of block: two projections with biases
    latent = all(fields.integer(name, default=0, low=0) for name in _LATENT)
    scored = latent and all(fields.has(name) for name in _SCORER)
    attends: Mixer = sparse_latent_attention if scored else latent_attention if latent else _grouped
    keeps = _state_mixer(fields)

    def both(context: LayerContext) -> None:
        attends(context)
        keeps(context)

    return DecoderSpec(
        qkv_bias=old or ("attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias", "use_bias", "bias"),
        out_bias=old or ("attention_bias", "use_bias", "bias"),
        mlp_bias=old or ("mlp_bias", "use_bias", "bias"),
        gate=("attn_output_gate", "use_attn_output_gate"),
        qk_norm="head",
        qk_norm_if=("use_qk_norm", "qk_norm", "qk_layernorm"),
        gated=not old and fields.text("hidden_act", "mlp_hidden_act") not in _UNGATED,
        norm_bias=old,
        norms=4 if fields.flag("sandwich_norm") else 2,
        window_pattern=1,
        windowed=not latent,
        sizes=body_sizes if latent else _sizes,
        tables=latent_rotary if latent else None,
        intermediate=_intermediate,
        varies=_shape,
        feed_forward=_blocks,
        mixers={"attention": attends, "state": keeps, "both": both},
        kinds=_kinds,
        moe=_experts(fields),
        finish=shared_choices if scored else None,
    )


def _kinds(fields: Fields, sizes: Sizes) -> list[str]:
    """What each layer has: attention, a state, or both."""
    count = sizes.layers
    if not _keeps_state(fields):
        return ["attention"] * count
    named = listed_kinds(fields, count, "layer_types", "layers_block_type")
    attends = _attending(fields, count)
    kinds = ["attention" if one else "state" for one in attends] or ["both"] * count
    return ["both" if name == "hybrid" else kind for name, kind in zip(named or kinds, kinds, strict=True)]


def _keeps_state(fields: Fields) -> bool:
    listed = any(word in kind for kind in fields.texts("layer_types", "layers_block_type") for word in _STATE_WORDS)
    return listed or fields.has(
        *_STATES, *_MAMBA_HEADS, *_DELTA, "linear_attn_config", "attn_type_list", "layer_group_size"
    )


def _attending(fields: Fields, count: int) -> list[bool]:
    """Which layers have attention, in the ways in which configs say so; empty if they do not."""
    named = listed_kinds(fields, count, "layer_types", "layers_block_type")
    if named:
        return [not any(word in kind for word in _STATE_WORDS) for kind in named]
    numbers = fields.integers("attn_type_list")
    if numbers:
        return [bool(numbers[min(index, len(numbers) - 1)]) for index in range(count)]
    delta = fields.child("linear_attn_config").integers("kda_layers")
    if delta:
        return [index + 1 not in delta for index in range(count)]
    listed = fields.integers("attn_layer_indices", "full_attn_idxs")
    if listed:
        return [index in listed for index in range(count)]
    names = ("full_attention_interval", "attn_layer_period", "layer_group_size", "mamba_step")
    every = fields.integer(*names, default=0, low=0)
    last = every // 2 if fields.has("mamba_step") else max(every, 1) - 1
    offset = fields.integer("attn_layer_offset", default=last, low=0)
    return [index % every == offset for index in range(count)] if every else []


def _grouped(context: LayerContext) -> None:
    fields, sizes = context.fields, context.sizes
    heads, kv_heads, _ = _shape(fields, context.layer_index)
    sizes = sizes._replace(heads=heads, kv_heads=kv_heads)
    own = read_sliding_sizes(fields, sizes) if context.window else sizes
    attention_of(context, own, value_dim=fields.integer("v_head_dim", "v_channels", default=0, low=0))
    passes = fields.integer("total_ut_steps", "loop_num", default=1, high=_MOST_PASSES)
    context.layer.caches *= passes  # a token goes through a layer so often, and each pass has keys of its own
    context.layer.passes = passes
    if fields.flag("is_encoder_decoder") or fields.has("decoder_layers"):
        _crossing(context, own)


def _crossing(context: LayerContext, sizes: Sizes) -> None:
    """Attention to what the encoder made, whose keys and values are kept for each request."""
    positions = context.fields.integer("max_source_positions", default=1500)
    attention_of(context._replace(spec=context.spec._replace(attention="encoder_attn.")), sizes, cached=False)
    context.layer.norm(sizes.hidden, bias=context.spec.norm_bias)
    context.layer.caches.append(AttentionCache(sizes.kv_heads, sizes.head_dim, sizes.head_dim, positions))


def _shape(fields: Fields, index: int) -> tuple[int, int, int]:
    """(heads, KV heads, feed-forward width) of a layer, which some configs list layer by layer."""
    heads = fields.integer_at(index, *HEADS, high=MOST_HEADS)
    width = fields.integer_at(index, *INTERMEDIATE, default=4 * fields.integer(*HIDDEN))
    return heads, fields.integer_at(index, *KV_HEADS, default=heads, high=MOST_HEADS), width


def _blocks(context: LayerContext) -> None:
    width = _shape(context.fields, context.layer_index)[2]
    feed_forward(context._replace(intermediate=width))


def _state_mixer(fields: Fields) -> Mixer:
    """What a layer has that keeps a state."""
    if all(fields.has(name) for name in _DELTA):
        return delta_net
    if fields.has("linear_attn_config"):
        return kimi_delta
    if fields.has(*_MAMBA_HEADS) or (fields.has(*_STATES) and fields.has("num_heads")):
        return _MAMBA2.add
    if fields.has(*_STATES):
        return _MAMBA1.add
    return short_convolution if fields.has("conv_L_cache") else _lightning


def _mamba_head(fields: Fields) -> int:
    """0 where the heads share the width."""
    names = ("mamba_head_dim", "mamba_d_head", "mamba_headdim", "hidden_size_per_head")
    return fields.integer(*names) if isinstance(fields.raw(*names), (int, float)) else 0


def _mamba_width(context: LayerContext) -> int:
    fields, head = context.fields, _mamba_head(context.fields)
    heads = fields.integer(*_MAMBA_HEADS, "num_heads", default=0, low=0, high=MOST_HEADS)
    wide = context.sizes.hidden * fields.integer("mamba_expand", "expand", default=2, high=64)
    return fields.integer("mamba_d_ssm", default=heads * head or wide)


_MAMBA2 = Mamba2(
    heads=(" ".join((*_MAMBA_HEADS, "num_heads")), None), groups=("n_groups mamba_n_groups mamba_ngroups", 1),
    state=(" ".join(_STATES), 128), taps="conv_kernel mamba_d_conv d_conv", bias="mamba_proj_bias",
    conv_bias="mamba_conv_bias", inner=_mamba_width, head_dim=_mamba_head,
)  # fmt: skip
_MAMBA1 = Mamba1(
    state=(" ".join(_STATES), 16), taps="conv_kernel mamba_d_conv d_conv", rank="mamba_dt_rank", bias="mamba_proj_bias",
    conv_bias="mamba_conv_bias", inner=_mamba_width,
)  # fmt: skip


def _lightning(context: LayerContext) -> None:
    """Lightning attention with a gate as wide as its output."""
    sizes, layer = context.sizes, context.layer
    width = sizes.hidden // sizes.heads if isinstance(context.fields.raw("kv_lora_rank"), int) else sizes.head_dim
    heads = Part(sizes.heads, context.fields.integer("head_dim", default=max(1, width)))
    layer.linear("self_attn.qkv_proj", sizes.hidden, (heads, heads, heads))
    layer.linear("self_attn.output_gate", sizes.hidden, (heads,))
    layer.linear("self_attn.out_proj", heads.size, sizes.hidden, "row", input_units=sizes.heads)
    layer.vectors.append(Vector(heads.size, sizes.heads))
    layer.caches.append(linear_state(sizes.heads, heads.unit))


def _experts(fields: Fields) -> MoESpec:
    widths = tuple(name for name in _SHARED_WIDTHS if isinstance(fields.raw(name), int))
    shared = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
    return MoESpec(
        intermediate=("moe_intermediate_size", "expert_intermediate_size", *MOE_INTERMEDIATE, "ffn_hidden_size"),
        top_k=(*TOP_K, "num_selected_experts", "n_activated_experts"),
        optional=True,
        dense=_dense,
        correction=corrected,
        shared_total=widths,
        shared_count=() if widths else shared,
        shared_width=("moe_shared_expert_intermediate_size",),
    )


def _dense(fields: Fields, index: int) -> bool:
    """By any of the rules by which configs say which layers have experts."""
    if fields.has("moe_layers_enum"):
        return step_dense(fields, index)
    listed = fields.integers("moe_layers")
    if listed:
        return index not in listed
    step = fields.integer("interleave_moe_layer_step", "expert_layer_period", "moe_layer_frequency", default=1)
    offset = fields.integer("expert_layer_offset", default=step - 1, low=0)
    alternates = fields.has("decoder_sparse_step", "mlp_only_layers") and sparse_step(fields, index)
    return alternates or listed_dense(fields, index) or index % step != offset


def _sizes(fields: Fields) -> Sizes:
    """The largest of those that are listed layer by layer. Keys may have a rotated and a plain part."""
    hidden, layers = fields.integer(*HIDDEN), read_layers(fields)
    shapes = [_shape(fields, index) for index in range(layers)]
    heads, kv_heads = max(shape[0] for shape in shapes), max(shape[1] for shape in shapes)
    parts = fields.integer("qk_nope_dim", default=0, low=0) + fields.integer("qk_rope_dim", default=0, low=0)
    stated = fields.integer("head_dim", "hidden_size_per_head", "kv_channels", default=max(1, hidden // heads))
    vocab = fields.integer("padded_vocab_size", "vocab_size")
    return Sizes(hidden, layers, heads, kv_heads, parts or stated, vocab)


def _intermediate(fields: Fields) -> int:
    return max(_shape(fields, index)[2] for index in range(read_layers(fields)))
