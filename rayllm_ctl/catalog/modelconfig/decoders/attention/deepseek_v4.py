"""DeepSeek V4: compressed sparse attention over a window, hyper-connections, fp4 experts (vLLM models/deepseek_v4).

KV layout of the packed fp8 form: 584 bytes a token (448 fp8 + 128 rope bf16 + 8 scales), pages aligned to 576 bytes.
"""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import HEADS, MOST_HEADS, Body, Sizes, read_layers
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.decoders.decoder import experts
from rayllm_ctl.catalog.modelconfig.decoders.latent import DEEPSEEK_MOE
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.quantizer import MXFP4
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.plan.facts import LatentCache, Part, RotaryCache, Vector

_WINDOW_BLOCK = 64
_STATE_BLOCKS = {4: 4, 128: 8}
"""Tokens per block of a compressor's state, by compression ratio (its page must fit the KV page)."""


def _sizes(fields: Fields) -> Sizes:
    heads = fields.integer(*HEADS, high=MOST_HEADS)
    vocab = fields.integer("vocab_size")
    return Sizes(fields.integer("hidden_size"), read_layers(fields), heads, 1, fields.integer("head_dim"), vocab)


def _ratios(fields: Fields, sizes: Sizes) -> list[int]:
    """Tokens that each layer folds into one entry; 1: it sees the window alone."""
    ratios = fields.integers("compress_ratios")
    return [max(1, ratios[i]) if i < len(ratios) else 1 for i in range(sizes.layers)]


def _is_hashed(fields: Fields, index: int) -> bool:
    """The first layers choose experts by a table of tokens."""
    return index < fields.integer("num_hash_layers", default=0, low=0)


def _streams(fields: Fields) -> int:
    return fields.integer("hc_mult", default=4, high=64)


def _attention(context: LayerContext) -> None:
    fields, layer, hidden = context.fields, context.layer, context.sizes.hidden
    heads, head_dim = context.sizes.heads, context.sizes.head_dim
    q_lora, o_lora = fields.integer("q_lora_rank"), fields.integer("o_lora_rank")
    groups = fields.integer("o_groups", high=MOST_HEADS)
    layer.linear("attn.fused_wqa_wkv", hidden, (Part(q_lora), Part(head_dim)), "none", shards=("wq_a", "wkv"))
    layer.norm(q_lora)
    layer.norm(head_dim)
    layer.linear("attn.wq_b", q_lora, (Part(heads, head_dim),))
    layer.linear("attn.wo_a", heads * head_dim // groups, (Part(groups, o_lora),))
    layer.linear("attn.wo_b", groups * o_lora, hidden, "row", input_units=groups)
    layer.vectors.append(Vector(heads, heads, float32=True))
    window = fields.integer("sliding_window")
    layer.caches.append(
        LatentCache(head_dim, kind="window", fp8_bytes=584, window=window, block=_WINDOW_BLOCK, alignment=576)
    )
    ratio = context.kind
    if not isinstance(ratio, int) or ratio == 1:
        return
    layer.caches.append(LatentCache(head_dim, kind="compressed", fp8_bytes=584, stride=ratio, alignment=576))
    _compressor(layer, hidden, head_dim, ratio, "attn.compressor")
    if ratio == 4:
        dim, scorers = fields.integer("index_head_dim"), fields.integer("index_n_heads", high=MOST_HEADS)
        layer.linear("attn.indexer.wq_b", q_lora, dim * scorers, "none")
        layer.linear("attn.indexer.weights_proj", hidden, scorers, "none", quantizable=False)
        entry = dim + -(-dim // 128) * 4
        layer.caches.append(LatentCache(dim, kind="indexer", fixed_bytes=entry, stride=ratio, alignment=576))
        _compressor(layer, hidden, dim, ratio, "attn.indexer.compressor")


def _experts(context: LayerContext) -> None:
    fields, layer, hidden = context.fields, context.layer, context.sizes.hidden
    hashed, streams = _is_hashed(fields, context.layer_index), _streams(fields)
    experts(context, DEEPSEEK_MOE._replace(correction=not hashed))
    if hashed:
        layer.vectors.append(Vector(context.sizes.vocab * fields.integer("num_experts_per_tok"), float32=True))
    if fields.text("expert_dtype") == "fp4" and layer.builder.quantizer is not None:
        (item,) = layer.experts_
        if item.scheme and item.scheme.bits == 8:
            layer.experts_ = [replace(item, scheme=MXFP4)]
    mixed = (2 + streams) * streams
    layer.vectors += [Vector(mixed * streams * hidden, float32=True)] * 2 + [Vector(mixed, float32=True)] * 2


def _compressor(layer: LayerBuilder, hidden: int, dim: int, ratio: int, name: str) -> None:
    """What folds `ratio` tokens into one entry: a projection, positions, and a float32 state of open groups."""
    fold = 2 if ratio == 4 else 1
    parts = (Part(fold * dim), Part(fold * dim))
    layer.linear(name + ".fused_wkv_wgate", hidden, parts, "none", quantizable=False)
    layer.vectors.append(Vector(ratio * fold * dim, float32=True))
    layer.norm(dim)
    state, block = 2 * fold * dim, _STATE_BLOCKS.get(ratio, 8)
    layer.caches.append(
        LatentCache(state, kind="state", fixed_bytes=state * 4, window=fold * ratio, block=block, alignment=576)
    )


def _tables(fields: Fields, _sizes: Sizes) -> tuple[RotaryCache, ...]:
    rope = fields.integer("qk_rope_head_dim")
    table = rotary_caches(fields, rope, width=rope)[0]
    return (RotaryCache(table.positions, rope, float32=True, count=2),)


def _with_streams(body: Body, fields: Fields, builder: Builder) -> Body:
    hidden, streams = body.sizes.hidden, _streams(fields)
    ends = builder.single()
    ends.vectors.append(Vector(streams * streams * hidden, float32=True))
    buffers = 4 * fields.integer("index_topk", default=512) + 2 * streams * hidden
    return body._replace(extra=(*body.extra, ends.layer()), token_buffers=buffers, streams=streams)


ROWS = {
    "DeepseekV4ForCausalLM": DecoderSpec(
        mixer=_attention, kinds=_ratios, windowed=False, varies=_is_hashed, feed_forward=_experts, sizes=_sizes,
        intermediate=("moe_intermediate_size",), tables=_tables, finish=_with_streams,
    ),
}  # fmt: skip
