"""Mixers with a recurrent state: Mamba 1 and 2, gated delta nets, Kimi's delta attention (vLLM layers/mamba)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.builder import LayerBuilder
from rayllm_ctl.catalog.modelconfig.decoders.spec import LayerContext
from rayllm_ctl.model.facts import Part, StateCache, Vector


def mamba2(
    layer: LayerBuilder,
    hidden: int,
    *,
    intermediate: int,
    heads: int,
    head_dim: int,
    groups: int,
    state: int,
    taps: int,
    bias: bool = False,
    conv_bias: bool = True,
    norm: bool = True,
    prefix: str = "mixer.",
    float32_state: bool = False,
) -> None:
    """Mamba 2's mixer. Groups are padded up to TP where it does not divide them (mamba_mixer2.py)."""
    grouped = Part(groups, state, replicable=True)
    inner = Part(heads, head_dim) if heads * head_dim == intermediate else Part(intermediate)
    projected = (inner, inner, grouped, grouped, Part(heads))
    layer.linear(prefix + "in_proj", hidden, projected, bias=bias)
    layer.linear(prefix + "conv1d", taps, (inner, grouped, grouped), bias=conv_bias, quantizable=False)
    layer.vectors += [Vector(heads, heads, float32=True), Vector(heads, heads), Vector(heads, heads)]
    if norm:
        layer.vectors.append(Vector(intermediate, heads))
    layer.linear(prefix + "out_proj", intermediate, hidden, "row", bias=bias, input_units=heads)
    layer.caches.append(
        StateCache(
            "mamba2",
            conv=(intermediate, taps - 1),
            conv_groups=(groups, 2 * state),
            ssm=(heads, head_dim, state),
            ssm_float32=float32_state,
        )
    )


def mamba1(
    layer: LayerBuilder, hidden: int, *, intermediate: int, state: int, taps: int, rank: int, conv_bias: bool,
    bias: bool, norms: bool, prefix: str = "mixer.",
) -> None:  # fmt: skip
    """Mamba 1's mixer (mamba_mixer.py). `norms`: of the time step, B and C (Jamba)."""
    layer.linear(prefix + "conv1d", taps, intermediate, bias=conv_bias, quantizable=False)
    layer.linear(prefix + "in_proj", hidden, (Part(intermediate), Part(intermediate)), bias=bias)
    layer.linear(prefix + "x_proj", intermediate, rank + 2 * state, "row", quantizable=False)
    layer.linear(prefix + "dt_proj", rank, intermediate, bias=True, quantizable=False)
    layer.vectors += [Vector(intermediate * state, intermediate, float32=True), Vector(intermediate, intermediate)]
    layer.linear(prefix + "out_proj", intermediate, hidden, "row", bias=bias)
    if norms:
        layer.vectors += [Vector(rank), Vector(state), Vector(state)]
    layer.caches.append(StateCache("mamba1", conv=(intermediate, taps - 1), ssm=(intermediate, state)))


def delta_net(context: LayerContext) -> None:
    """Qwen's gated delta net (qwen_gdn_linear_attn.py)."""
    fields, layer, hidden, prefix = context.fields, context.layer, context.sizes.hidden, "linear_attn."
    key_heads = fields.integer("linear_num_key_heads", high=MOST_HEADS)
    value_heads = fields.integer("linear_num_value_heads", high=MOST_HEADS)
    key_dim, value_dim = fields.integer("linear_key_head_dim"), fields.integer("linear_value_head_dim")
    taps = fields.integer("linear_conv_kernel_dim", default=4, high=64)
    keys, values = Part(key_heads, key_dim), Part(value_heads, value_dim)
    layer.linear(prefix + "conv1d", taps, (keys, keys, values), quantizable=False)
    shards = ("in_proj_qkv", "in_proj_z", "in_proj_qkvz")
    layer.linear(prefix + "in_proj_qkvz", hidden, (keys, keys, values, values), shards=shards)
    layer.linear(
        prefix + "in_proj_ba",
        hidden,
        (Part(value_heads), Part(value_heads)),
        shards=("in_proj_b", "in_proj_a", "in_proj_ba"),
    )
    layer.vectors += [
        Vector(value_heads, value_heads),
        Vector(value_heads, value_heads, float32=True),
        Vector(value_dim),
    ]
    layer.linear(prefix + "out_proj", value_heads * value_dim, hidden, "row", input_units=value_heads)
    channels = 2 * key_heads * key_dim + value_heads * value_dim
    float32_state = fields.text("mamba_ssm_dtype") == "float32"
    layer.caches.append(
        StateCache("gdn", conv=(channels, taps - 1), ssm=(value_heads, value_dim, key_dim), ssm_float32=float32_state)
    )


def kimi_delta(context: LayerContext) -> None:
    """Kimi's delta attention (kimi_gdn_linear_attn.py); its gate has full rank in Kimi K3."""
    fields, layer, hidden, prefix = context.fields, context.layer, context.sizes.hidden, "self_attn."
    config = fields.child("linear_attn_config")
    heads, dim = config.integer("num_heads", high=MOST_HEADS), config.integer("head_dim")
    taps = config.integer("short_conv_kernel_size", default=4, low=2, high=64)
    inner = Part(heads, dim)
    whole = config.flag("use_full_rank_gate")
    low_rank = Part(1, dim, replicable=True)
    parts = (inner,) * (4 if whole else 3) + (Part(heads), low_rank)
    shards = ("q_proj", "k_proj", "v_proj", "g_proj", "f_a_proj", "b_proj")
    layer.linear(prefix + "in_proj_qkvgfab", hidden, parts, shards=shards)
    layer.linear(prefix + "f_b_proj", dim, (inner,))
    if not whole:
        layer.linear(prefix + "g_a_proj", hidden, dim, "none")
        layer.linear(prefix + "g_b_proj", dim, (inner,))
    layer.vectors += [Vector(heads * dim, heads, float32=True), Vector(heads, heads, float32=True), Vector(dim)]
    layer.linear(prefix + "conv1d", taps, (inner, inner, inner), quantizable=False, float32=True)
    layer.linear(prefix + "o_proj", heads * dim, hidden, "row", input_units=heads)
    layer.caches.append(StateCache("kda", conv=(3 * heads * dim, taps - 1), ssm=(heads, dim, dim), ssm_float32=True))


def linear_state(heads: int, head_dim: int) -> StateCache:
    """What lightning attention keeps of a request: the sum of its keys times its values, head by head."""
    return StateCache("linear", ssm=(heads, head_dim, head_dim))
