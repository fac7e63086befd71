"""Qwen 4 Exp: Qwen3.5's mixers on parallel residual streams, sparse attention, tables of runs of tokens.

Layout from vLLM 0.29's models/qwen4_exp. Not counted: a scratch of 8 bytes for each of max_num_seqs times
max_num_batched_tokens entries that a layer with a table holds.
"""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import MOST_EXPERTS, MOST_HEADS, Body, Sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.moe import sparse_step
from rayllm_ctl.catalog.modelconfig.families.primes import primes_from
from rayllm_ctl.catalog.modelconfig.families.recurrent import attending, hybrid_body, qwen_mixer, qwen_next_mixture
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rope_parameters
from rayllm_ctl.model.facts import AttentionCache, LatentCache, Layer, Part, Scheme, StateCache

_FP8_TABLE = Scheme("fp8", 8, floating=True, group=-1, scale_bytes=2)
"""One bfloat16 scale for the whole table, in checkpoints of plain fp8."""


def read_qwen4(fields: Fields, builder: Builder) -> Body:
    """The body of Qwen 4 Exp."""
    sizes = read_sizes(fields)
    full = attending(fields, sizes.layers)
    sparse = fields.has("indexer_n_heads")
    experts = fields.integer("num_experts", default=0, low=0, high=MOST_EXPERTS)
    dense = [sparse_step(fields, index) for index in range(sizes.layers)]
    streams = fields.integer("hc_count", default=4, low=2, high=64)
    ids = fields.integers("ple_layer_ids", low=1, high=sizes.layers)
    tables = sorted({number - 1 for number in ids})

    def make(index: int, pieces: LayerBuilder) -> None:
        if index in tables:
            _run_embedding(fields, pieces, sizes.hidden, streams)
        if full[index] and sparse:
            _sparse_attention(fields, sizes, pieces)
        else:
            qwen_mixer(fields, sizes, pieces, full=full[index])
        if dense[index]:
            pieces.mlp(sizes.hidden, fields.integer("intermediate_size"))
        else:
            qwen_next_mixture(fields, pieces, sizes.hidden)
        for place in ("attn", "mlp"):
            _streams(fields, pieces, sizes.hidden, streams, f"{place}_hyper_connection.")

    body = hybrid_body(
        fields,
        builder,
        make,
        lambda index: (full[index], dense[index], index in tables),
        intermediate=fields.integer("moe_intermediate_size" if experts else "intermediate_size"),
        traits={"hybrid"} | ({"moe"} if experts else set()),
    )
    chosen = fields.integer("indexer_budget") + fields.integer("indexer_compress_ratio") - 1 if sparse else 0
    ends = builder.single()
    _streams(fields, ends, sizes.hidden, streams, "hyper_connection_mixer.", last=True)
    return replace(
        body,
        extra=(ends.layer(), *(_table(fields, builder, index, order) for order, index in enumerate(tables))),
        tied=False,
        token_buffers=4 * chosen * sum(full) + 8 * len(tables),
        streams=streams,
        single_stage=bool(tables),
    )


def _streams(fields: Fields, pieces: LayerBuilder, hidden: int, count: int, name: str, *, last: bool = False) -> None:
    """What mixes the streams for one block and, but for the last, feeds its output back: rows padded to 16."""
    rank = fields.integer("hc_lowrank", default=320)
    rows = rank if last else -(-(rank + count) // 16) * 16
    pieces.norm(count * hidden)
    pieces.linear(name + "down", count * hidden, rows, "none", quantizable=False)
    pieces.linear(name + "up", rank, count * hidden, "none", quantizable=False)


def _sparse_attention(fields: Fields, sizes: Sizes, pieces: LayerBuilder) -> None:
    """Gated attention to the tokens that a small scorer chooses. The scorer caches a key for each group of tokens, and
    the keys of the group that is still open, with their positions where these have three axes."""
    heads, dim = fields.integer("indexer_n_heads", high=MOST_HEADS), fields.integer("indexer_head_dim")
    ratio = fields.integer("indexer_compress_ratio", high=2**16)
    keys = Part(sizes.kv_heads, sizes.head_dim, replicable=True)
    quantizer = pieces.builder.quantizer
    plain = quantizer is not None and quantizer.method == "modelopt_fp4"
    pieces.linear(
        "self_attn.qkv_proj",
        sizes.hidden,
        (Part(2 * sizes.heads, sizes.head_dim), keys, keys),
        shards=("q_proj", "k_proj", "v_proj"),
        quantizable=not plain,
    )
    pieces.linear("self_attn.o_proj", sizes.heads * sizes.head_dim, sizes.hidden, "row", input_units=sizes.heads)
    pieces.norm(sizes.head_dim, 2)
    pieces.linear("self_attn.indexer.index_qk_proj", sizes.hidden, (heads + 1) * dim, "none")
    pieces.norm(dim, 2)
    axes = any(parameters.has("mrope_section") for parameters in rope_parameters(fields))
    open_key = -(-dim // 4) * 4 + 12 if axes else dim
    pieces.caches += [
        AttentionCache(sizes.kv_heads, sizes.head_dim, sizes.head_dim),
        LatentCache(open_key, kind="ring", window=ratio, block=ratio),
        LatentCache(dim, kind="pooled", stride=ratio),
    ]


def _run_embedding(fields: Fields, pieces: LayerBuilder, hidden: int, streams: int) -> None:
    """What brings the embedding of the last few tokens into the streams: projections and a convolution with gaps."""
    width = fields.integer("ple_embed_dim", default=hidden)
    taps = fields.integer("ple_conv_kernel_size", default=4, high=64)
    wide = streams * hidden
    pieces.linear("ple.key_proj", width, wide, "none")
    pieces.linear("ple.value_proj", width, hidden, "none")
    pieces.norm(wide, 3)
    pieces.linear("ple.conv1d", taps, wide, "none", quantizable=False)
    gap = fields.integer("ngram_size", default=3, low=2, high=64)
    pieces.caches.append(StateCache("short_conv", conv=(wide, (taps - 1) * gap), replicated=True))


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
    pieces = builder.single(f"layers.{index}.ple.ple_embedding.")
    quantizer = builder.quantizer
    name = "ngram_embedding"
    stored = pieces.scheme((name, name + ".shard_0")) if quantizer and quantizer.method == "fp8" else None
    pieces.linear(name, width // heads, -(-rows // multiple) * multiple, quantizable=False)
    pieces.linears = [replace(pieces.linears[0], scheme=_FP8_TABLE if stored and not stored.online else None)]
    pieces.passes = 0
    return pieces.layer()
