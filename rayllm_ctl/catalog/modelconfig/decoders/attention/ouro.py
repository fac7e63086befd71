"""Decoders that send a token through the same layers several times: Ouro, IQuest Loop Coder, HRM Text.

The weights are held once; every pass keeps keys and values of its own. Layouts from vLLM's ouro.py (0.20),
iquest_loopcoder.py and hrm_text.py (0.29).
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import Body, Sizes, read_even_sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention, attention_of
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import AttentionCache, Part, Vector

_MOST_PASSES = 64
"""More is a damaged config: each pass adds a cache to every layer."""


def _cache(sizes: Sizes, window: int) -> AttentionCache:
    return AttentionCache(sizes.kv_heads, sizes.head_dim, sizes.head_dim, window)


def _ouro_attention(context: LayerContext) -> None:
    """All layers `total_ut_steps` times."""
    passes = context.fields.integer("total_ut_steps", default=4, high=_MOST_PASSES)
    attention_of(context, context.sizes, cached=False)
    context.layer.caches += [_cache(context.sizes, context.window)] * passes
    context.layer.passes = passes


def _early_exit(body: Body, _fields: Fields, builder: Builder) -> Body:
    gate = builder.single()
    gate.linear("early_exit_gate", body.sizes.hidden, 1, "row", bias=True, quantizable=False)
    return body._replace(extra=(*body.extra, gate.layer()))


def _iquest_attention(context: LayerContext) -> None:
    """Later passes see a short window of their own beside the keys of the first, by a gate."""
    fields, sizes, layer = context.fields, context.sizes, context.layer
    passes = fields.integer("loop_num", default=2, high=_MOST_PASSES)
    attention(context)
    layer.caches += [_cache(sizes, fields.integer("loop_window_size", default=64))] * (passes - 1)
    layer.linear("gate_projection", sizes.head_dim, (Part(sizes.heads),), bias=True)
    layer.passes = passes


def _hrm_stack(fields: Fields) -> int:
    """Layers of each of the two stacks."""
    layers = read_sizes(fields).layers
    return fields.integer("num_layers_per_stack", default=layers, high=layers)


def _hrm_sizes(fields: Fields) -> Sizes:
    sizes = read_sizes(fields)
    return sizes._replace(layers=2 * _hrm_stack(fields), kv_heads=sizes.heads)


def _hrm_passes(fields: Fields, _sizes: Sizes) -> list[int]:
    """A low stack several times for each time of a high one."""
    high = fields.integer("H_cycles", default=2, high=_MOST_PASSES)
    low = fields.integer("L_cycles", default=3, high=_MOST_PASSES // high)
    return [high * low] * _hrm_stack(fields) + [high] * _hrm_stack(fields)


def _hrm_attention(context: LayerContext) -> None:
    """A gate per feature beside queries, keys and values."""
    sizes, layer = context.sizes, context.layer
    heads, bias = Part(sizes.heads, sizes.head_dim), context.fields.flag("attention_bias")
    passes = context.kind if isinstance(context.kind, int) else 1
    layer.linear("self_attn.gqkv_proj", sizes.hidden, (heads,) * 4, bias=bias)
    layer.linear("self_attn.o_proj", heads.size, sizes.hidden, "row", bias=bias, input_units=sizes.heads)
    layer.caches += [_cache(sizes, 0)] * passes
    layer.passes = passes


def _first_state(body: Body, _fields: Fields, builder: Builder) -> Body:
    start = builder.single()
    start.vectors.append(Vector(body.sizes.hidden))
    return body._replace(extra=(start.layer(),))


ROWS = {
    "OuroForCausalLM": DecoderSpec(
        mixer=_ouro_attention, sizes=read_even_sizes, window_uniform=True, intermediate=("intermediate_size",), norms=4,
        finish=_early_exit,
    ),
    "IQuestLoopCoderForCausalLM": DecoderSpec(
        mixer=_iquest_attention, sizes=read_even_sizes, windowed=False, intermediate=("intermediate_size",),
    ),
    # norms without weights
    "HrmTextForCausalLM": DecoderSpec(
        mixer=_hrm_attention, kinds=_hrm_passes, windowed=False, sizes=_hrm_sizes, mlp_bias=("mlp_bias",),
        intermediate=("intermediate_size",), norms=0, finish=_first_state,
    ),
}  # fmt: skip
