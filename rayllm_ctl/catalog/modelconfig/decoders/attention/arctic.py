"""Arctic: every second layer has experts, and beside them a small dense block of its own (arctic.py of vLLM 0.20)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import read_even_sizes
from rayllm_ctl.catalog.modelconfig.decoders.decoder import feed_forward
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext, MoESpec

_NAMES, _SHARDS = ("w13", "w2"), ("w1", "w3")


def _blocks(context: LayerContext) -> None:
    """The dense block beside the experts is as narrow as the model and never quantized."""
    feed_forward(context)
    hidden, layer = context.sizes.hidden, context.layer
    if not context.is_dense and context.fields.flag("use_residual"):
        layer.mlp(hidden, hidden, prefix="residual_mlp.", names=_NAMES, shards=_SHARDS, quantizable=False)
        layer.norm(hidden)


ROWS = {
    "ArcticForCausalLM": DecoderSpec(
        sizes=read_even_sizes, windowed=False, mlp="block_sparse_moe.mlp.", mlp_names=_NAMES, mlp_shards=_SHARDS,
        intermediate=("intermediate_size",), feed_forward=_blocks,
        moe=MoESpec(
            intermediate=("intermediate_size",), experts=("num_local_experts",), top_k_default=None,
            dense=lambda fields, index: (index + 1) % fields.integer("moe_layer_frequency", default=2) != 0,
            name="block_sparse_moe.experts", router="block_sparse_moe.gate",
        ),
    ),
}  # fmt: skip
