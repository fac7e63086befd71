"""Molmo and Molmo 2: embeddings with rows that the output head does not have (vLLM: molmo.py, molmo2.py of 0.29)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import Body, Sizes, read_even_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rope_kind, rope_parameters, rotary_caches
from rayllm_ctl.model.plan.facts import RotaryCache

_MARKS = 128
"""Rows of Molmo's embedding for the marks around images and their patches."""


def _molmo2_tables(fields: Fields, sizes: Sizes) -> tuple[RotaryCache, ...]:
    """Where only some layers stretch their positions, the others have a table of their own."""
    tables = rotary_caches(fields, sizes.head_dim)
    scaled = set(fields.integers("rope_scaling_layers"))
    scales = any(rope_kind(parameters) != "default" for parameters in rope_parameters(fields))
    if not scales or not fields.has("rope_scaling_layers") or scaled.issuperset(range(sizes.layers)):
        return tables
    return (*tables, RotaryCache(fields.integer("max_position_embeddings"), sizes.head_dim))


def _marked(body: Body, marks: int, builder: Builder) -> Body:
    """`marks`: rows of the embedding beyond the vocabulary. vLLM pads vocabularies to a multiple of 64."""
    vocab = body.sizes.vocab
    rows = -(-(vocab + marks) // 64) * 64 - -(-vocab // 64) * 64
    if not rows:
        return body
    table = builder.single()
    table.linear("embed_tokens.marks", body.sizes.hidden, rows, quantizable=False)
    table.passes = 0
    return body._replace(extra=(*body.extra, table.layer()))


_MOLMO = DecoderSpec(
    qkv_bias=("qkv_bias",), qkv_shards=("qkv_proj",), mlp_shards=("gate_up_proj",), windowed=False, untied=True
)

ROWS = {
    "MolmoModel": _MOLMO._replace(
        # embedding_size counts the rows of the output head
        sizes=lambda fields: read_even_sizes(fields)._replace(vocab=fields.integer("embedding_size", "vocab_size")),
        qk_norm=lambda fields: "full-replicated" if fields.flag("attention_layer_norm") else "",
        # it counts both halves of the gated block
        intermediate=lambda fields: fields.integer("intermediate_size", low=2) // 2,
        finish=lambda body, _fields, builder: _marked(body, _MARKS, builder),
    ),
    "Molmo2TextModel": _MOLMO._replace(
        # by heads (as Qwen 3) or over all of them (as OLMo)
        qk_norm=lambda fields: (
            "head" if fields.text("qk_norm_type", default="olmo") == "qwen3" else "full-replicated"
        ),
        qk_norm_if=("use_qk_norm",), tables=_molmo2_tables, intermediate=("intermediate_size",),
        finish=lambda body, fields, builder: _marked(
            body, fields.integer("additional_vocab_size", default=0, low=0), builder
        ),
    ),
}  # fmt: skip
