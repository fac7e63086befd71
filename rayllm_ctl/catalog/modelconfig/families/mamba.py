"""Decoders of Mamba mixers or short convolutions, alone or beside attention: Falcon-H1, Bamba, Jamba, Mamba, LFM2."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from rayllm_ctl.catalog.modelconfig.body import (
    HIDDEN,
    MOST_EXPERTS,
    MOST_HEADS,
    TOP_K,
    Body,
    read_layers,
    read_sizes,
)
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.mixers import mamba1, mamba2
from rayllm_ctl.catalog.modelconfig.families.recurrent import hybrid_body
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.facts import Part, StateCache


def _scan(fields: Fields, pieces: LayerBuilder, hidden: int, *, prefix: str) -> None:
    """Mamba 2 by the names that Falcon-H1, Bamba and Granite 4 use."""
    heads = fields.integer("mamba_n_heads", high=MOST_HEADS)
    expand = fields.integer("mamba_expand", default=2, high=64)
    inner = fields.integer("mamba_d_ssm", default=hidden * expand)
    head_dim = (
        fields.integer("mamba_d_head", default=max(1, inner // heads))
        if _is_number(fields, "mamba_d_head")
        else max(1, inner // heads)
    )
    mamba2(
        pieces,
        hidden,
        intermediate=inner,
        heads=heads,
        head_dim=head_dim,
        groups=fields.integer("mamba_n_groups", default=1, high=MOST_HEADS),
        state=fields.integer("mamba_d_state"),
        taps=fields.integer("mamba_d_conv", default=4, low=2, high=64),
        bias=fields.flag("mamba_proj_bias"),
        conv_bias=fields.flag("mamba_conv_bias", default=True),
        norm=fields.flag("mamba_rms_norm", default=True),
        prefix=prefix,
    )


def _is_number(fields: Fields, name: str) -> bool:
    return isinstance(fields.raw(name), (int, float))


def read_falcon_h1(fields: Fields, builder: Builder) -> Body:
    """Falcon-H1: attention and Mamba 2 side by side in every layer (falcon_h1.py)."""
    sizes = read_sizes(fields)
    intermediate = fields.integer("intermediate_size")

    def make(_index: int, pieces: LayerBuilder) -> None:
        pieces.attention(sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim)
        _scan(fields, pieces, sizes.hidden, prefix="mamba.")
        pieces.mlp(sizes.hidden, intermediate, bias=fields.flag("mlp_bias"), prefix="feed_forward.")
        pieces.norm(sizes.hidden, 2)

    return hybrid_body(fields, builder, make, lambda _index: 0, intermediate=intermediate, traits={"hybrid"})


def read_bamba(fields: Fields, builder: Builder) -> Body:
    """Bamba and Granite 4 hybrids: some layers attend, the others scan; a dense block or a MoE after each."""
    sizes = read_sizes(fields)
    kinds = fields.texts("layer_types", "layers_block_type")
    listed = fields.integers("attn_layer_indices")
    attends = [kinds[i] == "attention" if i < len(kinds) else i in listed for i in range(sizes.layers)]
    experts = fields.integer("num_local_experts", default=0, low=0, high=MOST_EXPERTS)
    shared = fields.integer("shared_intermediate_size", default=0, low=0)
    intermediate = fields.integer("intermediate_size", default=shared or None)

    def make(index: int, pieces: LayerBuilder) -> None:
        if attends[index]:
            bias = fields.flag("attention_bias")
            pieces.attention(sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, bias=bias, out_bias=bias)
        else:
            _scan(fields, pieces, sizes.hidden, prefix="mamba.")
        if experts:
            pieces.experts(
                sizes.hidden, intermediate, experts, fields.integer(*TOP_K, high=MOST_EXPERTS),
                name="block_sparse_moe.experts", router="block_sparse_moe.gate",
            )  # fmt: skip
        if shared:
            pieces.mlp(sizes.hidden, shared, prefix="shared_mlp.", shards=("input_linear",))
        elif not experts:
            pieces.mlp(sizes.hidden, intermediate, prefix="feed_forward.")
        pieces.norm(sizes.hidden, 2)

    rotary = () if fields.text("position_embedding_type") == "nope" else rotary_caches(fields, sizes.head_dim)
    words = {"hybrid"} | ({"moe"} if experts else set())
    return hybrid_body(
        fields, builder, make, lambda index: attends[index], intermediate=intermediate, traits=words, rotary=rotary
    )


def read_jamba(fields: Fields, builder: Builder) -> Body:
    """Jamba: Mamba 1 with an attention layer in each period, experts in every second layer (jamba.py)."""
    sizes = read_sizes(fields)
    intermediate = fields.integer("intermediate_size")
    period, offset = (
        fields.integer("attn_layer_period", default=8),
        fields.integer("attn_layer_offset", default=4, low=0),
    )
    every, first = (
        fields.integer("expert_layer_period", default=2),
        fields.integer("expert_layer_offset", default=1, low=0),
    )
    experts = fields.integer("num_experts", default=16, high=MOST_EXPERTS)
    attends = [i % period == offset for i in range(sizes.layers)]
    mixed = [experts > 1 and i % every == first for i in range(sizes.layers)]

    def make(index: int, pieces: LayerBuilder) -> None:
        if attends[index]:
            pieces.attention(sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim)
        else:
            rank = fields.raw("mamba_dt_rank")
            mamba1(
                pieces,
                sizes.hidden,
                intermediate=sizes.hidden * fields.integer("mamba_expand", default=2, high=64),
                state=fields.integer("mamba_d_state", default=16),
                taps=fields.integer("mamba_d_conv", default=4, low=2, high=64),
                rank=-(-sizes.hidden // 16) if rank in (None, "auto") else fields.integer("mamba_dt_rank"),
                conv_bias=fields.flag("mamba_conv_bias", default=True),
                bias=fields.flag("mamba_proj_bias"),
                norms=True,
                prefix="mamba.",
            )
        if mixed[index]:
            pieces.experts(
                sizes.hidden, intermediate, experts, fields.integer(*TOP_K, default=2, high=MOST_EXPERTS),
                name="feed_forward.experts", router="feed_forward.router",
            )  # fmt: skip
        else:
            pieces.mlp(sizes.hidden, intermediate, prefix="feed_forward.")
        pieces.norm(sizes.hidden, 2)

    kind: Callable[[int], Hashable] = lambda index: (attends[index], mixed[index])  # noqa: E731
    return hybrid_body(fields, builder, make, kind, intermediate=intermediate, traits={"hybrid", "moe"}, rotary=())


def read_mamba(fields: Fields, builder: Builder) -> Body:
    """Mamba, Falcon-Mamba and Mamba 2 without attention (mamba.py, mamba2.py)."""
    hidden, count = fields.integer(*HIDDEN), read_layers(fields)
    state = fields.integer("state_size", "d_state")
    taps = fields.integer("conv_kernel", "d_conv", default=4, low=2, high=64)
    expand = fields.integer("expand", default=2, high=64)
    inner = fields.integer("intermediate_size", "d_inner", default=hidden * expand)
    rank = fields.raw("time_step_rank")
    second = fields.has("num_heads") and fields.has("head_dim")

    def make(_index: int, pieces: LayerBuilder) -> None:
        bias, conv_bias = fields.flag("use_bias"), fields.flag("use_conv_bias", default=True)
        if second:
            mamba2(
                pieces, hidden, intermediate=inner, heads=fields.integer("num_heads", high=MOST_HEADS),
                head_dim=fields.integer("head_dim"), groups=fields.integer("n_groups", default=8, high=MOST_HEADS),
                state=state, taps=taps, bias=bias, conv_bias=conv_bias,
            )  # fmt: skip
        else:
            mamba1(
                pieces, hidden, intermediate=inner, state=state, taps=taps, conv_bias=conv_bias, bias=bias, norms=False,
                rank=-(-hidden // 16) if rank in (None, "auto") else fields.integer("time_step_rank"),
            )  # fmt: skip
        pieces.norm(hidden)

    ends = builder.single()
    ends.norm(hidden)
    return Body(
        builder.layers(count, lambda _index: 0, make),
        hidden,
        inner,
        fields.integer("vocab_size"),
        fields.integer("num_heads", default=1, high=MOST_HEADS),
        1,
        1,
        extra=(ends.layer(),),
        tied=fields.flag("tie_word_embeddings", default=True),
        rotary=(),
        traits=frozenset({"attention-free"}),
    )


def read_lfm2(fields: Fields, builder: Builder) -> Body:
    """LFM2, dense and MoE: short convolutions with some attention layers (lfm2.py, lfm2_moe.py)."""
    sizes = read_sizes(fields)
    kinds = fields.texts("layer_types")
    listed = fields.integers("full_attn_idxs")
    attends = [kinds[i] == "full_attention" if i < len(kinds) else i in listed for i in range(sizes.layers)]
    taps = fields.integer("conv_L_cache", default=3, low=2, high=64)
    bias = fields.flag("conv_bias")
    experts = fields.integer("num_experts", default=0, low=0, high=MOST_EXPERTS)
    first = fields.integer("num_dense_layers", default=0, low=0)
    intermediate = _lfm2_width(fields)

    def make(index: int, pieces: LayerBuilder) -> None:
        if attends[index]:
            pieces.attention(
                sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, norm="head", names=("qkv_proj", "out_proj")
            )
        else:
            dim = fields.integer("conv_dim", default=sizes.hidden)
            pieces.linear("short_conv.conv", taps, dim, bias=bias, quantizable=False)
            pieces.linear("short_conv.in_proj", dim, (Part(dim), Part(dim), Part(dim)), bias=bias)
            pieces.linear("short_conv.out_proj", dim, dim, "row", bias=bias)
            pieces.caches.append(StateCache("short_conv", conv=(dim, taps - 1)))
        if experts and index >= first:
            pieces.experts(
                sizes.hidden, fields.integer("moe_intermediate_size"), experts,
                fields.integer(*TOP_K, high=MOST_EXPERTS), name="feed_forward.experts", router="feed_forward.gate",
                correction=True,
            )  # fmt: skip
        else:
            pieces.mlp(sizes.hidden, intermediate, prefix="feed_forward.", names=("w13", "w2"), shards=("w1", "w3"))
        pieces.norm(sizes.hidden, 2)

    return hybrid_body(
        fields,
        builder,
        make,
        lambda index: (attends[index], experts and index >= first),
        intermediate=intermediate,
        traits={"hybrid"} | ({"moe"} if experts else set()),
        tied=True,
    )


def _lfm2_width(fields: Fields) -> int:
    """LFM2 shrinks the width it is given by two thirds, scales it and rounds it up, unless told not to."""
    width = fields.integer("intermediate_size", "block_ff_dim")
    if not fields.flag("block_auto_adjust_ff_dim"):
        return width
    width = int(2 * width / 3)
    factor = fields.number("block_ffn_dim_multiplier", default=1.0)
    multiple = fields.integer("block_multiple_of", default=256)
    return -(-int(factor * width) // multiple) * multiple
