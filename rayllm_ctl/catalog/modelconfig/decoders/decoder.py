"""Reads a decoder by its row: the layers, and what stands before the first and after the last."""

from __future__ import annotations

from collections.abc import Hashable

from rayllm_ctl.catalog.modelconfig.body import INTERMEDIATE, MOST_EXPERTS, Body, Sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.decoders.patterns import FULL, Window, layer_windows
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext, MoESpec, choose
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.plan.facts import AttentionCache, Layer, Part, RotaryCache, Vector


def read_decoder(spec: DecoderSpec, fields: Fields, builder: Builder) -> Body:
    """The decoder that `spec` describes, with the sizes of this config."""
    sizes = spec.sizes(fields)
    intermediate = _intermediate(spec, fields, sizes.hidden)
    windows = spec.windows(fields, sizes.layers) if spec.windows else _windows(spec, fields, sizes.layers)
    kinds = spec.kinds(fields, sizes) if spec.kinds else [None] * sizes.layers
    is_dense = [_is_dense(spec.moe, fields, index) for index in range(sizes.layers)]

    def kind(index: int) -> Hashable:
        return kinds[index], windows[index], is_dense[index], spec.varies and spec.varies(fields, index)

    def make(index: int, layer: LayerBuilder) -> None:
        context = LayerContext(
            spec, fields, sizes, intermediate, index, kinds[index], *windows[index], is_dense[index], layer
        )
        mixer = spec.mixers[kinds[index]] if spec.mixers else spec.mixer or attention
        mixer(context)
        (spec.feed_forward or feed_forward)(context)
        layer.norm(sizes.hidden, spec.norms if isinstance(spec.norms, int) else spec.norms(fields), bias=spec.norm_bias)

    body = Body(
        builder.layers(sizes.layers, kind, make),
        sizes,
        intermediate,
        extra=(_ends(spec, fields, sizes.hidden, builder),),
        tied=fields.flag("tie_word_embeddings", default=spec.tied) and not spec.untied,
        head_bias=choose(fields, spec.head_bias),
        head_float32=spec.head_float32,
        rotary=_rotary(spec, fields, sizes),
    )
    return spec.finish(body, fields, builder) if spec.finish else body


def attention(context: LayerContext) -> None:
    """Grouped-query attention."""
    attention_of(context, context.spec.heads(context) if context.spec.heads else context.sizes)


def borrowing_attention(context: LayerContext) -> None:
    """Attention to keys and values that another layer caches."""
    attention_of(context, context.spec.heads(context) if context.spec.heads else context.sizes, cached=False)


def attention_of(context: LayerContext, sizes: Sizes, *, value_dim: int = 0, cached: bool = True) -> None:
    """Grouped-query attention whose heads differ from those of the other layers, with its cache."""
    spec, fields, layer = context.spec, context.fields, context.layer
    hidden, heads, kv_heads, head_dim = sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim
    value_dim = value_dim or head_dim
    queries = Part(2 * heads if choose(fields, spec.gate) else heads, head_dim)
    parts = (queries, Part(kv_heads, head_dim, replicable=True), Part(kv_heads, value_dim, replicable=True))
    inward, outward = (spec.attention + name for name in spec.projections)
    layer.linear(inward, hidden, parts, bias=choose(fields, spec.qkv_bias), shards=spec.qkv_shards)
    out_bias = choose(fields, spec.out_bias)
    layer.linear(outward, heads * value_dim, hidden, "row", bias=out_bias, input_units=heads)
    norm = spec.qk_norm if isinstance(spec.qk_norm, str) else spec.qk_norm(fields)
    if not spec.qk_norm_if or fields.flag(*spec.qk_norm_if):
        _norm_queries_and_keys(layer, norm, sizes)
    if choose(fields, spec.sinks):
        layer.vectors.append(Vector(heads, heads))
    if cached:
        layer.caches.append(AttentionCache(kv_heads, head_dim, value_dim, context.window, context.chunk))
    gate = spec.head_gate(fields, sizes) if spec.head_gate else 0
    if gate:
        layer.linear(spec.attention + "g_proj", hidden, (Part(heads, gate),))


def _norm_queries_and_keys(layer: LayerBuilder, norm: str, sizes: Sizes) -> None:
    queries, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    if norm in ("head", "head-bias"):
        layer.norm(sizes.head_dim, 2, bias=norm == "head-bias")
    elif norm == "full":
        layer.vectors += [Vector(queries, sizes.heads), Vector(keys, sizes.kv_heads)]
    elif norm == "full-replicated":
        layer.vectors += [Vector(queries), Vector(keys)]


def feed_forward(context: LayerContext) -> None:
    """The dense block of a layer, or its experts."""
    spec = context.spec
    if spec.moe is not None and not context.is_dense:
        experts(context, spec.moe)
    else:
        dense(context, context.intermediate)


def nothing(_context: LayerContext) -> None:
    """No mixer, or no block."""


