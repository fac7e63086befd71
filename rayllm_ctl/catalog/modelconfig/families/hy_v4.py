"""Hunyuan 4: gated latent attention, sparse in some layers, on parallel residual streams (vLLM 0.29's models/hy_v4)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import Body, read_layers
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.latent import LatentSizes, indexer, latent_attention, routed
from rayllm_ctl.catalog.modelconfig.families.uneven import final_norm
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.facts import Part, Vector

_SPARSE = ("sparse_attention", "sparse", "deepseek_sparse_attention")


def read_hy_v4(fields: Fields, builder: Builder) -> Body:
    """The body of Hunyuan 4. A sparse layer scores for itself or shares the choice of the one before it."""
    sizes, count = LatentSizes(fields), read_layers(fields)
    kinds, scorers = fields.texts("layer_types"), fields.texts("indexer_types")
    blocks = fields.texts("mlp_layer_types")
    sparse = [i < len(kinds) and kinds[i] in _SPARSE for i in range(count)]
    own = [scorers[i] == "full" if i < len(scorers) else i == 0 or i % 4 == 1 for i in range(count)]
    dense = [blocks[i] == "dense" if i < len(blocks) else i == 0 for i in range(count)]
    streams = fields.integer("hc_mult", default=4, high=64) if fields.flag("enable_ihc") else 1
    gates = {"headwise": 1, "elementwise": sizes.value}
    gate = gates.get(fields.text("gating_type"), 0) if fields.flag("gated_mla") else 0
    intermediate = fields.integer("intermediate_size")

    def make(index: int, pieces: LayerBuilder) -> None:
        latent_attention(sizes, pieces)
        if sparse[index] and own[index]:
            indexer(fields, sizes, pieces)
        if gate:
            pieces.linear("self_attn.linear_gate", sizes.hidden, (Part(sizes.heads, gate),))
        if fields.flag("learnable_sink"):
            pieces.vectors.append(Vector(sizes.heads, sizes.heads, float32=True))
        if dense[index]:
            pieces.mlp(sizes.hidden, intermediate)
        else:
            routed(fields, sizes.hidden, index, pieces, correction=True, router_float32=True)
        pieces.norm(sizes.hidden, 2)
        if streams > 1:
            mixed = 2 * streams
            pieces.vectors += [Vector(mixed * streams * sizes.hidden + mixed + 2, float32=True)] * 2

    ends = builder.single()
    if streams > 1:
        ends.vectors.append(Vector(streams * streams * sizes.hidden + streams + 1, float32=True))
    scored = any(sparse)
    return Body(
        builder.layers(count, lambda index: (sparse[index] and own[index], dense[index]), make),
        sizes.hidden,
        intermediate,
        fields.integer("vocab_size"),
        sizes.heads,
        1,
        sizes.width,
        extra=(*final_norm(sizes.hidden, builder), ends.layer()),
        tied=fields.flag("tie_word_embeddings"),
        rotary=rotary_caches(fields, sizes.rope, width=sizes.rope),
        token_buffers=4 * fields.integer("index_topk") if scored else 0,
        streams=streams,
        traits=frozenset({"mla", "moe"} | ({"dsa"} if scored else set())),
    )
