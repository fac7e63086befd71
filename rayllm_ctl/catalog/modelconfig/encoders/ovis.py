"""Ovis: an encoder whose features choose from a visual vocabulary, which has embeddings of its own (vLLM: ovis.py,
ovis2_5.py)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.builder import LayerBuilder
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, clip_like, depth_of, encoder_block, plain, stem_of
from rayllm_ctl.catalog.modelconfig.encoders.sizes import vit_sizes
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import Layer, MultiModalEncoder

_MOST_WORDS = 2**24
_MARKS = 5
_MARKS_25 = 4
"""Rows of the visual vocabulary that mark where images begin and end: the head does not choose them."""


def read_ovis(source: Source) -> MultiModalEncoder:
    """Ovis 1.6 and 2: SigLIP or AIMv2 over up to nine crops and an overview."""
    tokenizer = source.config.child("visual_tokenizer_config")
    vision = tokenizer.child("backbone_config")
    stride = tokenizer.integer("hidden_stride", default=1, high=64)
    words = tokenizer.integer("vocab_size", default=16384, low=_MARKS + 1, high=_MOST_WORDS)
    inner = Source(Fields({}), vision, source.hidden, source.builder)
    if vision.text("model_type") == "aimv2":
        blocks, width, patches, pixels = _aimv2(inner)
    else:
        blocks, width, patches, pixels = clip_like(inner)
    stem = stem_of(source)
    _choose(stem, width * stride * stride, words, _MARKS, source.hidden)
    crops = 10
    tokens = crops * patches // (stride * stride)
    return MultiModalEncoder("image", (*blocks, (stem.layer(), 1)), width, tokens, crops * patches, crops * pixels)


def read_ovis25(source: Source) -> MultiModalEncoder:
    """Ovis 2.5 and 2.6: SigLIP 2 over an image in its own shape, up to 1792 x 1792."""
    vision = source.config.child("vit_config")
    width, heads, middle, patch = vit_sizes(vision, width=1152, heads=16, middle=4304, patch=16)
    stride = vision.integer("hidden_stride", default=2, high=64)
    words = source.config.integer("visual_vocab_size", default=65536, low=_MARKS_25 + 1, high=_MOST_WORDS)
    block = encoder_block(source.builder, width, heads, middle)
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    if vision.flag("preserve_original_pe", default=True):
        given = vision.integer("num_patches", default=-1, low=-1)
        side = vision.integer("image_size", default=512, high=2**14) // patch
        plain(stem, "position_embedding", given if given > 0 else side * side, width)
    stem.norm(width, bias=True)
    _choose(stem, width * stride * stride, words, _MARKS_25, source.hidden)
    patches = (1792 // patch) ** 2
    return MultiModalEncoder(
        "image",
        ((block, depth_of(vision, default=27)), (stem.layer(), 1)),
        width,
        patches // (stride * stride),
        patches,
        3 * 1792 * 1792,
    )


def _choose(stem: LayerBuilder, features: int, words: int, marks: int, hidden: int) -> None:
    """The head over the visual vocabulary, and the vocabulary's embeddings."""
    plain(stem, "head.0", features, words - marks)
    stem.norm(words - marks, bias=True)
    plain(stem, "vte", words, hidden)


def _aimv2(source: Source) -> tuple[list[tuple[Layer, int]], int, int, int]:
    vision = source.vision
    width, heads, middle, patch = vit_sizes(vision, width=1024, heads=8, middle=2816, patch=14)
    size = vision.integer("image_size", default=224, high=2**14)
    block = encoder_block(
        source.builder,
        width,
        heads,
        middle,
        gated=True,
        bias=vision.flag("qkv_bias"),
        mlp_bias=vision.flag("use_bias"),
        out_bias=vision.flag("use_bias"),
        norm_bias=False,
    )
    patches = (size // patch) ** 2
    stem = stem_of(source)
    plain(stem, "patch_embed", 3 * patch * patch, width, bias=True)
    plain(stem, "pos_embed", patches, width)
    stem.norm(width)
    return [(block, depth_of(vision, default=24)), (stem.layer(), 1)], width, patches, 3 * size * size
