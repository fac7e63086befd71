"""ERNIE 4.5 VL: experts for text and others, narrower, for images (vLLM: ernie45_vl_moe.py of 0.29)."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.catalog.modelconfig.body import EXPERTS, MOST_EXPERTS, TOP_K, Sizes
from rayllm_ctl.catalog.modelconfig.decoders.decoder import dense
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import RotaryCache, Vector

_SIDES = ("text", "vision")
"""The config lists two of each figure of the experts: for text, then for images."""


def _sides(fields: Fields, sizes: Sizes) -> list[tuple[bool, ...]]:
    """Which of the two sides of each layer has experts; none at all for a dense layer."""
    spans = tuple(_span(fields, side, sizes.layers) for side in range(2))
    step = fields.integer("moe_layer_interval", default=1)
    first, last = min(span[0] for span in spans), max(span[1] for span in spans)
    routed = fields.flag("use_moe", default=True)
    return [
        tuple(span[0] <= index <= span[1] for span in spans)
        if routed and (index + 1) % step == 0 and first <= index <= last
        else ()
        for index in range(sizes.layers)
    ]


def _span(fields: Fields, side: int, layers: int) -> tuple[int, int]:
    """The first and the last layer that may have experts for text (0) or images (1)."""
    first = fields.integer_at(side, "moe_layer_start_index", low=0)
    return first, fields.integer_at(side, "moe_layer_end_index", default=layers - 1, low=0)


def _blocks(context: LayerContext) -> None:
    """Experts or a dense block for each side, the shared experts once, and score biases.

    A generated token is text: it takes none of the experts for images. vLLM quantizes the routers with the rest.
    """
    sides = context.kind
    if not isinstance(sides, tuple) or not sides:
        dense(context, context.intermediate)
        return
    fields, layer, hidden, intermediate = context.fields, context.layer, context.sizes.hidden, context.intermediate
    counts = tuple(fields.integer_at(side, *EXPERTS) for side in range(2))
    if counts[0] != counts[1] or counts[0] > MOST_EXPERTS:
        raise fields.wrong("moe_num_experts", list(counts), f"one number twice, up to {MOST_EXPERTS}")
    top_k = fields.integer(*TOP_K, high=MOST_EXPERTS)
    layer.vectors.append(Vector(2 * counts[0], float32=True))
    for side, name in _named(sides):
        layer.linear(f"mlp.{name}_experts_gate", hidden, counts[side], "none", float32=True)
        width = fields.integer_at(side, "moe_intermediate_size")
        layer.experts(hidden, width, counts[side], 0 if side else top_k, name=f"mlp.{name}_experts")
    for _side, name in _named(tuple(not side for side in sides)):
        layer.mlp(hidden, intermediate, bias=fields.flag("use_bias"), prefix=f"mlp.{name}_experts.")
    shared = fields.integer("moe_num_shared_experts", default=0, low=0, high=MOST_EXPERTS)
    if shared:
        layer.mlp(hidden, fields.integer_at(0, "moe_intermediate_size") * shared, prefix="mlp.shared_experts.")


def _named(sides: tuple[bool, ...]) -> Iterator[tuple[int, str]]:
    return ((side, name) for side, name in enumerate(_SIDES) if sides[side])


def _tables(fields: Fields, sizes: Sizes) -> tuple[RotaryCache, ...]:
    """Every layer has its own table of rotary positions, in three dimensions."""
    positions = fields.integer("max_position_embeddings", default=131072)
    return (RotaryCache(positions, sizes.head_dim, sections=True, each_layer=True),)


ROWS = {
    "Ernie4_5_VLMoeForCausalLM": DecoderSpec(
        qkv_bias=("use_bias",), mlp_bias=("use_bias",), kinds=_sides, windowed=False, feed_forward=_blocks,
        intermediate=("intermediate_size",), tied=True, tables=_tables,
    ),
}  # fmt: skip
