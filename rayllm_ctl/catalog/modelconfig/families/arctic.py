"""Arctic: every second layer has experts, and beside them a small dense block of its own (arctic.py of vLLM 0.20)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_EXPERTS, TOP_K, Body, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.uneven import uneven_body
from rayllm_ctl.catalog.modelconfig.fields import Fields


def read_arctic(fields: Fields, builder: Builder) -> Body:
    """The body of Arctic. The dense block beside the experts is as narrow as the model and never quantized."""
    sizes = read_sizes(fields)
    every = fields.integer("moe_layer_frequency", default=2)
    mixed = [(index + 1) % every == 0 for index in range(sizes.layers)]
    beside = fields.flag("use_residual")
    width = fields.integer("intermediate_size")
    names, shards = ("w13", "w2"), ("w1", "w3")

    def make(index: int, pieces: LayerBuilder) -> None:
        pieces.attention(sizes.hidden, sizes.heads, sizes.kv_heads, max(1, sizes.hidden // sizes.heads))
        if mixed[index]:
            pieces.experts(
                sizes.hidden,
                width,
                fields.integer("num_local_experts", high=MOST_EXPERTS),
                fields.integer(*TOP_K, high=MOST_EXPERTS),
                name="block_sparse_moe.experts",
                router="block_sparse_moe.gate",
            )
            if beside:
                pieces.mlp(
                    sizes.hidden, sizes.hidden, prefix="residual_mlp.", names=names, shards=shards, quantizable=False
                )
                pieces.norm(sizes.hidden)
        else:
            pieces.mlp(sizes.hidden, width, prefix="block_sparse_moe.mlp.", names=names, shards=shards)
        pieces.norm(sizes.hidden, 2)

    layers = builder.layers(sizes.layers, lambda index: mixed[index], make)
    return uneven_body(fields, builder, sizes, layers, width, {"moe"})
