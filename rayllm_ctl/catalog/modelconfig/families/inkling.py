"""Inkling: short convolutions on four streams of a layer, relative positions, sliding layers (vLLM 0.29's
models/inkling)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_EXPERTS, MOST_HEADS, Body, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import AttentionCache, Part, Vector

_COLLECTIVE = 2 * 3 * 2
"""Bytes per token and feature that the fused sum of ranks and convolution holds: three buffers in, three out, for four
tokens of a convolution and TP 2, 4 and 8 (nvidia/ops/lamport.py). A bound for other TP."""


def read_inkling(fields: Fields, builder: Builder) -> Body:
    """The body of Inkling. Every rank holds the whole embedding table."""
    sizes = read_sizes(fields)
    local = frozenset(fields.integers("local_layer_ids"))
    first = fields.integer("dense_mlp_idx", default=0, low=0)
    width, dense_width = _widths(fields)

    def make(index: int, pieces: LayerBuilder) -> None:
        heads, kv_heads, head = sizes.heads, sizes.kv_heads, sizes.head_dim
        if index in local:
            heads = fields.integer("swa_num_attention_heads", default=heads, high=MOST_HEADS)
            kv_heads = fields.integer("swa_num_key_value_heads", default=kv_heads, high=MOST_HEADS)
            head = fields.integer("swa_head_dim", default=head)
        _attention(fields, pieces, sizes.hidden, heads, kv_heads, head, local=index in local)
        if index < first:
            pieces.mlp(sizes.hidden, dense_width)
            if fields.flag("use_global_scale"):
                pieces.norm(1)
        else:
            _mixture(fields, pieces, sizes.hidden, width)

    ends = builder.single()
    ends.norm(sizes.hidden, 2 if fields.flag("use_embed_norm") else 1)
    mixed = first < sizes.layers
    return Body(
        builder.layers(sizes.layers, lambda index: (index in local, index < first), make),
        sizes.hidden,
        dense_width if first else width,
        sizes.vocab,
        sizes.heads,
        sizes.kv_heads,
        sizes.head_dim,
        extra=(ends.layer(),),
        rotary=(),
        whole_embedding=True,
        token_buffers=_COLLECTIVE * sizes.hidden if _taps(fields) == 4 else 0,
        traits=frozenset({"sliding"} | ({"moe"} if mixed else set())),
    )


def _taps(fields: Fields) -> int:
    return fields.integer("sconv_kernel_size", "conv_kernel_size", default=4, high=64)


def _widths(fields: Fields) -> tuple[int, int]:
    """(of an expert, of a dense block): transformers calls them otherwise than the published files do."""
    width = fields.integer("intermediate_size", default=768)
    if fields.has("moe_intermediate_size") and not fields.has("dense_intermediate_size"):
        return fields.integer("moe_intermediate_size"), width
    return width, fields.integer("dense_intermediate_size", default=width)


def _attention(
    fields: Fields, pieces: LayerBuilder, hidden: int, heads: int, kv_heads: int, head: int, *, local: bool
) -> None:
    """Attention with a term for the distance, and what the four convolutions keep: the last few tokens of keys, values
    and both outputs, head by head in a width of a power of two."""
    relative = fields.integer("d_rel", default=16)
    window = fields.integer("sliding_window_size", default=512)
    extent = window if local else fields.integer("rel_extent", default=1024)
    taps = _taps(fields)
    keys = Part(kv_heads, head)
    pieces.linear(
        "attn.qkvr",
        hidden,
        (Part(heads, head), keys, keys, Part(heads, relative)),
        bias=fields.flag("q_bias"),
        shards=("wq_du", "wk_dv", "wv_dv", "wr_du"),
    )
    pieces.linear("attn.wo_ud", heads * head, hidden, "row", input_units=heads)
    pieces.vectors += [Vector(relative * extent), *[Vector(kv_heads * head * taps, kv_heads)] * 2]
    pieces.vectors += [Vector(hidden * taps, hidden)] * 2
    pieces.norm(head, 2)
    pieces.norm(hidden, 2)
    kept = 2 * head + 2 * (hidden // kv_heads)
    pieces.caches += [
        AttentionCache(kv_heads, head, head, window if local else 0),
        AttentionCache(kv_heads, 1 << (kept - 1).bit_length(), 0, taps, block=taps),
    ]


def _mixture(fields: Fields, pieces: LayerBuilder, hidden: int, width: int) -> None:
    """Routed experts and shared ones, which no format quantizes; one router for both, its rows padded to eight."""
    experts = fields.integer("n_routed_experts", high=MOST_EXPERTS)
    shared = fields.integer("n_shared_experts", high=MOST_EXPERTS)
    rows = -(-(experts + shared) // 8) * 8
    pieces.linear("mlp.gate", hidden, rows, "none", quantizable=False)
    if fields.flag("use_global_scale"):
        pieces.vectors.append(Vector(1, float32=True))
    top_k = fields.integer("num_experts_per_tok", default=1, high=MOST_EXPERTS)
    pieces.experts(hidden, width, experts, top_k, router="", correction=fields.flag("use_gate_bias"))
    pieces.mlp(hidden, shared * width, prefix="mlp.shared_experts.", quantizable=False)
