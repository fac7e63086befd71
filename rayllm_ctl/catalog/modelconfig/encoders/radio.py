"""Nemotron Nano VL: C-RADIO over tiles, shuffled, and a projector that is not divided (vLLM: nano_nemotron_vl.py and,
for the first model, nemotron_vl.py)."""

from __future__ import annotations

import math
from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.builder import LayerBuilder
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, encoder_block, pair, plain, stem_of
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import Layer, MultiModalEncoder

_SIZES = {
    "vit_small_patch16_224": (384, 12, 6, 1536), "vit_base_patch16_224": (768, 12, 12, 3072),
    "vit_large_patch16_224": (1024, 24, 16, 4096), "vit_huge_patch16_224": (1280, 32, 16, 5120),
}  # fmt: skip
"""Width, depth, heads and feed-forward width of timm's names, which are all that the config says of them."""


def read_nemotron_vl(source: Source) -> MultiModalEncoder:
    """The vision encoder of Nemotron Nano VL and of the Omni models, which also take sound (parakeet.py)."""
    config, vision = source.config, source.vision
    args = vision.child("args")
    width, depth, heads, middle = _sizes(args)
    patch = vision.integer("patch_size", default=16, high=256)
    frames = vision.integer("video_temporal_patch_size", default=1, high=64)
    stem = stem_of(source)
    if frames > 1:
        plain(stem, "video_embedder", 3 * frames * patch * patch, width)
    _patches(stem, args, patch, width)
    ratio, merged = _shuffle(config, config.integer("vit_hidden_size", default=width))
    stem.norm(merged)
    pair(stem, merged, config.integer("projector_hidden_size"), source.hidden, bias=False, split=False)
    scales = stem_of(source)
    scales.norm(width, 2)
    block = encoder_block(source.builder, width, heads, middle)
    patches = _tiles(config, patch)
    if args.has("min_num_patches"):
        # Images are cut by their own shape then.
        patches = max(args.integer("max_num_patches", low=-1), 0) or patches
    return _encoder(((block, depth), (scales.layer(), depth), (stem.layer(), 1)), width, patches, patch, ratio)


def read_llama_nemotron_vl(source: Source) -> MultiModalEncoder:
    """The encoder comes with the checkpoint (radio/hf_model.py of NVlabs/RADIO): it is not divided, and of a dtype of
    its own, float32 if its config does not say."""
    config, vision = source.config, source.vision
    args = vision.child("args")
    for part, name in (
        (vision, "adaptor_names"),
        (vision, "feature_normalizer_config"),
        (vision, "inter_feature_normalizer_config"),
        (args, "cpe_num_registers"),
    ):
        if part.raw(name):
            raise part.wrong(name, part.raw(name), "absent: what it adds to the encoder is not known here")
    if not args.has("cpe_max_size"):
        raise args.missing("cpe_max_size")
    width, depth, heads, middle = _sizes(args)
    patch = vision.integer("patch_size", default=16, high=256)
    stem = stem_of(source)
    _patches(stem, args, patch, width)
    if args.flag("model_norm"):
        stem.norm(width, bias=True)
    blocks = [(encoder_block(source.builder, width, heads, middle, split=False), depth), (stem.layer(), 1)]
    if args.text("dtype", default="float32").removeprefix("torch.") == "float32":
        blocks = [(_in_float32(layer), count) for layer, count in blocks]
    ratio, merged = _shuffle(config, config.integer("vit_hidden_size", default=width))
    ends = stem_of(source)
    ends.norm(merged, bias=True)
    pair(ends, merged, config.integer("projector_hidden_size"), source.hidden, bias=True, split=False)
    return replace(_encoder((*blocks, (ends.layer(), 1)), width, _tiles(config, patch), patch, ratio), sharded=False)


def _sizes(args: Fields) -> tuple[int, int, int, int]:
    name = args.text("model")
    if name not in _SIZES:
        raise args.wrong("model", name, f"one of {', '.join(_SIZES)}")
    return _SIZES[name]


def _patches(stem: LayerBuilder, args: Fields, patch: int, width: int) -> None:
    """Patches, positions of the largest image, and the tokens that stand before them."""
    side = round(args.integer("cpe_max_size", default=2048, high=2**16) / patch)
    teachers = {teacher.text("name") for teacher in args.objects("teachers", longest=64)}
    classes = max(1, len(teachers)) if args.flag("cls_token_per_teacher") else 1
    multiple = args.integer("register_multiple", default=0, low=0, high=2**10)
    plain(stem, "embedder", 3 * patch * patch, width)
    plain(stem, "pos_embed", side * side, width)
    plain(stem, "cls_token", classes + (multiple - classes % multiple if multiple else 0), width)


def _shuffle(config: Fields, width: int) -> tuple[float, int]:
    """(the share of positions along a side that are left, features of each)."""
    ratio = max(config.number("downsample_ratio", default=0.5), 0.05)
    return ratio, width * round(1 / ratio) ** 2


def _in_float32(layer: Layer) -> Layer:
    return replace(
        layer,
        linears=tuple(replace(linear, float32=True) for linear in layer.linears),
        vectors=tuple(replace(vector, float32=True) for vector in layer.vectors),
    )


def _tiles(config: Fields, patch: int) -> int:
    """Patches of the largest image: all tiles and an overview."""
    size = config.integer("force_image_size", default=512, high=2**14)
    return (config.integer("max_dynamic_patch", default=12, high=256) + 1) * (size // patch) ** 2


def _encoder(
    blocks: tuple[tuple[Layer, int], ...], width: int, patches: int, patch: int, ratio: float
) -> MultiModalEncoder:
    tokens = math.ceil(patches * ratio * ratio)
    return MultiModalEncoder("image", blocks, width, tokens, patches, patches * 3 * patch * patch)
