"""Decoders with layers left out or looking elsewhere: Nemotron NAS (DeciLM), Llama 3.2 Vision."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import (
    MOST_HEADS,
    Body,
    Sizes,
    read_sizes,
)
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.uneven import uneven_body
from rayllm_ctl.catalog.modelconfig.fields import Fields


def read_deci(fields: Fields, builder: Builder) -> Body:
    """Nemotron NAS (Llama Nemotron Super and Ultra): blocks without attention or with narrower feed-forwards."""
    sizes = read_sizes(fields)
    blocks = fields.objects("block_configs")
    if not blocks:
        raise fields.missing("block_configs")

    def width(block: Fields) -> int:
        ffn = block.child("ffn")
        if ffn.flag("no_op") or ffn.flag("replace_with_linear"):
            return 0
        if ffn.has("intermediate_size"):
            return ffn.integer("intermediate_size")
        scaled = int(2 * ffn.number("ffn_mult", default=4.0) * sizes.hidden / 3)
        return -(-scaled // 256) * 256

    def group(block: Fields) -> int:
        attention = block.child("attention")
        if attention.flag("no_op") or attention.flag("replace_with_linear"):
            return 0
        return attention.integer("n_heads_in_group", default=max(1, sizes.heads // sizes.kv_heads), high=MOST_HEADS)

    kinds = [(group(block), width(block)) for block in blocks[: sizes.layers]]
    kinds += [kinds[-1]] * (sizes.layers - len(kinds))

    def make(index: int, pieces: LayerBuilder) -> None:
        heads_in_group, intermediate = kinds[index]
        if heads_in_group:
            pieces.attention(sizes.hidden, sizes.heads, max(1, sizes.heads // heads_in_group), sizes.head_dim)
            pieces.norm(sizes.hidden)
        if intermediate:
            pieces.mlp(sizes.hidden, intermediate)
            pieces.norm(sizes.hidden)

    layers = builder.layers(sizes.layers, lambda index: kinds[index], make)
    kv_heads = max((sizes.heads // heads for heads, _ in kinds if heads), default=1)
    sizes = Sizes(sizes.hidden, sizes.layers, sizes.heads, kv_heads, sizes.head_dim, sizes.vocab)
    return uneven_body(fields, builder, sizes, layers, max(intermediate for _, intermediate in kinds), set())


def read_mllama(fields: Fields, builder: Builder) -> Body:
    """Llama 3.2 Vision: Llama 3.1 with layers that attend to the image (they keep no keys of the text)."""
    sizes = read_sizes(fields)
    crossing = set(fields.integers("cross_attention_layers") or (3, 8, 13, 18, 23, 28, 33, 38))
    intermediate = fields.integer("intermediate_size")

    def make(index: int, pieces: LayerBuilder) -> None:
        crosses = index in crossing
        pieces.attention(
            sizes.hidden,
            sizes.heads,
            sizes.kv_heads,
            sizes.head_dim,
            norm="head" if crosses else "",
            prefix="cross_attn." if crosses else "self_attn.",
            cached=not crosses,
        )
        pieces.mlp(sizes.hidden, intermediate)
        pieces.norm(sizes.hidden, 2)

    layers = builder.layers(sizes.layers, lambda index: index in crossing, make)
    return uneven_body(fields, builder, sizes, layers, intermediate, set())
