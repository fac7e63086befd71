"""Qwen 4 Exp: Qwen3.5's mixers on parallel residual streams, sparse attention, tables of runs of tokens.

Layout from vLLM 0.29's models/qwen4_exp. Not counted: a scratch of 8 bytes for each of max_num_seqs times
max_num_batched_tokens entries that a layer with a table holds.
"""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS, Body, read_layers
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention, feed_forward
from rayllm_ctl.catalog.modelconfig.decoders.hybrid import QWEN_NEXT, qwen_layers
from rayllm_ctl.catalog.modelconfig.decoders.mixers import delta_net
from rayllm_ctl.catalog.modelconfig.decoders.recurrent.qwen4_tables import primes_from
from rayllm_ctl.catalog.modelconfig.decoders.spec import LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rope_parameters
from rayllm_ctl.model.plan.facts import AttentionCache, LatentCache, Layer, Part, Scheme, StateCache

_FP8_TABLE = Scheme("fp8", 8, floating=True, group=-1, scale_bytes=2)
"""One bfloat16 scale for the whole table, in checkpoints of plain fp8."""


def _streams(fields: Fields) -> int:
    return fields.integer("hc_count", default=4, low=2, high=64)


def _tables(fields: Fields) -> list[int]:
    """Layers that look up runs of tokens."""
    return sorted({number - 1 for number in fields.integers("ple_layer_ids", low=1, high=read_layers(fields))})


def _is_sparse(fields: Fields) -> bool:
    return fields.has("indexer_n_heads")


def _mixer(context: LayerContext) -> None:
    if context.layer_index in _tables(context.fields):
        _run_embedding(context)
    if not context.kind:
        delta_net(context)
    elif _is_sparse(context.fields):
        _sparse_attention(context)
    else:
        attention(context)


def _blocks(context: LayerContext) -> None:
    if context.is_dense:
        context = context._replace(intermediate=context.fields.integer("intermediate_size"))
    feed_forward(context)
    for place in ("attn", "mlp"):
        _mix_streams(context.fields, context.layer, context.sizes.hidden, f"{place}_hyper_connection.")


