"""Decoders of attention and feed-forward layers, dense or with routed experts, told apart by a few traits.

Which architecture has which trait was read from vllm/model_executor/models (0.19 and 0.29).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rayllm_ctl.catalog.modelconfig.body import (
    EXPERTS,
    INTERMEDIATE,
    MOE_INTERMEDIATE,
    MOST_EXPERTS,
    TOP_K,
    Body,
    Sizes,
    read_sizes,
)
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.windows import WINDOW, layer_windows
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.facts import Layer, RotaryCache

Choice = bool | tuple[str, ...]
"""A trait that is fixed, or that a field of the config switches (the first of these names; absent is false)."""


@dataclass(frozen=True)
class MoESpec:
    """How a family routes experts. shared: names of the shared experts' total width, or ("x", "y"): x times y.

    dense: whether layer i is dense after all. correction: float32 score bias, fixed or by a field.
    """

    intermediate: tuple[str, ...] = MOE_INTERMEDIATE
    experts: tuple[str, ...] = EXPERTS
    shared_total: tuple[str, ...] = ()
    shared_count: tuple[str, ...] = ()
    shared_gate: bool = False
    shared_name: str = "mlp.shared_experts"
    router: str = "mlp.gate"
    router_bias: bool = False
    router_float32: bool = False
    correction: bool = False
    gated: bool = True
    bias: bool = False
    name: str = "mlp.experts"
    dense: Callable[[Fields, int], bool] = lambda _fields, _index: False
    beside_dense: bool = False
    dense_intermediate: tuple[str, ...] = INTERMEDIATE


@dataclass(frozen=True)
class DecoderSpec:
    """What sets one family of decoders apart from Llama."""

    qkv_bias: Choice = False
    out_bias: Choice = False
    mlp_bias: Choice = False
    mlp_out_bias: bool = False
    head_bias: Choice = False
    gated: bool = True
    gate: Choice = False
    norms: int = 2
    norm_bias: bool = False
    final_norm: bool = True
    qk_norm: str = ""
    qk_norm_if: tuple[str, ...] = ()
    sinks: Choice = False
    tied: bool = False
    positions: int = -1
    """Rows that a learned position table has beyond max_position_embeddings; -1: there is none (ALiBi has none)."""
    embedding_norm: bool = False
    rotary: bool = True
    rotary_float32: bool = False
    rotary_share: float = 1.0
    """The part of a head that is rotated where the config does not say it."""
    window_names: tuple[str, ...] = WINDOW
    window_pattern: int = 0
    window_uniform: bool = False
    intermediate_times: int = 0
    """The feed-forward width as a multiple of hidden where the config does not say it."""
    attention: str = "self_attn."
    projections: tuple[str, str] = ("qkv_proj", "o_proj")
    qkv_shards: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    mlp: str = "mlp."
    mlp_twin: str = ""
    """Where a second block of the same size stands, which the tokens of images take."""
    mlp_names: tuple[str, str] = ("gate_up_proj", "down_proj")
    mlp_shards: tuple[str, ...] = ("gate_proj", "up_proj")
    kv_default: int | None = None
    moe: MoESpec | None = None
    sizes: Callable[[Fields], Sizes] | None = None


def choose(fields: Fields, choice: Choice) -> bool:
    return choice if isinstance(choice, bool) else fields.flag(*choice)


def read_decoder(traits: DecoderSpec, fields: Fields, builder: Builder) -> Body:
    """The body of a decoder with these traits."""
    sizes = traits.sizes(fields) if traits.sizes else read_sizes(fields, kv_default=traits.kv_default)
    moe = traits.moe
    intermediate = _intermediate(traits, fields, sizes.hidden)
    windows = layer_windows(
        fields, sizes.layers, pattern=traits.window_pattern, uniform=traits.window_uniform, names=traits.window_names
    )
    dense = [moe is None or moe.dense(fields, index) for index in range(sizes.layers)]

    def make(index: int, pieces: LayerBuilder) -> None:
        _attention(traits, fields, sizes, pieces, *windows[index])
        if moe is None or dense[index] or moe.beside_dense:
            _mlp(traits, fields, sizes.hidden, intermediate, pieces)
        if moe is not None and not dense[index]:
            _experts(moe, fields, sizes.hidden, index, pieces)
        pieces.norm(sizes.hidden, traits.norms, bias=traits.norm_bias)

    layers = builder.layers(sizes.layers, lambda index: (windows[index], dense[index]), make)
    words = set()
    if moe is not None:
        words.add("moe")
    if any(window for window, _ in windows):
        words.add("sliding")
    if any(chunk for _, chunk in windows):
        words.add("chunked")
    return Body(
        layers,
        sizes.hidden,
        intermediate,
        sizes.vocab,
        sizes.heads,
        sizes.kv_heads,
        sizes.head_dim,
        extra=(_ends(traits, fields, sizes.hidden, builder),),
        tied=fields.flag("tie_word_embeddings", default=traits.tied),
        head_bias=choose(fields, traits.head_bias),
        rotary=_rotary(traits, fields, sizes.head_dim),
        traits=frozenset(words),
    )


def _rotary(traits: DecoderSpec, fields: Fields, head_dim: int) -> tuple[RotaryCache, ...]:
    if not traits.rotary:
        return ()
    width = 0 if traits.rotary_share == 1.0 else int(head_dim * traits.rotary_share)
    return rotary_caches(fields, head_dim, width=width, float32=traits.rotary_float32)


def _intermediate(traits: DecoderSpec, fields: Fields, hidden: int) -> int:
    names = traits.moe.dense_intermediate if traits.moe else INTERMEDIATE
    default = hidden * traits.intermediate_times if traits.intermediate_times else None
    if default is None and traits.moe is not None:
        default = fields.integer(*traits.moe.intermediate)
    return fields.integer(*names, default=default)


def _attention(
    traits: DecoderSpec, fields: Fields, sizes: Sizes, pieces: LayerBuilder, window: int, chunk: int
) -> None:
    normed = not traits.qk_norm_if or fields.flag(*traits.qk_norm_if)
    pieces.attention(
        sizes.hidden,
        sizes.heads,
        sizes.kv_heads,
        sizes.head_dim,
        bias=choose(fields, traits.qkv_bias),
        out_bias=choose(fields, traits.out_bias),
        gate=choose(fields, traits.gate),
        norm=traits.qk_norm if normed else "",
        window=window,
        chunk=chunk,
        prefix=traits.attention,
        names=traits.projections,
        shards=traits.qkv_shards,
        sinks=choose(fields, traits.sinks),
    )


def _mlp(traits: DecoderSpec, fields: Fields, hidden: int, intermediate: int, pieces: LayerBuilder) -> None:
    for prefix in (traits.mlp, traits.mlp_twin) if traits.mlp_twin else (traits.mlp,):
        pieces.mlp(
            hidden,
            intermediate,
            gated=traits.gated,
            bias=choose(fields, traits.mlp_bias),
            out_bias=traits.mlp_out_bias,
            prefix=prefix,
            names=traits.mlp_names,
            shards=traits.mlp_shards,
        )


def _experts(moe: MoESpec, fields: Fields, hidden: int, index: int, pieces: LayerBuilder) -> None:
    intermediate = fields.integer_at(index, *moe.intermediate)
    pieces.experts(
        hidden,
        intermediate,
        fields.integer(*moe.experts, high=MOST_EXPERTS),
        fields.integer_at(index, *TOP_K, default=1),
        gated=moe.gated,
        bias=moe.bias,
        name=moe.name,
        router=moe.router,
        router_bias=moe.router_bias,
        router_float32=moe.router_float32,
        correction=moe.correction,
    )
    shared = fields.integer(*moe.shared_total, default=0, low=0) if moe.shared_total else 0
    if moe.shared_count:
        shared = intermediate * fields.integer_at(index, *moe.shared_count, default=0, low=0)
    if shared:
        pieces.mlp(hidden, shared, gated=moe.gated, prefix=moe.shared_name + ".")
        if moe.shared_gate:
            pieces.linear(moe.shared_name + "_gate", hidden, 1, "none", quantizable=False)


def _ends(traits: DecoderSpec, fields: Fields, hidden: int, builder: Builder) -> Layer:
    """What stands before the first and after the last layer."""
    pieces = builder.single()
    if traits.final_norm and traits.norms:
        pieces.norm(hidden, bias=traits.norm_bias)
    if traits.embedding_norm:
        pieces.norm(hidden, bias=traits.norm_bias)
    if traits.positions >= 0 and fields.text("position_embedding_type") != "alibi":
        length = fields.integer("max_position_embeddings", "n_positions") + traits.positions
        pieces.linear("embed_positions", length, hidden, "none", quantizable=False)
    return pieces.layer()
