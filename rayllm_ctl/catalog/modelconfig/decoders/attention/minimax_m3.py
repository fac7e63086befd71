"""MiniMax M3: block-sparse attention with a cache for its index heads, experts with a shared one."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS, Sizes
from rayllm_ctl.catalog.modelconfig.decoders.decoder import feed_forward
from rayllm_ctl.catalog.modelconfig.decoders.patterns import first_dense
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext, MoESpec
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import AttentionCache, LatentCache, Part


def _scored_layers(fields: Fields, sizes: Sizes) -> list[bool]:
    frequency = fields.child("sparse_attention_config").integers("sparse_attention_freq")
    return [i < len(frequency) and bool(frequency[i]) for i in range(sizes.layers)]


def _attention(context: LayerContext) -> None:
    sizes, layer = context.sizes, context.layer
    sparse = context.fields.child("sparse_attention_config")
    keys = Part(sizes.kv_heads, sizes.head_dim, replicable=True)
    parts = [Part(sizes.heads, sizes.head_dim), keys, keys]
    layer.caches.append(AttentionCache(sizes.kv_heads, sizes.head_dim, sizes.head_dim))
    heads = sparse.integer("sparse_num_index_heads", default=4, high=MOST_HEADS)
    dim = sparse.integer("sparse_index_dim", default=128)
    if context.kind:
        parts += [Part(heads, dim, replicable=True), Part(1, dim, replicable=True)]
        layer.norm(dim, 2)
        layer.caches.append(LatentCache(dim, kind="indexer"))
    layer.linear("self_attn.qkv_proj", sizes.hidden, tuple(parts), shards=("q_proj", "k_proj", "v_proj"))
    width = sizes.heads * sizes.head_dim
    layer.linear("self_attn.o_proj", width, sizes.hidden, "row", input_units=sizes.heads)
    layer.norm(sizes.head_dim, 2)


def _blocks(context: LayerContext) -> None:
    """The dense blocks have a width of their own; what the engine sizes buffers by is that of an expert."""
    fields = context.fields
    width = fields.integer("dense_intermediate_size", "intermediate_size") if context.is_dense else 0
    feed_forward(context._replace(intermediate=width))


_M3 = DecoderSpec(
    kinds=_scored_layers, windowed=False, mixer=_attention, feed_forward=_blocks,
    intermediate=("moe_intermediate_size", "intermediate_size"),
    moe=MoESpec(
        intermediate=("moe_intermediate_size", "intermediate_size"), experts=("num_local_experts",), top_k_default=None,
        dense=first_dense, name="block_sparse_moe.experts", router="block_sparse_moe.gate", router_float32=True,
        correction=True, shared_count=("n_shared_experts",), shared_name="block_sparse_moe.shared_experts",
    ),
)  # fmt: skip

ROWS = {"MiniMaxM3SparseForCausalLM": _M3, "MiniMaxM3ForCausalLM": _M3}
