"""ERNIE 4.5 VL: experts for text and others, narrower, for images (vLLM: ernie45_vl_moe.py of 0.29)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import EXPERTS, MOST_EXPERTS, TOP_K, Body, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.uneven import uneven_body
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import RotaryCache, Vector

_SIDES = ("text", "vision")


def read_ernie_vl(fields: Fields, builder: Builder) -> Body:
    """The config lists two of each figure of the experts: for text, then for images. Every layer has its own table of
    rotary positions, in three dimensions."""
    sizes = read_sizes(fields)
    intermediate = fields.integer("intermediate_size")
    spans = tuple(_span(fields, side, sizes.layers) for side in range(2))
    step = fields.integer("moe_layer_interval", default=1)
    routed = fields.flag("use_moe", default=True)
    first, last = min(span[0] for span in spans), max(span[1] for span in spans)

    def mixed(index: int) -> tuple[bool, ...]:
        """Which of the two sides of a layer has experts; none at all for a dense layer."""
        if not routed or (index + 1) % step or not first <= index <= last:
            return ()
        return tuple(span[0] <= index <= span[1] for span in spans)

    def make(index: int, pieces: LayerBuilder) -> None:
        bias = fields.flag("use_bias")
        pieces.attention(sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, bias=bias)
        sides = mixed(index)
        if sides:
            _mixture(fields, sizes.hidden, intermediate, sides, pieces)
        else:
            pieces.mlp(sizes.hidden, intermediate, bias=bias)
        pieces.norm(sizes.hidden, 2)

    layers = builder.layers(sizes.layers, mixed, make)
    positions = fields.integer("max_position_embeddings", default=131072)
    return replace(
        uneven_body(fields, builder, sizes, layers, intermediate, {"moe"}),
        tied=fields.flag("tie_word_embeddings", default=True),
        rotary=(RotaryCache(positions, sizes.head_dim, sections=True, each_layer=True),),
    )


def _span(fields: Fields, side: int, layers: int) -> tuple[int, int]:
    """The first and the last layer that may have experts for text (0) or images (1)."""
    first = fields.integer_at(side, "moe_layer_start_index", low=0)
    return first, fields.integer_at(side, "moe_layer_end_index", default=layers - 1, low=0)


def _mixture(fields: Fields, hidden: int, intermediate: int, sides: tuple[bool, ...], pieces: LayerBuilder) -> None:
    """What one layer holds: experts or a dense block for each side, the shared experts once, and score biases.

    A generated token is text: it takes none of the experts for images. vLLM quantizes the routers with the rest.
    """
    counts = tuple(fields.integer_at(side, *EXPERTS) for side in range(2))
    if counts[0] != counts[1] or counts[0] > MOST_EXPERTS:
        raise fields.wrong("moe_num_experts", list(counts), f"one number twice, up to {MOST_EXPERTS}")
    top_k = fields.integer(*TOP_K, high=MOST_EXPERTS)
    pieces.vectors.append(Vector(2 * counts[0], float32=True))
    for side, name in _named(sides):
        pieces.linear(f"mlp.{name}_experts_gate", hidden, counts[side], "none", float32=True)
        pieces.experts(
            hidden,
            fields.integer_at(side, "moe_intermediate_size"),
            counts[side],
            0 if side else top_k,
            name=f"mlp.{name}_experts",
            router="",
        )
    for _side, name in _named(tuple(not side for side in sides)):
        pieces.mlp(hidden, intermediate, bias=fields.flag("use_bias"), prefix=f"mlp.{name}_experts.")
    shared = fields.integer("moe_num_shared_experts", default=0, low=0, high=MOST_EXPERTS)
    if shared:
        pieces.mlp(hidden, fields.integer_at(0, "moe_intermediate_size") * shared, prefix="mlp.shared_experts.")


def _named(sides: tuple[bool, ...]) -> Iterator[tuple[int, str]]:
    return ((side, name) for side, name in enumerate(_SIDES) if sides[side])
