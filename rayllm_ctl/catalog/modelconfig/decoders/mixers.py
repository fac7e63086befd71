"""Mixers with a recurrent state: Mamba 1 and 2, gated delta nets, Kimi's delta attention (vLLM layers/mamba)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.decoders.spec import LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import Part, StateCache, Vector

Named = tuple[str, int | None]
"""A field's names, which spaces separate, and what holds where it is silent; None: it must be there."""


class Mamba2(NamedTuple):
    """Mamba 2's mixer by the names of an architecture's fields.

    inner: its width, if not that of its heads. head_dim: of a head; 0 or None if the heads share the width.
    """

    heads: Named
    groups: Named
    state: Named
    taps: str
    bias: str
    conv_bias: str
    inner: Callable[[LayerContext], int] | None = None
    head_dim: Callable[[Fields], int] | None = None
    norm: str = ""
    float32_state: Callable[[Fields], bool] = lambda _fields: False
    prefix: str = "mixer."

    def add(self, context: LayerContext) -> None:
        """Adds the mixer. Groups are padded up to TP where it does not divide them (mamba_mixer2.py)."""
        fields, layer, hidden = context.fields, context.layer, context.sizes.hidden
        heads, groups = _stated(fields, self.heads, MOST_HEADS), _stated(fields, self.groups, MOST_HEADS)
        state, taps = _stated(fields, self.state), _taps(fields, self.taps)
        head_dim = self.head_dim(fields) if self.head_dim else 0
        intermediate = self.inner(context) if self.inner else heads * head_dim
        head_dim = head_dim or max(1, intermediate // heads)
        bias, conv_bias = fields.flag(self.bias), fields.flag(self.conv_bias, default=True)
        grouped = Part(groups, state, replicable=True)
        inner = Part(heads, head_dim) if heads * head_dim == intermediate else Part(intermediate)
        layer.linear(self.prefix + "in_proj", hidden, (inner, inner, grouped, grouped, Part(heads)), bias=bias)
        parts = (inner, grouped, grouped)
        layer.linear(self.prefix + "conv1d", taps, parts, bias=conv_bias, quantizable=False)
        layer.vectors += [Vector(heads, heads, float32=True), Vector(heads, heads), Vector(heads, heads)]
        if not self.norm or fields.flag(self.norm, default=True):
            layer.vectors.append(Vector(intermediate, heads))
        layer.linear(self.prefix + "out_proj", intermediate, hidden, "row", bias=bias, input_units=heads)
        conv, float32 = (intermediate, taps - 1), self.float32_state(fields)
        ssm, conv_groups = (heads, head_dim, state), (groups, 2 * state)
        layer.caches.append(StateCache("mamba2", conv=conv, conv_groups=conv_groups, ssm=ssm, ssm_float32=float32))


class Mamba1(NamedTuple):
    """Mamba 1's mixer by the names of an architecture's fields. inner: its width; rank: features of the time step, a
    sixteenth of the hidden size where the field is silent. norms: of the time step, B and C (Jamba)."""

    state: Named
    taps: str
    rank: str
    bias: str
    conv_bias: str
    inner: Callable[[LayerContext], int]
    norms: bool = False
    prefix: str = "mixer."

    def add(self, context: LayerContext) -> None:
        """Adds the mixer (mamba_mixer.py)."""
        fields, layer, hidden, inner = context.fields, context.layer, context.sizes.hidden, self.inner(context)
        state, taps = _stated(fields, self.state), _taps(fields, self.taps)
        rank = -(-hidden // 16) if fields.raw(self.rank) in (None, "auto") else fields.integer(self.rank)
        bias, conv_bias = fields.flag(self.bias), fields.flag(self.conv_bias, default=True)
        layer.linear(self.prefix + "conv1d", taps, inner, bias=conv_bias, quantizable=False)
        layer.linear(self.prefix + "in_proj", hidden, (Part(inner), Part(inner)), bias=bias)
        layer.linear(self.prefix + "x_proj", inner, rank + 2 * state, "row", quantizable=False)
        layer.linear(self.prefix + "dt_proj", rank, inner, bias=True, quantizable=False)
        layer.vectors += [Vector(inner * state, inner, float32=True), Vector(inner, inner)]
        layer.linear(self.prefix + "out_proj", inner, hidden, "row", bias=bias)
        if self.norms:
            layer.vectors += [Vector(rank), Vector(state), Vector(state)]
        layer.caches.append(StateCache("mamba1", conv=(inner, taps - 1), ssm=(inner, state)))


def expanded(context: LayerContext) -> int:
    """The width of a Mamba mixer as a multiple of the hidden size."""
    return context.sizes.hidden * context.fields.integer("mamba_expand", default=2, high=64)


def _stated(fields: Fields, named: Named, high: int = 2**34) -> int:
    names, default = named
    return fields.integer(*names.split(), default=default, high=high)


def _taps(fields: Fields, names: str) -> int:
    return fields.integer(*names.split(), default=4, low=2, high=64)


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
    shards = ("in_proj_b", "in_proj_a", "in_proj_ba")
    layer.linear(prefix + "in_proj_ba", hidden, (Part(value_heads), Part(value_heads)), shards=shards)
    layer.vectors += [Vector(value_heads, value_heads), Vector(value_heads, value_heads, float32=True)]
    layer.norm(value_dim)
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
