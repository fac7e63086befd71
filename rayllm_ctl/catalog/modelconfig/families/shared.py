"""Zamba 2: Mamba 2 layers, and a few attention blocks that the hybrid layers use in turn.

Layout from vLLM 0.29's zamba2.py. A shared block is held once; each hybrid layer has a cache, small adapters and a
projection back of its own.
"""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS, Body, Sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.mixers import mamba2
from rayllm_ctl.catalog.modelconfig.families.recurrent import hybrid_body
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.facts import AttentionCache, Layer, Part


def read_zamba2(fields: Fields, builder: Builder) -> Body:
    """The body of Zamba 2. Its attention sees the layer's input and the embedding side by side: twice the width."""
    kinds = fields.texts("layers_block_type", longest=1024)
    if not kinds:
        raise fields.missing("layers_block_type")
    sizes = read_sizes(fields, layers=len(kinds))
    if len(kinds) != sizes.layers:
        raise fields.wrong("layers_block_type", kinds, f"a list of {sizes.layers} kinds, one for each layer")
    sizes = replace(sizes, kv_heads=sizes.heads, head_dim=max(1, 2 * sizes.hidden // sizes.heads))
    intermediate = fields.integer("intermediate_size", default=4 * sizes.hidden)
    hybrid = [kind == "hybrid" for kind in kinds]

    def make(index: int, pieces: LayerBuilder) -> None:
        if hybrid[index]:
            _adapters(fields, sizes, intermediate, pieces)
            pieces.linear("linear", sizes.hidden, sizes.hidden, "none")
            pieces.caches.append(AttentionCache(sizes.heads, sizes.head_dim, sizes.head_dim))
        _scan(fields, sizes.hidden, pieces)
        pieces.norm(sizes.hidden)

    rotary = rotary_caches(fields, sizes.head_dim) if fields.flag("use_mem_rope") else ()
    body = hybrid_body(
        fields,
        builder,
        make,
        lambda index: hybrid[index],
        intermediate=intermediate,
        traits={"hybrid"},
        rotary=rotary,
        layers=len(kinds),
    )
    blocks = _blocks(fields, builder, sizes, intermediate, sum(hybrid))
    return replace(body, kv_heads=sizes.kv_heads, head_dim=sizes.head_dim, extra=body.extra + blocks, tied=True)


def _blocks(fields: Fields, builder: Builder, sizes: Sizes, intermediate: int, uses: int) -> tuple[Layer, ...]:
    """The shared blocks that are used at all, each with how often."""
    count = fields.integer("num_mem_blocks", default=1, high=MOST_HEADS)
    bias = fields.flag("add_bias_linear")
    found = []
    for index in range(min(count, uses)):
        pieces = builder.single("shared_transformer.")
        heads = Part(sizes.heads, sizes.head_dim)
        names = ("q_proj", "k_proj", "v_proj")
        pieces.linear("self_attn.qkv_proj", 2 * sizes.hidden, (heads, heads, heads), shards=names)
        pieces.linear("self_attn.o_proj", heads.size, sizes.hidden, "row", input_units=sizes.heads)
        pieces.mlp(sizes.hidden, intermediate, bias=bias, prefix="feed_forward.")
        pieces.norm(2 * sizes.hidden)
        pieces.norm(sizes.hidden)
        pieces.passes = len(range(index, uses, count))
        found.append(pieces.layer())
    return tuple(found)


def _adapters(fields: Fields, sizes: Sizes, intermediate: int, pieces: LayerBuilder) -> None:
    """What a hybrid layer adds to the projections of its shared block, at a low rank."""
    rank = fields.integer("adapter_rank", default=128)
    if fields.flag("use_shared_attention_adapter"):
        for name in ("q", "k", "v"):
            prefix = f"self_attn.linear_{name}_adapter."
            pieces.linear(prefix + "A", 2 * sizes.hidden, rank)
            pieces.linear(prefix + "B", rank, (Part(sizes.heads, sizes.head_dim),))
    pieces.linear("feed_forward.gate_up_proj_adapter.A", sizes.hidden, rank)
    pieces.linear("feed_forward.gate_up_proj_adapter.B", rank, (Part(intermediate), Part(intermediate)))


def _scan(fields: Fields, hidden: int, pieces: LayerBuilder) -> None:
    inner = hidden * fields.integer("mamba_expand", default=2, high=64)
    heads = fields.integer("n_mamba_heads", default=8, high=MOST_HEADS)
    mamba2(
        pieces,
        hidden,
        intermediate=inner,
        heads=heads,
        head_dim=max(1, inner // heads),
        groups=fields.integer("mamba_ngroups", default=1, high=MOST_HEADS),
        state=fields.integer("mamba_d_state", default=64),
        taps=fields.integer("mamba_d_conv", default=4, low=2, high=64),
        bias=fields.flag("add_bias_linear"),
        conv_bias=fields.flag("use_conv_bias", default=True),
        prefix="mamba.",
    )
