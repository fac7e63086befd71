"""DeepSeek V4: compressed sparse attention over a window, hyper-connections, fp4 experts (vLLM models/deepseek_v4).

KV layout of the packed fp8 form: 584 bytes a token (448 fp8 + 128 rope bf16 + 8 scales), pages aligned to 576 bytes.
"""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import HEADS, MOST_HEADS, Body, read_layers
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.latent import routed
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.quantizer import MXFP4
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.facts import LatentCache, Part, RotaryCache, Vector

_WINDOW_BLOCK = 64
_STATE_BLOCKS = {4: 4, 128: 8}
"""Tokens per block of a compressor's state, by compression ratio (its page must fit the KV page)."""


def read_deepseek_v4(fields: Fields, builder: Builder) -> Body:
    """Body of DeepSeek V4 Flash and Pro."""
    hidden, count = fields.integer("hidden_size"), read_layers(fields)
    heads = fields.integer(*HEADS, high=MOST_HEADS)
    head_dim, rope = fields.integer("head_dim"), fields.integer("qk_rope_head_dim")
    q_lora, o_lora = fields.integer("q_lora_rank"), fields.integer("o_lora_rank")
    groups = fields.integer("o_groups", high=MOST_HEADS)
    ratios = fields.integers("compress_ratios")
    ratio = [max(1, ratios[i]) if i < len(ratios) else 1 for i in range(count)]
    hashed = fields.integer("num_hash_layers", default=0, low=0)
    streams = fields.integer("hc_mult", default=4, high=64)

    def attention(index: int, pieces: LayerBuilder) -> None:
        pieces.linear("attn.fused_wqa_wkv", hidden, (Part(q_lora), Part(head_dim)), "none", shards=("wq_a", "wkv"))
        pieces.norm(q_lora)
        pieces.norm(head_dim)
        pieces.linear("attn.wq_b", q_lora, (Part(heads, head_dim),))
        pieces.linear("attn.wo_a", heads * head_dim // groups, (Part(groups, o_lora),))
        pieces.linear("attn.wo_b", groups * o_lora, hidden, "row", input_units=groups)
        pieces.vectors.append(Vector(heads, heads, float32=True))
        window = fields.integer("sliding_window")
        pieces.caches.append(
            LatentCache(head_dim, kind="window", fp8_bytes=584, window=window, block=_WINDOW_BLOCK, alignment=576)
        )
        if ratio[index] > 1:
            pieces.caches.append(
                LatentCache(head_dim, kind="compressed", fp8_bytes=584, stride=ratio[index], alignment=576)
            )
            _compressor(pieces, hidden, head_dim, ratio[index], "attn.compressor")
        if ratio[index] == 4:
            dim, scorers = fields.integer("index_head_dim"), fields.integer("index_n_heads", high=MOST_HEADS)
            pieces.linear("attn.indexer.wq_b", q_lora, dim * scorers, "none")
            pieces.linear("attn.indexer.weights_proj", hidden, scorers, "none", quantizable=False)
            bytes_per_entry = dim + -(-dim // 128) * 4
            pieces.caches.append(
                LatentCache(dim, kind="indexer", fixed_bytes=bytes_per_entry, stride=ratio[index], alignment=576)
            )
            _compressor(pieces, hidden, dim, ratio[index], "attn.indexer.compressor")

    def make(index: int, pieces: LayerBuilder) -> None:
        attention(index, pieces)
        routed(fields, hidden, index, pieces, correction=index >= hashed)
        if index < hashed:
            entries = fields.integer("vocab_size") * fields.integer("num_experts_per_tok")
            pieces.vectors.append(Vector(entries, float32=True))
        if fields.text("expert_dtype") == "fp4" and builder.quantizer is not None:
            pieces.experts_ = [
                replace(experts, scheme=MXFP4 if experts.scheme and experts.scheme.bits == 8 else experts.scheme)
                for experts in pieces.experts_
            ]
        pieces.norm(hidden, 2)
        mixed = (2 + streams) * streams
        pieces.vectors += [Vector(mixed * streams * hidden, float32=True)] * 2 + [Vector(mixed, float32=True)] * 2

    ends = builder.single()
    ends.norm(hidden)
    ends.vectors.append(Vector(streams * streams * hidden, float32=True))
    (table,) = rotary_caches(fields, rope, width=rope)[:1]
    return Body(
        builder.layers(count, lambda index: (ratio[index], index < hashed), make),
        hidden,
        fields.integer("moe_intermediate_size"),
        fields.integer("vocab_size"),
        heads,
        1,
        head_dim,
        extra=(ends.layer(),),
        tied=fields.flag("tie_word_embeddings"),
        rotary=(RotaryCache(table.positions, rope, float32=True, count=2),),
        token_buffers=4 * fields.integer("index_topk", default=512) + 2 * streams * hidden,
        streams=streams,
        traits=frozenset({"moe", "mla", "dsa", "sliding"}),
    )


def _compressor(pieces: LayerBuilder, hidden: int, dim: int, ratio: int, name: str) -> None:
    """What folds `ratio` tokens into one entry: a projection, positions, and a float32 state of open groups."""
    fold = 2 if ratio == 4 else 1
    parts = (Part(fold * dim), Part(fold * dim))
    pieces.linear(name + ".fused_wkv_wgate", hidden, parts, "none", quantizable=False)
    pieces.vectors.append(Vector(ratio * fold * dim, float32=True))
    pieces.norm(dim)
    state_bytes = 2 * fold * dim * 4
    pieces.caches.append(
        LatentCache(
            2 * fold * dim,
            kind="state",
            fixed_bytes=state_bytes,
            window=fold * ratio,
            block=_STATE_BLOCKS.get(ratio, 8),
            alignment=576,
        )
    )
