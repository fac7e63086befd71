"""Inkling: short convolutions on four streams of a layer, relative positions, sliding layers (vLLM 0.29's
models/inkling)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_EXPERTS, Body, Sizes, read_sliding_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder
from rayllm_ctl.catalog.modelconfig.decoders.decoder import dense
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import AttentionCache, Part, Vector

_COLLECTIVE = 2 * 3 * 2
"""Bytes per token and feature that the fused sum of ranks and convolution holds: three buffers in, three out, for four
tokens of a convolution and TP 2, 4 and 8 (nvidia/ops/lamport.py). A bound for other TP."""


def _kinds(fields: Fields, sizes: Sizes) -> list[tuple[bool, bool]]:
    """(sliding, dense) of each layer."""
    local = frozenset(fields.integers("local_layer_ids"))
    first = _first_experts(fields)
    return [(index in local, index < first) for index in range(sizes.layers)]


def _first_experts(fields: Fields) -> int:
    return fields.integer("dense_mlp_idx", default=0, low=0)


def _taps(fields: Fields) -> int:
    return fields.integer("sconv_kernel_size", "conv_kernel_size", default=4, high=64)


def _widths(fields: Fields) -> tuple[int, int]:
    """(of an expert, of a dense block): transformers calls them otherwise than the published files do."""
    width = fields.integer("intermediate_size", default=768)
    if fields.has("moe_intermediate_size") and not fields.has("dense_intermediate_size"):
        return fields.integer("moe_intermediate_size"), width
    return width, fields.integer("dense_intermediate_size", default=width)


def _intermediate(fields: Fields) -> int:
    width, dense_width = _widths(fields)
    return dense_width if _first_experts(fields) else width


def _attention(context: LayerContext) -> None:
    """Attention with a term for the distance, and what the four convolutions keep: the last few tokens of keys, values
    and both outputs, head by head in a width of a power of two."""
    fields, layer = context.fields, context.layer
    local = context.kind in ((True, True), (True, False))
    sizes = read_sliding_sizes(fields, context.sizes) if local else context.sizes
    hidden, heads, kv_heads, head = sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim
    relative = fields.integer("d_rel", default=16)
    window = fields.integer("sliding_window_size", default=512)
    extent = window if local else fields.integer("rel_extent", default=1024)
    taps = _taps(fields)
    keys = Part(kv_heads, head)
    parts, shards = (Part(heads, head), keys, keys, Part(heads, relative)), ("wq_du", "wk_dv", "wv_dv", "wr_du")
    layer.linear("attn.qkvr", hidden, parts, bias=fields.flag("q_bias"), shards=shards)
    layer.linear("attn.wo_ud", heads * head, hidden, "row", input_units=heads)
    layer.vectors += [Vector(relative * extent), *[Vector(kv_heads * head * taps, kv_heads)] * 2]
    layer.vectors += [Vector(hidden * taps, hidden)] * 2
    layer.norm(head, 2)
    layer.norm(hidden, 2)
    kept = 2 * head + 2 * (hidden // kv_heads)
    layer.caches += [
        AttentionCache(kv_heads, head, head, window if local else 0),
        AttentionCache(kv_heads, 1 << (kept - 1).bit_length(), 0, taps, block=taps),
    ]


def _blocks(context: LayerContext) -> None:
    """A dense block, or routed experts and shared ones, which no format quantizes; one router for both, its rows padded
    to eight."""
    fields, layer, hidden = context.fields, context.layer, context.sizes.hidden
    width, dense_width = _widths(fields)
    if context.layer_index < _first_experts(fields):
        dense(context, dense_width)
        layer.norm(1, int(fields.flag("use_global_scale")))
        return
    count = fields.integer("n_routed_experts", high=MOST_EXPERTS)
    shared = fields.integer("n_shared_experts", high=MOST_EXPERTS)
    rows = -(-(count + shared) // 8) * 8
    layer.linear("mlp.gate", hidden, rows, "none", quantizable=False)
    if fields.flag("use_global_scale"):
        layer.vectors.append(Vector(1, float32=True))
    top_k = fields.integer("num_experts_per_tok", default=1, high=MOST_EXPERTS)
    layer.experts(hidden, width, count, top_k, correction=fields.flag("use_gate_bias"))
    layer.mlp(hidden, shared * width, prefix="mlp.shared_experts.", quantizable=False)


def _ends(body: Body, fields: Fields, builder: Builder) -> Body:
    """Every rank holds the whole embedding table."""
    ends = builder.single()
    ends.norm(body.sizes.hidden, 2 if fields.flag("use_embed_norm") else 1)
    buffers = _COLLECTIVE * body.sizes.hidden if _taps(fields) == 4 else 0
    return body._replace(extra=(ends.layer(),), whole_embedding=True, token_buffers=buffers)


ROWS = {
    "InklingForCausalLM": DecoderSpec(
        mixer=_attention, kinds=_kinds, windowed=False, feed_forward=_blocks, intermediate=_intermediate, norms=0,
        untied=True, rotary=False, finish=_ends,
    ),
}  # fmt: skip
