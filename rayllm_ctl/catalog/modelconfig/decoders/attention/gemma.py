"""Gemma 3n and Gemma 4: layers that differ in head size, share keys and values, and carry per-layer embeddings.

Layouts from vLLM's gemma3n.py and gemma4.py (0.29).
"""

from __future__ import annotations

from collections.abc import Hashable

from rayllm_ctl.catalog.modelconfig.body import MOST_EXPERTS, MOST_HEADS, TOP_K, Body, Sizes, read_layers
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention, borrowing_attention, dense
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext, Mixer
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.plan.facts import RotaryCache, Vector


def _own_keys(fields: Fields, sizes: Sizes) -> list[bool]:
    """The last layers use the keys and values of earlier ones."""
    first_shared = sizes.layers - fields.integer("num_kv_shared_layers", default=0, low=0)
    return [index < first_shared for index in range(sizes.layers)]


def _per_layer_embeddings(ends: LayerBuilder, fields: Fields, sizes: Sizes, per_layer: int) -> None:
    """A small embedding of each token for every layer. It stands after the head's norm."""
    total = per_layer * sizes.layers
    rows = fields.integer("vocab_size_per_layer_input", default=sizes.vocab)
    ends.linear("embed_tokens_per_layer", total, rows, "column", quantizable=False)
    ends.linear("per_layer_model_projection", sizes.hidden, total)
    ends.norm(per_layer)


def _per_layer_input(layer: LayerBuilder, hidden: int, per_layer: int) -> None:
    layer.linear("per_layer_input_gate", hidden, per_layer, "none")
    layer.linear("per_layer_projection", per_layer, hidden, "none")


def _wide(fields: Fields) -> int:
    """The head size of Gemma 4's full layers."""
    return fields.integer("global_head_dim", default=512)


def _per_layer_width(fields: Fields) -> int:
    return fields.integer("hidden_size_per_layer_input", default=0, low=0)


def _gemma4_heads(context: LayerContext) -> Sizes:
    """Full layers have heads of their own."""
    fields, sizes = context.fields, context.sizes
    if context.window:
        return sizes
    kv_heads = sizes.kv_heads
    if fields.flag("attention_k_eq_v"):
        kv_heads = fields.integer("num_global_key_value_heads", default=kv_heads, high=MOST_HEADS)
    return sizes._replace(kv_heads=kv_heads, head_dim=_wide(fields))


def _gemma4_keys(fields: Fields, sizes: Sizes) -> list[bool]:
    own = _own_keys(fields, sizes)
    return own if any(own) else [True] * sizes.layers


def _gemma4_blocks(context: LayerContext) -> None:
    """A dense block, optionally experts beside it."""
    fields, layer, hidden = context.fields, context.layer, context.sizes.hidden
    doubled = fields.flag("use_double_wide_mlp") and not context.kind
    dense(context, context.intermediate * (2 if doubled else 1))
    if fields.flag("enable_moe_block", "use_second_mlp_block"):
        count = fields.integer("num_experts", high=MOST_EXPERTS)
        layer.linear("router.proj", hidden, count, "none", quantizable=False)
        layer.vectors += [Vector(hidden), Vector(count)]
        width = fields.integer("moe_intermediate_size", "expert_intermediate_size")
        top_k = fields.integer(*TOP_K, high=MOST_EXPERTS)
        layer.experts(hidden, width, count, top_k, name="moe.experts")
        layer.norm(hidden, 3)
    per_layer = _per_layer_width(fields)
    if per_layer:
        _per_layer_input(layer, hidden, per_layer)
        layer.norm(hidden)


def _two_tables(fields: Fields, sizes: Sizes) -> tuple[RotaryCache, ...]:
    """One table for the sliding layers, one for the full ones (proportional rope spans the whole head)."""
    positions = fields.integer("max_position_embeddings", default=8192)
    return (RotaryCache(positions, sizes.head_dim), RotaryCache(positions, _wide(fields)))


def _gemma4_ends(body: Body, fields: Fields, builder: Builder) -> Body:
    per_layer = _per_layer_width(fields)
    if not per_layer:
        return body
    ends = builder.single()
    _per_layer_embeddings(ends, fields, body.sizes, per_layer)
    return body._replace(extra=(*body.extra, ends.layer()), token_buffers=2 * per_layer * body.sizes.layers)


def _streams(fields: Fields) -> int:
    return fields.integer("altup_num_inputs", default=4, high=64)


def _gemma3n_width(fields: Fields) -> int:
    return fields.integer("hidden_size_per_layer_input", default=256)


def _gemma3n_blocks(context: LayerContext) -> None:
    """Alternating updates and low-rank side paths around the dense block."""
    fields, layer, hidden = context.fields, context.layer, context.sizes.hidden
    streams, rank = _streams(fields), fields.integer("laurel_rank", default=64)
    dense(context, fields.integer_at(context.layer_index, "intermediate_size"))
    layer.linear("altup.correction_coefs", streams, streams, "none", quantizable=False)
    layer.linear("altup.prediction_coefs", streams, streams * streams, "none", quantizable=False)
    layer.linear("altup.modality_router", hidden, streams, "none", quantizable=False)
    layer.vectors += [Vector(hidden), Vector(hidden, float32=True)]
    layer.linear("laurel.linear_left", hidden, rank)
    layer.linear("laurel.linear_right", rank, hidden, "row")
    _per_layer_input(layer, hidden, _gemma3n_width(fields))


def _gemma3n_ends(body: Body, fields: Fields, builder: Builder) -> Body:
    hidden, streams, per_layer = body.sizes.hidden, _streams(fields), _gemma3n_width(fields)
    ends = builder.single()
    _per_layer_embeddings(ends, fields, body.sizes, per_layer)
    for name in ("altup_projections", "altup_unembed_projections"):
        for index in range(streams - 1):
            ends.linear(f"{name}.{index}", hidden, hidden)
    buffers = 2 * per_layer * body.sizes.layers
    return body._replace(extra=(*body.extra, ends.layer()), token_buffers=buffers, streams=streams)


_ATTENTION: dict[Hashable, Mixer] = {True: attention, False: borrowing_attention}

ROWS = {
    "Gemma4ForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias",), out_bias=("attention_bias",), qk_norm="head", window_pattern=6,
        heads=_gemma4_heads, mixers=_ATTENTION, kinds=_gemma4_keys, feed_forward=_gemma4_blocks,
        intermediate=("intermediate_size",), norms=4, tied=True, tables=_two_tables, finish=_gemma4_ends,
    ),
    "Gemma3nForCausalLM": DecoderSpec(
        qk_norm="head", window_pattern=5, mixers=_ATTENTION, kinds=_own_keys, feed_forward=_gemma3n_blocks,
        intermediate=lambda fields: max(
            fields.integer_at(index, "intermediate_size") for index in range(read_layers(fields))
        ),
        varies=lambda fields, index: fields.integer_at(index, "intermediate_size"), norms=6, tied=True,
        tables=lambda fields, sizes: rotary_caches(fields, sizes.head_dim) * 2, finish=_gemma3n_ends,
    ),
}  # fmt: skip