def _mix_streams(fields: Fields, layer: LayerBuilder, hidden: int, name: str, *, last: bool = False) -> None:
    """What mixes the streams for one block and, but for the last, feeds its output back: rows padded to 16."""
    count, rank = _streams(fields), fields.integer("hc_lowrank", default=320)
    rows = rank if last else -(-(rank + count) // 16) * 16
    layer.norm(count * hidden)
    layer.linear(name + "down", count * hidden, rows, "none", quantizable=False)
    layer.linear(name + "up", rank, count * hidden, "none", quantizable=False)


def _sparse_attention(context: LayerContext) -> None:
    """Gated attention to the tokens that a small scorer chooses. The scorer caches a key for each group of tokens, and
    the keys of the group that is still open, with their positions where these have three axes."""
    fields, sizes, layer = context.fields, context.sizes, context.layer
    heads, dim = fields.integer("indexer_n_heads", high=MOST_HEADS), fields.integer("indexer_head_dim")
    ratio = fields.integer("indexer_compress_ratio", high=2**16)
    keys = Part(sizes.kv_heads, sizes.head_dim, replicable=True)
    quantizer = layer.builder.quantizer
    plain = quantizer is not None and quantizer.method in ("modelopt_fp4", "modelopt_mixed")
    parts, shards = (Part(2 * sizes.heads, sizes.head_dim), keys, keys), ("q_proj", "k_proj", "v_proj")
    layer.linear("self_attn.qkv_proj", sizes.hidden, parts, shards=shards, quantizable=not plain)
    layer.linear("self_attn.o_proj", sizes.heads * sizes.head_dim, sizes.hidden, "row", input_units=sizes.heads)
    layer.norm(sizes.head_dim, 2)
    layer.linear("self_attn.indexer.index_qk_proj", sizes.hidden, (heads + 1) * dim, "none")
    layer.norm(dim, 2)
    axes = any(parameters.has("mrope_section") for parameters in rope_parameters(fields))
    open_key = -(-dim // 4) * 4 + 12 if axes else dim
    layer.caches += [
        AttentionCache(sizes.kv_heads, sizes.head_dim, sizes.head_dim),
        LatentCache(open_key, kind="ring", window=ratio, block=ratio),
        LatentCache(dim, kind="pooled", stride=ratio),
    ]


def _run_embedding(context: LayerContext) -> None:
    """What brings the embedding of the last few tokens into the streams: projections and a convolution with gaps."""
    fields, layer, hidden, streams = context.fields, context.layer, context.sizes.hidden, _streams(context.fields)
    width = fields.integer("ple_embed_dim", default=hidden)
    taps = fields.integer("ple_conv_kernel_size", default=4, high=64)
    wide = streams * hidden
    layer.linear("ple.key_proj", width, wide, "none")
    layer.linear("ple.value_proj", width, hidden, "none")
    layer.norm(wide, 3)
    layer.linear("ple.conv1d", taps, wide, "none", quantizable=False)
    gap = fields.integer("ngram_size", default=3, low=2, high=64)
    layer.caches.append(StateCache("short_conv", conv=(wide, (taps - 1) * gap), replicated=True))


def _table(fields: Fields, builder: Builder, index: int, order: int) -> Layer:
    """The rows that layer `index` looks up, the `order`-th to do so: each head has as many as its own prime number."""
    runs = fields.integer("ngram_size", default=3, low=2, high=64) - 1
    heads = runs * fields.integer("heads_per_ngram", default=8, high=256)
    width = fields.integer("ple_embed_dim", "hidden_size")
    if width % heads:
        raise fields.wrong("ple_embed_dim", width, f"a multiple of {heads} (heads_per_ngram times ngram_size - 1)")
    multiple = fields.integer("make_ngram_vocab_size_divisible_by", default=128, high=2**20)
    least = fields.integer("ngram_vocab_size_base", default=20_000_000, high=2**32)
    rows = sum(primes_from(least, (order + 1) * heads)[order * heads :])
    table = builder.single(f"layers.{index}.ple.ple_embedding.")
    quantizer = builder.quantizer
    name = "ngram_embedding"
    stored = table.scheme((name, name + ".shard_0")) if quantizer and quantizer.method == "fp8" else None
    table.linear(name, width // heads, -(-rows // multiple) * multiple, quantizable=False)
    table.linears = [replace(table.linears[0], scheme=_FP8_TABLE if stored and not stored.online else None)]
    table.passes = 0
    return table.layer()


def _intermediate(fields: Fields) -> int:
    experts = fields.integer("num_experts", default=0, low=0)
    return fields.integer("moe_intermediate_size" if experts else "intermediate_size")


def _ends(body: Body, fields: Fields, builder: Builder) -> Body:
    tables, full = _tables(fields), sum(qwen_layers(fields, body.sizes))
    chosen = 0
    if _is_sparse(fields):
        chosen = fields.integer("indexer_budget") + fields.integer("indexer_compress_ratio") - 1
    ends = builder.single()
    _mix_streams(fields, ends, body.sizes.hidden, "hyper_connection_mixer.", last=True)
    return body._replace(
        extra=(ends.layer(), *(_table(fields, builder, index, order) for order, index in enumerate(tables))),
        token_buffers=4 * chosen * full + 8 * len(tables),
        streams=_streams(fields),
        single_stage=bool(tables),
    )


ROWS = {
    "Qwen4ExpForCausalLM": QWEN_NEXT._replace(
        mixers=None, mixer=_mixer, varies=lambda fields, index: index in _tables(fields), feed_forward=_blocks,
        intermediate=_intermediate, norms=0, untied=True, finish=_ends,
    ),
}  # fmt: skip
