"""Encoders of the CLIP and SigLIP kind with their projectors."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.encoders.blocks import (
    Source,
    clip_like,
    depth_of,
    encoder_block,
    feature_depth,
    pair,
    plain,
    stem_of,
)
from rayllm_ctl.catalog.modelconfig.encoders.native import read_pixtral
from rayllm_ctl.catalog.modelconfig.encoders.sizes import vit_sizes
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import MultiModalEncoder


def read_llava(source: Source) -> MultiModalEncoder:
    """LLaVA 1.5 and its kin: CLIP or SigLIP and a projector of two layers."""
    if source.vision.text("model_type") == "pixtral":
        return read_pixtral(source)
    return _llava(source, newline=source.config.has("image_grid_pinpoints"))


def read_llava_next(source: Source) -> MultiModalEncoder:
    """LLaVA-NeXT: an image is cut into crops, with a learned end of their rows."""
    return _llava(source, newline=True)


def read_llava_onevision(source: Source) -> MultiModalEncoder:
    """LLaVA-OneVision: a projector that is not divided."""
    return _llava(source, newline=True, split=False)


def read_llava_video(source: Source) -> MultiModalEncoder:
    """LLaVA-NeXT-Video: a projector that is not divided, and rows of crops that nothing parts."""
    return _llava(source, newline=False, split=False)


def _llava(source: Source, *, newline: bool, split: bool = True) -> MultiModalEncoder:
    blocks, width, patches, pixels = clip_like(source, post_norm=False)
    features = source.config.raw("vision_feature_layer")
    taken = len(features) if isinstance(features, list) and features else 1
    ends = stem_of(source)
    bias = source.config.flag("multimodal_projector_bias", default=True)
    pair(ends, width * taken, source.hidden, source.hidden, bias=bias, split=split)
    if newline:
        ends.norm(source.hidden)
    crops = 5 if source.config.has("image_grid_pinpoints") or newline else 1
    return MultiModalEncoder(
        "image", (*blocks, (ends.layer(), 1)), width, crops * patches, crops * patches, crops * pixels
    )


def read_gemma3(source: Source) -> MultiModalEncoder:
    """Gemma 3, PaliGemma: SigLIP, pooled to a fixed number of tokens."""
    blocks, width, patches, pixels = clip_like(source)
    ends = stem_of(source)
    plain(ends, "mm_input_projection", width, source.hidden)
    ends.norm(width)
    tokens = source.config.integer("mm_tokens_per_image", default=256)
    return MultiModalEncoder("image", (*blocks, (ends.layer(), 1)), width, tokens, patches, pixels)


def read_idefics3(source: Source) -> MultiModalEncoder:
    """Idefics 3, SmolVLM: SigLIP with pixel shuffle."""
    blocks, width, patches, pixels = clip_like(source)
    scale = source.config.integer("scale_factor", default=2, high=64)
    ends = stem_of(source)
    plain(ends, "modality_projection", width * scale * scale, source.hidden)
    crops = 17
    tokens = crops * patches // (scale * scale)
    return MultiModalEncoder("image", (*blocks, (ends.layer(), 1)), width, tokens, crops * patches, crops * pixels)


def read_cohere_vision(source: Source) -> MultiModalEncoder:
    """Aya Vision and Command A Vision: SigLIP with a gated projector."""
    blocks, width, patches, pixels = clip_like(source)
    factor = source.config.integer("downsample_factor", default=2, high=64)
    middle = source.config.integer(
        "alignment_intermediate_size", "adapter_layer_intermediate_size", default=source.hidden * 2
    )
    ends = stem_of(source)
    plain(ends, "linear_1", width * factor * factor, middle, bias=True, split=True)
    ends.linear("linear_2", middle // 2, source.hidden, "row", bias=True, quantizable=False)
    crops = 13
    tokens = crops * patches // (factor * factor)
    return MultiModalEncoder("image", (*blocks, (ends.layer(), 1)), width, tokens, crops * patches, crops * pixels)


def read_phi3v(source: Source) -> MultiModalEncoder:
    """Phi-3 and 3.5 Vision: CLIP ViT-L/14 at 336 pixels, whose sizes the config leaves out, up to 16 crops."""
    sizes = Fields({"model_type": "clip_vision_model", "hidden_size": 1024, "num_hidden_layers": 24})
    blocks, width, patches, pixels = clip_like(
        Source(Fields({"vision_feature_layer": -2}), sizes, source.hidden, source.builder)
    )
    stem = stem_of(source)
    pair(stem, width * 4, source.hidden, source.hidden, bias=True, split=False)
    stem.norm(width * 4, 2)
    crops = 17
    return MultiModalEncoder("image", (*blocks, (stem.layer(), 1)), width, 1921, patches * crops, pixels * crops)


def read_mllama(source: Source) -> MultiModalEncoder:
    """Llama 3.2 Vision: four tiles of 560 pixels through local and global blocks."""
    width = source.vision.integer("hidden_size", default=1280)
    heads = source.vision.integer("attention_heads", "num_attention_heads", default=16, high=MOST_HEADS)
    middle = source.vision.integer("intermediate_size", default=5120)
    size, patch = (
        source.vision.integer("image_size", default=560, high=2**14),
        source.vision.integer("patch_size", default=14, high=256),
    )
    tiles = source.vision.integer("max_num_tiles", default=4, high=64)
    ratios = (
        len(source.vision.raw("supported_aspect_ratios") or [])
        if isinstance(source.vision.raw("supported_aspect_ratios"), list)
        else 8
    )
    patches = (size // patch) ** 2 + 1
    block = encoder_block(source.builder, width, heads, middle, bias=False, mlp_bias=True)
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width)
    plain(stem, "positions", patches * (1 + tiles * (ratios + 1)) + 2 * tiles * (ratios + 1), width)
    stem.norm(width, 2, bias=True)
    out = source.vision.integer("vision_output_dim", default=7680)
    plain(stem, "multi_modal_projector", out, source.hidden, bias=True)
    depth = depth_of(source.vision, default=32) + depth_of(source.vision, "num_global_layers", default=8)
    return MultiModalEncoder(
        "image", ((block, depth), (stem.layer(), 1)), width, patches * tiles, patches * tiles, 3 * size * size * tiles
    )


def read_lfm2(source: Source) -> MultiModalEncoder:
    """LFM2-VL: SigLIP 2 over patches in the image's own shape, two by two folded into one."""
    vision, hidden = source.vision, source.hidden
    width, heads, middle, patch = vit_sizes(vision, width=768, heads=12, middle=3072, patch=16)
    block = encoder_block(source.builder, width, heads, middle)
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    plain(stem, "position_embedding", vision.integer("num_patches", default=256), width)
    stem.norm(width, bias=True)
    factor = source.config.integer("downsample_factor", default=2, high=64)
    middle = source.config.integer("projector_hidden_size", default=2560)
    bias = source.config.flag("projector_bias", default=True)
    if source.config.flag("projector_use_layernorm", default=True):
        stem.norm(width * factor * factor, bias=True)
    plain(stem, "linear_1", width * factor * factor, middle, bias=bias)
    plain(stem, "linear_2", middle, hidden, bias=bias)
    built = feature_depth(source.config, depth_of(vision, default=12))
    tokens = source.config.integer("max_image_tokens", default=256) * source.config.integer("max_tiles", default=10)
    patches = tokens * factor * factor
    return MultiModalEncoder(
        "image", ((block, built), (stem.layer(), 1)), width, tokens, patches, patches * 3 * patch * patch
    )