def dense(context: LayerContext, width: int) -> None:
    """A dense block of this width."""
    spec = context.spec
    for prefix in (spec.mlp, spec.mlp_twin) if spec.mlp_twin else (spec.mlp,):
        context.layer.mlp(
            context.sizes.hidden,
            width,
            gated=spec.gated,
            bias=choose(context.fields, spec.mlp_bias),
            out_bias=spec.mlp_out_bias,
            prefix=prefix,
            names=spec.mlp_names,
            shards=spec.mlp_shards,
        )


def experts(context: LayerContext, moe: MoESpec) -> None:
    """Routed experts with their router, the projections around them and the shared experts."""
    fields, index, layer, hidden = context.fields, context.layer_index, context.layer, context.sizes.hidden
    width = fields.integer_at(index, *moe.intermediate)
    count = fields.integer_at(index, *moe.experts, default=moe.experts_default, high=MOST_EXPERTS)
    latent = fields.integer(*moe.latent, default=0, low=0) if moe.latent else 0
    top_k = fields.integer_at(index, *moe.top_k, default=moe.top_k_default, high=MOST_EXPERTS)
    float32, correction = choose(fields, moe.router_float32), choose(fields, moe.correction)
    layer.linear(moe.router, hidden, count, "none", bias=moe.router_bias, quantizable=False, float32=float32)
    inner = latent or hidden
    layer.experts(inner, width, count, top_k, gated=moe.gated, bias=moe.bias, name=moe.name, correction=correction)
    if latent and latent != hidden:
        inward, outward = moe.latent_projections
        layer.linear(inward, hidden, latent, "none", quantizable=moe.latent_quantizable)
        layer.linear(outward, latent, hidden, "none", quantizable=moe.latent_quantizable)
        layer.norm(latent, int(moe.latent_norm))
    shared_experts(context, moe, width)


def shared_experts(context: LayerContext, moe: MoESpec, width: int) -> None:
    """The shared experts as one block, if there are any. `width`: of a routed expert."""
    fields, layer, hidden = context.fields, context.layer, context.sizes.hidden
    total = fields.integer(*moe.shared_total, default=moe.shared_default, low=0) if moe.shared_total else 0
    if moe.shared_count:
        count = moe.shared_count
        if isinstance(count, tuple):
            count = fields.integer_at(context.layer_index, *count, default=0, low=0, high=MOST_EXPERTS)
        total = count * (fields.integer(*moe.shared_width, default=width) if moe.shared_width else width)
    if not total:
        return
    layer.mlp(
        hidden,
        total,
        gated=moe.gated,
        bias=choose(fields, moe.shared_bias),
        prefix=moe.shared_name + ".",
        names=moe.shared_projections,
        shards=moe.shared_shards,
    )
    if moe.shared_gate:
        layer.linear(moe.shared_name + "_gate", hidden, 1, "none", quantizable=False)


def _is_dense(moe: MoESpec | None, fields: Fields, index: int) -> bool:
    if moe is None or (moe.optional and not fields.integer_at(index, *moe.experts, default=0, low=0)):
        return True
    return moe.dense(fields, index)


def _windows(spec: DecoderSpec, fields: Fields, count: int) -> list[Window]:
    if not spec.windowed:
        return [FULL] * count
    return layer_windows(
        fields, count, pattern=spec.window_pattern, uniform=spec.window_uniform, names=spec.window_names
    )


def _rotary(spec: DecoderSpec, fields: Fields, sizes: Sizes) -> tuple[RotaryCache, ...]:
    if spec.tables:
        return spec.tables(fields, sizes)
    if not choose(fields, spec.rotary):
        return ()
    width = 0 if spec.rotary_share == 1.0 else int(sizes.head_dim * spec.rotary_share)
    return rotary_caches(fields, sizes.head_dim, width=width, float32=spec.rotary_float32)


def _intermediate(spec: DecoderSpec, fields: Fields, hidden: int) -> int:
    if not isinstance(spec.intermediate, tuple):
        return spec.intermediate(fields)
    if spec.intermediate:
        return fields.integer(*spec.intermediate)
    default = hidden * spec.intermediate_times or None
    if default is None and spec.moe is not None:
        default = fields.integer(*spec.moe.intermediate)
    return fields.integer(*INTERMEDIATE, default=default)


def _ends(spec: DecoderSpec, fields: Fields, hidden: int, builder: Builder) -> Layer:
    """What stands before the first and after the last layer."""
    ends = builder.single()
    if spec.final_norm:
        ends.norm(hidden, bias=spec.norm_bias)
    if spec.embedding_norm:
        ends.norm(hidden, bias=spec.norm_bias)
    if spec.positions >= 0 and fields.text("position_embedding_type") != "alibi":
        length = fields.integer("max_position_embeddings", "n_positions") + spec.positions
        ends.linear("embed_positions", length, hidden, "none", quantizable=False)
    return ends.layer()
