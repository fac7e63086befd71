"""Encoders of Molmo and Molmo 2: features of two layers, pooled by attention over two by two patches.

vLLM: molmo.py, molmo2.py of 0.29, which keep the outputs of all layers. Crops are those of preprocessor_config.json,
frames those that the authors' molmo-utils samples.
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.builder import LayerBuilder
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, depth_of, encoder_block, plain, stem_of
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import MultiModalEncoder, Part, VideoProfile

_MARGINS = 8
"""Patches of a crop, on both sides together, that lie in its neighbours as well."""


def read_molmo(source: Source) -> MultiModalEncoder:
    """CLIP ViT-L/14 up to the last layer but one, whatever the config says; up to twelve crops and an overview."""
    width, heads, patch, side, depth = 1024, 16, 14, 336 // 14, 23
    middle = source.config.integer("intermediate_size", low=2) // 2
    stem = stem_of(source)
    stem.norm(width)
    plain(stem, "positional_embedding", 577, width)
    plain(stem, "patch_embedding", 3 * patch * patch, width)
    stem.norm(width, bias=True)
    stem.norm(2 * 2 * width)
    _pooling(stem, 2 * width, width, heads, heads)
    _projector(stem, width, middle, source.hidden)
    crops = 12
    return MultiModalEncoder(
        "image",
        ((encoder_block(source.builder, width, heads, 4 * width), depth), (stem.layer(), 1)),
        width,
        _tokens(side, crops),
        (crops + 1) * side * side,
        (crops + 1) * 3 * (side * patch) ** 2,
        kept=depth,
    )


def read_molmo2(source: Source) -> MultiModalEncoder:
    """SigLIP 2 up to the deepest layer that is taken; up to eight crops and an overview, or 384 frames whose patches
    are pooled three by three."""
    vision, adapter = source.config.child("vit_config"), source.config.child("adapter_config")
    width = vision.integer("hidden_size", default=1152)
    heads = vision.integer("num_attention_heads", default=16, high=MOST_HEADS)
    kv_heads = vision.integer("num_key_value_heads", default=16, high=MOST_HEADS)
    middle = vision.integer("intermediate_size", default=4304)
    patch = vision.integer("image_patch_size", default=14, high=256)
    size = vision.integer_at(0, "image_default_input_size", default=378)
    depth, taken = _layers(depth_of(vision, default=27), adapter)
    stem = stem_of(source)
    plain(stem, "positional_embedding", vision.integer("image_num_pos", default=577), width)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    pooled = adapter.integer("hidden_size", default=1152)
    pool_heads = adapter.integer("num_attention_heads", default=16, high=MOST_HEADS)
    pool_kv_heads = adapter.integer("num_key_value_heads", default=16, high=MOST_HEADS)
    _pooling(stem, taken * width, pooled, pool_heads, pool_kv_heads)
    inner = adapter.integer("intermediate_size", default=18944)
    _projector(stem, pooled, inner, adapter.integer("text_hidden_size", default=source.hidden))
    block = encoder_block(source.builder, width, heads, middle, kv_heads=kv_heads)
    crops, side = 8, size // patch
    video = VideoProfile((-(-side // 3)) ** 2 + 2, side * side, 3 * size * size, longest=384)
    return MultiModalEncoder(
        "image",
        ((block, depth), (stem.layer(), 1)),
        width,
        _tokens(side, crops),
        (crops + 1) * side * side,
        (crops + 1) * 3 * size * size,
        kept=depth,
        video=video,
    )


def _layers(depth: int, adapter: Fields) -> tuple[int, int]:
    """(layers that are built, layers that are taken)."""
    chosen = adapter.integers("vit_layers", low=-depth, high=depth - 1, longest=64) or (max(-3, -depth),) * 2
    return max(layer if layer >= 0 else layer + depth for layer in chosen) + 1, len(chosen)


def _pooling(stem: LayerBuilder, inputs: int, hidden: int, heads: int, kv_heads: int) -> None:
    """Attention of the mean of four patches to them."""
    head = max(1, hidden // heads)
    for name, units in (("wq", heads), ("wk", kv_heads), ("wv", kv_heads)):
        part = Part(units, head)
        stem.linear("image_pooling_2d." + name, inputs, (part,), bias=True, quantizable=False)
    stem.linear("image_pooling_2d.wo", heads * head, hidden, "row", bias=True, input_units=heads, quantizable=False)


def _projector(stem: LayerBuilder, inputs: int, middle: int, outputs: int) -> None:
    parts = (Part(middle), Part(middle))
    stem.linear("image_projector.merged_linear", inputs, parts, quantizable=False)
    stem.linear("image_projector.down_proj", middle, outputs, "row", quantizable=False)


def _tokens(side: int, crops: int) -> int:
    """The most embeddings of an image: all crops below one another, each row with an end, and the overview."""
    rows = (crops * max(side - _MARGINS, 0) + _MARGINS + 1) // 2
    columns = (side + 1) // 2
    return (rows + columns) * (columns + 1) + 4
