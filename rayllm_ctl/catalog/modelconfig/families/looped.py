"""Decoders that send a token through the same layers several times: Ouro, IQuest Loop Coder, HRM Text.

The weights are held once; every pass keeps keys and values of its own. Layouts from vLLM's ouro.py (0.20),
iquest_loopcoder.py and hrm_text.py (0.29).
"""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import Body, Sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.uneven import uneven_body
from rayllm_ctl.catalog.modelconfig.families.windows import layer_windows
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import AttentionCache, Part, Vector

_MOST_PASSES = 64
"""More is a damaged config: each pass adds a cache to every layer."""


def read_ouro(fields: Fields, builder: Builder) -> Body:
    """Ouro: all layers `total_ut_steps` times, with norms before and after attention and feed-forward."""
    sizes = _whole_heads(fields)
    passes = fields.integer("total_ut_steps", default=4, high=_MOST_PASSES)
    windows = layer_windows(fields, sizes.layers, uniform=True)
    intermediate = fields.integer("intermediate_size")

    def make(index: int, pieces: LayerBuilder) -> None:
        window, _ = windows[index]
        pieces.attention(sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, cached=False)
        pieces.caches += [_cache(sizes, window)] * passes
        pieces.mlp(sizes.hidden, intermediate)
        pieces.norm(sizes.hidden, 4)
        pieces.passes = passes

    layers = builder.layers(sizes.layers, lambda index: windows[index], make)
    body = uneven_body(fields, builder, sizes, layers, intermediate, set())
    gate = builder.single()
    gate.linear("early_exit_gate", sizes.hidden, 1, "row", bias=True, quantizable=False)
    return replace(body, extra=(*body.extra, gate.layer()))


def read_iquest_loop(fields: Fields, builder: Builder) -> Body:
    """IQuest Loop Coder: later passes see a short window of their own beside the keys of the first, by a gate."""
    sizes = _whole_heads(fields)
    passes = fields.integer("loop_num", default=2, high=_MOST_PASSES)
    window = fields.integer("loop_window_size", default=64)
    intermediate = fields.integer("intermediate_size")

    def make(_index: int, pieces: LayerBuilder) -> None:
        pieces.attention(sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim)
        pieces.caches += [_cache(sizes, window)] * (passes - 1)
        pieces.linear("gate_projection", sizes.head_dim, (Part(sizes.heads),), bias=True)
        pieces.mlp(sizes.hidden, intermediate)
        pieces.norm(sizes.hidden, 2)
        pieces.passes = passes

    layers = builder.layers(sizes.layers, lambda _index: 0, make)
    return uneven_body(fields, builder, sizes, layers, intermediate, {"sliding"} if passes > 1 else set())


def read_hrm_text(fields: Fields, builder: Builder) -> Body:
    """HRM Text: a low stack several times for each time of a high one; norms without weights, a gate per feature."""
    sizes = read_sizes(fields)
    each = fields.integer("num_layers_per_stack", default=sizes.layers, high=sizes.layers)
    high = fields.integer("H_cycles", default=2, high=_MOST_PASSES)
    low = fields.integer("L_cycles", default=3, high=_MOST_PASSES // high)
    passes = [high * low] * each + [high] * each
    intermediate = fields.integer("intermediate_size")
    heads, bias = Part(sizes.heads, sizes.head_dim), fields.flag("attention_bias")

    def make(index: int, pieces: LayerBuilder) -> None:
        pieces.linear("self_attn.gqkv_proj", sizes.hidden, (heads,) * 4, bias=bias)
        pieces.linear("self_attn.o_proj", heads.size, sizes.hidden, "row", bias=bias, input_units=sizes.heads)
        pieces.caches += [AttentionCache(sizes.heads, sizes.head_dim, sizes.head_dim)] * passes[index]
        pieces.mlp(sizes.hidden, intermediate, bias=fields.flag("mlp_bias"))
        pieces.passes = passes[index]

    layers = builder.layers(2 * each, lambda index: passes[index], make)
    body = uneven_body(fields, builder, replace(sizes, kv_heads=sizes.heads), layers, intermediate, set())
    start = builder.single()
    start.vectors.append(Vector(sizes.hidden))
    return replace(body, extra=(start.layer(),))


def _whole_heads(fields: Fields) -> Sizes:
    """Sizes of a model whose heads always share the hidden size evenly."""
    sizes = read_sizes(fields)
    return replace(sizes, head_dim=max(1, sizes.hidden // sizes.heads))


def _cache(sizes: Sizes, window: int) -> AttentionCache:
    return AttentionCache(sizes.kv_heads, sizes.head_dim, sizes.head_dim, window)
