"""What encoders share: their blocks, what stands around them, and the source that a reader takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS, Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import Layer, MultiModalEncoder, Part, Split, Vector

TEXT_PARTS = ("text_config", "llm_config", "language_config", "language_model_config")
"""Where a config may keep its text model."""


class Source(NamedTuple):
    """Where a reader finds things: the whole config, its vision part, the decoder's hidden size, the builder."""

    config: Fields
    vision: Fields
    hidden: int
    builder: Builder


Reader = Callable[[Source], MultiModalEncoder | None]
"""Reads an encoder; None where this config has none."""


def encoder_block(
    builder: Builder,
    hidden: int,
    heads: int,
    width: int,
    *,
    gated: bool = False,
    bias: bool = True,
    mlp_bias: bool | None = None,
    out_bias: bool | None = None,
    norm_bias: bool = True,
    norms: int = 2,
    split: bool = True,
    split_attention: bool = True,
    split_mlp: bool = True,
    inner: int = 0,
    kv_heads: int = 0,
    key_bias: bool = True,
    head_norms: bool = False,
) -> Layer:
    """One transformer block of an encoder. `inner`: width of the attention where it is not the hidden size.

    kv_heads: of grouped-query attention. key_bias: False where queries and values have a bias and keys have none.
    head_norms: queries and keys are normalized head by head.
    """
    layer = builder.single("vision_tower.")
    inner = inner or hidden
    heads = heads if inner % heads == 0 else 1
    head = inner // heads
    keys = Part(kv_heads, head, replicable=True) if kv_heads else Part(heads, head)
    mlp_bias = bias if mlp_bias is None else mlp_bias
    attention: tuple[Split, Split] = ("column", "row") if split and split_attention else ("none", "none")
    fused = (Part(heads, head), keys, keys)
    layer.linear("attn.qkv", hidden, fused, attention[0], bias=bias and key_bias, quantizable=False)
    if bias and not key_bias:
        layer.vectors.append(Vector(head * (heads + keys.units)))
    if head_norms:
        layer.norm(head, 2)
    layer.linear(
        "attn.proj",
        inner,
        hidden,
        attention[1],
        bias=bias if out_bias is None else out_bias,
        input_units=heads,
        quantizable=False,
    )
    layer.mlp(hidden, width, gated=gated, bias=mlp_bias, split=split and split_mlp, quantizable=False, prefix="mlp.")
    layer.norm(hidden, norms, bias=norm_bias)
    return layer.layer()


def stem_of(source: Source) -> LayerBuilder:
    """What stands around the blocks: patches in, the projector out."""
    return source.builder.single("vision_tower.")


def plain(
    layer: LayerBuilder, name: str, inputs: int, outputs: int, *, bias: bool = False, split: bool = False
) -> None:
    """A projection that no format quantizes; `split`: column-parallel."""
    layer.linear(name, inputs, outputs, "column" if split else "none", bias=bias, quantizable=False)


def pair(layer: LayerBuilder, inputs: int, middle: int, outputs: int, *, bias: bool, split: bool = True) -> None:
    """A projector of two layers, the first split by outputs and the second by inputs."""
    layer.linear("linear_1", inputs, middle, "column" if split else "none", bias=bias, quantizable=False)
    layer.linear("linear_2", middle, outputs, "row" if split else "none", bias=bias, quantizable=False)


def depth_of(vision: Fields, *names: str, default: int | None = None) -> int:
    return vision.integer(*(names or ("num_hidden_layers",)), default=default, high=MOST_LAYERS)
