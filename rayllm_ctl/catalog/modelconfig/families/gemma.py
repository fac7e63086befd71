"""Gemma 3n and Gemma 4: layers that differ in head size, share keys and values, and carry per-layer embeddings.

Layouts from vLLM's gemma3n.py and gemma4.py (0.29).
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import HEADS, KV_HEADS, MOST_EXPERTS, MOST_HEADS, TOP_K, Body, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.windows import layer_windows
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.facts import RotaryCache, Vector


def read_gemma4(fields: Fields, builder: Builder) -> Body:
    """Gemma 4: wide heads on the full layers, optionally experts beside the dense block, shared keys and values."""
    sizes = read_sizes(fields)
    windows = layer_windows(fields, sizes.layers, pattern=6)
    wide = fields.integer("global_head_dim", default=512)
    wide_kv = sizes.kv_heads
    if fields.flag("attention_k_eq_v"):
        wide_kv = fields.integer("num_global_key_value_heads", default=sizes.kv_heads, high=MOST_HEADS)
    intermediate = fields.integer("intermediate_size")
    first_shared = sizes.layers - fields.integer("num_kv_shared_layers", default=0, low=0)
    doubled = fields.flag("use_double_wide_mlp")
    mixed = fields.flag("enable_moe_block", "use_second_mlp_block")
    per_layer = fields.integer("hidden_size_per_layer_input", default=0, low=0)
    bias = fields.flag("attention_bias")

    def make(index: int, pieces: LayerBuilder) -> None:
        window, _ = windows[index]
        shared = index >= first_shared > 0
        pieces.attention(
            sizes.hidden,
            sizes.heads,
            sizes.kv_heads if window else wide_kv,
            sizes.head_dim if window else wide,
            bias=bias,
            out_bias=bias,
            norm="head",
            window=window,
            cached=not shared,
        )
        pieces.mlp(sizes.hidden, intermediate * (2 if doubled and shared else 1))
        pieces.norm(sizes.hidden, 4)
        if mixed:
            experts = fields.integer("num_experts", high=MOST_EXPERTS)
            pieces.linear("router.proj", sizes.hidden, experts, "none", quantizable=False)
            pieces.vectors += [Vector(sizes.hidden), Vector(experts)]
            width = fields.integer("moe_intermediate_size", "expert_intermediate_size")
            pieces.experts(
                sizes.hidden, width, experts, fields.integer(*TOP_K, high=MOST_EXPERTS), name="moe.experts", router=""
            )
            pieces.norm(sizes.hidden, 3)
        if per_layer:
            pieces.linear("per_layer_input_gate", sizes.hidden, per_layer, "none")
            pieces.linear("per_layer_projection", per_layer, sizes.hidden, "none")
            pieces.norm(sizes.hidden)

    ends = builder.single()
    ends.norm(sizes.hidden)
    if per_layer:
        total = per_layer * sizes.layers
        rows = fields.integer("vocab_size_per_layer_input", default=sizes.vocab)
        ends.linear("embed_tokens_per_layer", total, rows, "column", quantizable=False)
        ends.linear("per_layer_model_projection", sizes.hidden, total)
        ends.norm(per_layer)
    words = {"sliding"} | ({"moe"} if mixed else set())
    return Body(
        builder.layers(sizes.layers, lambda index: (windows[index], index >= first_shared > 0), make),
        sizes.hidden,
        intermediate,
        sizes.vocab,
        sizes.heads,
        sizes.kv_heads,
        sizes.head_dim,
        extra=(ends.layer(),),
        tied=fields.flag("tie_word_embeddings", default=True),
        rotary=_two_tables(fields, sizes.head_dim, wide),
        token_buffers=2 * per_layer * sizes.layers,
        traits=frozenset(words),
    )


def _two_tables(fields: Fields, head_dim: int, wide: int) -> tuple[RotaryCache, ...]:
    """One table for the sliding layers, one for the full ones (proportional rope spans the whole head)."""
    positions = fields.integer("max_position_embeddings", default=8192)
    return (RotaryCache(positions, head_dim), RotaryCache(positions, wide))


def read_gemma3n(fields: Fields, builder: Builder) -> Body:
    """Gemma 3n: alternating updates, low-rank side paths and per-layer embeddings around Gemma 3's layer."""
    sizes = read_sizes(fields)
    windows = layer_windows(fields, sizes.layers, pattern=5)
    first_shared = sizes.layers - fields.integer("num_kv_shared_layers", default=0, low=0)
    streams = fields.integer("altup_num_inputs", default=4, high=64)
    rank = fields.integer("laurel_rank", default=64)
    per_layer = fields.integer("hidden_size_per_layer_input", default=256)

    def make(index: int, pieces: LayerBuilder) -> None:
        window, _ = windows[index]
        pieces.attention(
            sizes.hidden,
            fields.integer(*HEADS, high=MOST_HEADS),
            fields.integer(*KV_HEADS, default=sizes.heads, high=MOST_HEADS),
            sizes.head_dim,
            norm="head",
            window=window,
            cached=index < first_shared,
        )
        pieces.mlp(sizes.hidden, fields.integer_at(index, "intermediate_size"))
        pieces.linear("altup.correction_coefs", streams, streams, "none", quantizable=False)
        pieces.linear("altup.prediction_coefs", streams, streams * streams, "none", quantizable=False)
        pieces.linear("altup.modality_router", sizes.hidden, streams, "none", quantizable=False)
        pieces.vectors += [Vector(sizes.hidden), Vector(sizes.hidden, float32=True)]
        pieces.linear("laurel.linear_left", sizes.hidden, rank)
        pieces.linear("laurel.linear_right", rank, sizes.hidden, "row")
        pieces.linear("per_layer_input_gate", sizes.hidden, per_layer, "none")
        pieces.linear("per_layer_projection", per_layer, sizes.hidden, "none")
        pieces.norm(sizes.hidden, 6)

    ends = builder.single()
    ends.norm(sizes.hidden)
    total = per_layer * sizes.layers
    rows = fields.integer("vocab_size_per_layer_input", default=sizes.vocab)
    ends.linear("embed_tokens_per_layer", total, rows, "column", quantizable=False)
    ends.linear("per_layer_model_projection", sizes.hidden, total)
    ends.norm(per_layer)
    for name in ("altup_projections", "altup_unembed_projections"):
        for index in range(streams - 1):
            ends.linear(f"{name}.{index}", sizes.hidden, sizes.hidden)
    widths = {fields.integer_at(index, "intermediate_size") for index in range(sizes.layers)}
    return Body(
        builder.layers(
            sizes.layers,
            lambda index: (windows[index], index < first_shared, fields.integer_at(index, "intermediate_size")),
            make,
        ),
        sizes.hidden,
        max(widths),
        sizes.vocab,
        sizes.heads,
        sizes.kv_heads,
        sizes.head_dim,
        extra=(ends.layer(),),
        tied=fields.flag("tie_word_embeddings", default=True),
        rotary=rotary_caches(fields, sizes.head_dim) * 2,
        token_buffers=2 * total,
        streams=streams,
        traits=frozenset({"sliding"}),
    )
