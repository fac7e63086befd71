"""What encoders share: their blocks, what stands around them, and the source that a reader takes.

`tokens` and `patches` of a encoder are of the largest item that vLLM profiles; `pixels` its input values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS, Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import Layer, MultiModalEncoder, Part, Split, Vector

TEXT_PARTS = ("text_config", "llm_config", "language_config", "language_model_config")
"""Where a config may keep its text model."""


@dataclass(frozen=True)
class Source:
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
    inner: int = 0,
    kv_heads: int = 0,
    key_bias: bool = True,
    head_norms: bool = False,
) -> Layer:
    """One transformer block of an encoder. `inner`: width of the attention where it is not the hidden size.

    kv_heads: of grouped-query attention. key_bias: False where queries and values have a bias and keys have none.
    head_norms: queries and keys are normalized head by head.
    """
    pieces = builder.single("vision_tower.")
    inner = inner or hidden
    heads = heads if inner % heads == 0 else 1
    head = inner // heads
    keys = Part(kv_heads, head, replicable=True) if kv_heads else Part(heads, head)
    mlp_bias = bias if mlp_bias is None else mlp_bias
    attention: tuple[Split, Split] = ("column", "row") if split and split_attention else ("none", "none")
    fused = (Part(heads, head), keys, keys)
    pieces.linear("attn.qkv", hidden, fused, attention[0], bias=bias and key_bias, quantizable=False)
    if bias and not key_bias:
        pieces.vectors.append(Vector(head * (heads + keys.units)))
    if head_norms:
        pieces.norm(head, 2)
    pieces.linear(
        "attn.proj",
        inner,
        hidden,
        attention[1],
        bias=bias if out_bias is None else out_bias,
        input_units=heads,
        quantizable=False,
    )
    pieces.mlp(hidden, width, gated=gated, bias=mlp_bias, split=split, quantizable=False, prefix="mlp.")
    pieces.norm(hidden, norms, bias=norm_bias)
    return pieces.layer()


def stem_of(source: Source) -> LayerBuilder:
    """What stands around the blocks: patches in, the projector out."""
    return source.builder.single("vision_tower.")


def plain(
    pieces: LayerBuilder, name: str, inputs: int, outputs: int, *, bias: bool = False, split: bool = False
) -> None:
    """A projection that no format quantizes; `split`: column-parallel."""
    pieces.linear(name, inputs, outputs, "column" if split else "none", bias=bias, quantizable=False)


def pair(pieces: LayerBuilder, inputs: int, middle: int, outputs: int, *, bias: bool, split: bool = True) -> None:
    """A projector of two layers, the first split by outputs and the second by inputs."""
    pieces.linear("linear_1", inputs, middle, "column" if split else "none", bias=bias, quantizable=False)
    pieces.linear("linear_2", middle, outputs, "row" if split else "none", bias=bias, quantizable=False)


def depth_of(vision: Fields, *names: str, default: int | None = None) -> int:
    return vision.integer(*(names or ("num_hidden_layers",)), default=default, high=MOST_LAYERS)


def clip_like(source: Source, *, post_norm: bool = True) -> tuple[list[tuple[Layer, int]], int, int, int]:
    """CLIP and SigLIP: (blocks, hidden, patches of an image, pixels). Layers above the chosen feature are not built.

    post_norm: False where even a model that takes the last layer does without its norm.
    """
    vision = source.vision
    clip = "clip" in vision.text("model_type", default="clip_vision_model")
    hidden = vision.integer("hidden_size", "width", default=1024 if clip else 768)
    width = vision.integer("intermediate_size", default=hidden * 4)
    heads = vision.integer("num_attention_heads", default=16 if clip else 12, high=MOST_HEADS)
    depth = depth_of(vision, "num_hidden_layers", "layers", default=24 if clip else 12)
    size = vision.integer("image_size", default=336 if clip else 224, high=2**14)
    patch = vision.integer("patch_size", default=14 if clip else 16, high=256)
    patches = (size // patch) ** 2
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, hidden, bias=not clip)
    plain(stem, "position_embedding", patches + (1 if clip else 0), hidden)
    built = feature_depth(source.config, depth)
    if clip:
        stem.norm(hidden)
        stem.norm(hidden, bias=True)
    if built == depth and post_norm:
        stem.norm(hidden, bias=True)
    return (
        [(encoder_block(source.builder, hidden, heads, width), built), (stem.layer(), 1)],
        hidden,
        patches,
        3 * size * size,
    )


def feature_depth(config: Fields, depth: int) -> int:
    """Layers up to the deepest feature that the projector takes (vision_feature_layer)."""
    raw = config.raw("vision_feature_layer", "mm_vision_select_layer")
    if isinstance(raw, list):
        chosen = list(config.integers("vision_feature_layer", low=-depth, high=depth)) or [depth]
    else:
        chosen = [config.integer("vision_feature_layer", "mm_vision_select_layer", default=-1, low=-depth, high=depth)]
    return max(1, max(layer + depth + 1 if layer < 0 else layer for layer in chosen))
