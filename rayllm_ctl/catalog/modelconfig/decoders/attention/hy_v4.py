"""Hunyuan 4: gated latent attention, sparse in some layers, on parallel residual streams (vLLM 0.29's models/hy_v4)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import Body, Sizes, read_layers
from rayllm_ctl.catalog.modelconfig.builder import Builder
from rayllm_ctl.catalog.modelconfig.decoders.decoder import feed_forward
from rayllm_ctl.catalog.modelconfig.decoders.latent import DEEPSEEK_MOE, LATENT, indexer, latent_attention, latent_sizes
from rayllm_ctl.catalog.modelconfig.decoders.spec import LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import Part, Vector

_SPARSE = ("sparse_attention", "sparse", "deepseek_sparse_attention")


def _sparse_layers(fields: Fields, count: int) -> list[bool]:
    kinds = fields.texts("layer_types")
    return [index < len(kinds) and kinds[index] in _SPARSE for index in range(count)]


def _scoring_layers(fields: Fields, sizes: Sizes) -> list[bool]:
    """A sparse layer scores for itself or shares the choice of the one before it."""
    scorers, sparse = fields.texts("indexer_types"), _sparse_layers(fields, sizes.layers)
    own = [scorers[i] == "full" if i < len(scorers) else i == 0 or i % 4 == 1 for i in range(sizes.layers)]
    return [chosen and scoring for chosen, scoring in zip(sparse, own, strict=True)]


def _dense(fields: Fields, index: int) -> bool:
    blocks = fields.texts("mlp_layer_types")
    return blocks[index] == "dense" if index < len(blocks) else index == 0


def _streams(fields: Fields) -> int:
    return fields.integer("hc_mult", default=4, high=64) if fields.flag("enable_ihc") else 1


def _attention(context: LayerContext) -> None:
    fields, layer = context.fields, context.layer
    sizes = latent_sizes(fields)
    latent_attention(context)
    if context.kind:
        indexer(context)
    gate = {"headwise": 1, "elementwise": sizes.value}.get(fields.text("gating_type"), 0)
    if gate and fields.flag("gated_mla"):
        layer.linear("self_attn.linear_gate", sizes.hidden, (Part(sizes.heads, gate),))
    if fields.flag("learnable_sink"):
        layer.vectors.append(Vector(sizes.heads, sizes.heads, float32=True))


def _blocks(context: LayerContext) -> None:
    feed_forward(context)
    streams = _streams(context.fields)
    if streams > 1:
        mixed = 2 * streams
        size = mixed * streams * context.sizes.hidden + mixed + 2
        context.layer.vectors += [Vector(size, float32=True)] * 2


def _with_streams(body: Body, fields: Fields, builder: Builder) -> Body:
    streams, extra = _streams(fields), body.extra
    if streams > 1:
        ends = builder.single()
        ends.vectors.append(Vector(streams * streams * body.sizes.hidden + streams + 1, float32=True))
        extra = (*extra, ends.layer())
    sparse = any(_sparse_layers(fields, read_layers(fields)))
    buffers = 4 * fields.integer("index_topk") if sparse else 0
    return body._replace(extra=extra, token_buffers=buffers, streams=streams)


ROWS = {
    "HYV4ForCausalLM": LATENT._replace(
        mixer=_attention, kinds=_scoring_layers, feed_forward=_blocks,
        moe=DEEPSEEK_MOE._replace(optional=False, dense=_dense, correction=True, router_float32=True),
        finish=_with_streams,
    ),
}  # fmt: skip
