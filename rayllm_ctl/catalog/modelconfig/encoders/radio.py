"""Nemotron Nano VL: C-RADIO over tiles, shuffled, and a projector that is not divided (vLLM: nano_nemotron_vl.py)."""

from __future__ import annotations

import math

from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, encoder_block, pair, plain, stem_of
from rayllm_ctl.model.facts import Tower

_SIZES = {
    "vit_small_patch16_224": (384, 12, 6, 1536),
    "vit_base_patch16_224": (768, 12, 12, 3072),
    "vit_large_patch16_224": (1024, 24, 16, 4096),
    "vit_huge_patch16_224": (1280, 32, 16, 5120),
}
"""Width, depth, heads and feed-forward width of timm's names, which are all that the config says of them."""


def read_nemotron_vl(source: Source) -> Tower:
    """What sees of Nemotron Nano VL and of the models that also hear (parakeet.py)."""
    config, vision = source.config, source.vision
    args = vision.child("args")
    name = args.text("model")
    if name not in _SIZES:
        raise args.wrong("model", name, f"one of {', '.join(_SIZES)}")
    width, depth, heads, middle = _SIZES[name]
    patch = vision.integer("patch_size", default=16, high=256)
    frames = vision.integer("video_temporal_patch_size", default=1, high=64)
    side = round(args.integer("cpe_max_size", default=2048, high=2**16) / patch)
    teachers = {teacher.text("name") for teacher in args.objects("teachers", longest=64)}
    classes = max(1, len(teachers)) if args.flag("cls_token_per_teacher") else 1
    registers = args.integer("register_multiple", default=0, low=0, high=2**10)
    stem = stem_of(source)
    plain(stem, "embedder", 3 * patch * patch, width)
    if frames > 1:
        plain(stem, "video_embedder", 3 * frames * patch * patch, width)
    plain(stem, "pos_embed", side * side, width)
    plain(stem, "cls_token", classes + (registers - classes % registers if registers else 0), width)
    ratio = max(config.number("downsample_ratio", default=0.5), 0.05)
    merged = config.integer("vit_hidden_size", default=width) * round(1 / ratio) ** 2
    stem.norm(merged)
    pair(stem, merged, config.integer("projector_hidden_size"), source.hidden, bias=False, split=False)
    scales = stem_of(source)
    scales.norm(width, 2)
    size = config.integer("force_image_size", default=512, high=2**14)
    tiles = config.integer("max_dynamic_patch", default=12, high=256) + 1
    patches = tiles * (size // patch) ** 2
    if args.has("min_num_patches"):
        patches = max(args.integer("max_num_patches", low=-1), 0) or patches
    return Tower(
        "image",
        ((encoder_block(source.builder, width, heads, middle), depth), (scales.layer(), depth), (stem.layer(), 1)),
        width,
        math.ceil(patches * ratio * ratio),
        patches,
        patches * 3 * patch * patch,
    )
