"""Molmo and Molmo 2: embeddings with rows that the output head does not have (vLLM: molmo.py, molmo2.py of 0.29)."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import Body, Sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.uneven import uneven_body
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rope_kind, rope_parameters
from rayllm_ctl.model.facts import RotaryCache

_MARKS = 128
"""Rows of Molmo's embedding for the marks around images and their patches."""


def read_molmo(fields: Fields, builder: Builder) -> Body:
    """Molmo: intermediate_size counts both halves of the gated block, embedding_size the rows of the output head."""
    sizes = read_sizes(fields)
    rows = fields.integer("embedding_size", "vocab_size")
    sizes = replace(sizes, vocab=rows, head_dim=max(1, sizes.hidden // sizes.heads))
    width = fields.integer("intermediate_size", low=2) // 2
    norm = "full-replicated" if fields.flag("attention_layer_norm") else ""
    return _body(fields, builder, sizes, width, norm, _MARKS)


def read_molmo2(fields: Fields, builder: Builder) -> Body:
    """Molmo 2: queries and keys are normalized by heads (as Qwen 3) or over all of them (as OLMo); where only some
    layers stretch their positions, the others have a table of their own."""
    sizes = read_sizes(fields)
    norm = ""
    if fields.flag("use_qk_norm"):
        norm = "head" if fields.text("qk_norm_type", default="olmo") == "qwen3" else "full-replicated"
    marks = fields.integer("additional_vocab_size", default=0, low=0)
    body = _body(fields, builder, sizes, fields.integer("intermediate_size"), norm, marks)
    scaled = set(fields.integers("rope_scaling_layers"))
    scales = any(rope_kind(parameters) != "default" for parameters in rope_parameters(fields))
    if not scales or not fields.has("rope_scaling_layers") or scaled.issuperset(range(sizes.layers)):
        return body
    plain = RotaryCache(fields.integer("max_position_embeddings"), sizes.head_dim)
    return replace(body, rotary=(*(body.rotary or ()), plain))


def _body(fields: Fields, builder: Builder, sizes: Sizes, width: int, norm: str, marks: int) -> Body:
    """`width`: of the feed-forward blocks. `marks`: rows of the embedding beyond the vocabulary."""

    def make(_index: int, pieces: LayerBuilder) -> None:
        pieces.attention(
            sizes.hidden,
            sizes.heads,
            sizes.kv_heads,
            sizes.head_dim,
            bias=fields.flag("qkv_bias"),
            norm=norm,
            shards=("qkv_proj",),
        )
        pieces.mlp(sizes.hidden, width, shards=("gate_up_proj",))
        pieces.norm(sizes.hidden, 2)

    layers = builder.layers(sizes.layers, lambda _index: 0, make)
    body = replace(uneven_body(fields, builder, sizes, layers, width, set()), tied=False)
    rows = _padded(sizes.vocab + marks) - _padded(sizes.vocab)
    if not rows:
        return body
    table = builder.single()
    table.linear("embed_tokens.marks", sizes.hidden, rows, quantizable=False)
    table.passes = 0
    return replace(body, extra=(*body.extra, table.layer()))


def _padded(rows: int) -> int:
    """vLLM pads vocabularies to a multiple of 64."""
    return -(-rows // 64) * 64
