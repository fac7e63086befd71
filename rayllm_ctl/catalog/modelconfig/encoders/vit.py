"""Encoders of the CLIP kind with projectors of their own: R-4B, Eagle 2.5, Isaac, MiniMax M3, GLM-4V, Aria, Moondream,
Phi-4-reasoning-vision."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.encoders.blocks import (
    Source,
    clip_like,
    depth_of,
    encoder_block,
    pair,
    plain,
    stem_of,
)
from rayllm_ctl.catalog.modelconfig.encoders.sizes import vit_sizes
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import MultiModalEncoder


def read_r4b(source: Source) -> MultiModalEncoder:
    """R-4B: LLaVA-OneVision with a projector that starts with a norm and is not divided."""
    return _normed(source, source.hidden)


def read_bee(source: Source) -> MultiModalEncoder:
    """Bee: R-4B's, with a projector four times as wide."""
    return _normed(source, 4 * source.hidden)


def _normed(source: Source, middle: int) -> MultiModalEncoder:
    blocks, width, patches, pixels = clip_like(source, post_norm=False)
    stem = stem_of(source)
    stem.norm(width, bias=True)
    pair(stem, width, middle, source.hidden, bias=True, split=False)
    stem.norm(source.hidden)
    crops = 5
    return MultiModalEncoder(
        "image", (*blocks, (stem.layer(), 1)), width, crops * patches, crops * patches, crops * pixels
    )


def read_eagle(source: Source) -> MultiModalEncoder:
    """Eagle 2.5: SigLIP up to the chosen layer, shuffled; up to 12 tiles and an overview."""
    depth = depth_of(source.vision, default=12)
    layer = source.config.integer("select_layer", default=-1, low=-depth, high=depth - 1)
    chosen = Fields({"vision_feature_layer": layer if layer < 0 else layer + 1})
    blocks, width, patches, pixels = clip_like(Source(chosen, source.vision, source.hidden, source.builder))
    side = int(1 / max(source.config.number("downsample_ratio", default=0.5), 0.05))
    merged = width * max(side, 1) ** 2
    stem = stem_of(source)
    stem.norm(merged, bias=True)
    pair(stem, merged, source.hidden, source.hidden, bias=True, split=False)
    tiles = source.config.integer("max_dynamic_tiles", "max_dynamic_patch", default=12, high=256) + 1
    tokens = patches * width // merged * tiles
    return MultiModalEncoder("image", (*blocks, (stem.layer(), 1)), width, tokens, tiles * patches, tiles * pixels)


def read_isaac(source: Source) -> MultiModalEncoder:
    """Isaac: SigLIP 2 over patches in the image's own shape, shuffled, then a projector four times as wide."""
    vision = source.vision
    width, heads, middle, patch = vit_sizes(vision, width=1152, heads=16, middle=4304, patch=16)
    block = encoder_block(source.builder, width, heads, middle)
    fold = vision.integer("pixel_shuffle_scale_factor", default=1, high=64) ** 2
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    plain(stem, "position_embedding", vision.integer("num_patches", default=256), width)
    stem.norm(width, bias=True)
    pair(stem, width * fold, 4 * width * fold, source.hidden, bias=False)
    patches = source.config.integer("vision_max_num_patches", default=6144)
    return MultiModalEncoder(
        "image",
        ((block, depth_of(vision, default=27)), (stem.layer(), 1)),
        width,
        patches // fold,
        patches,
        patches * 3 * patch * patch,
    )


def read_minimax_m3(source: Source) -> MultiModalEncoder:
    """MiniMax M3: blocks over pairs of frames; a projector, then a merger of what it gave."""
    vision, hidden = source.vision, source.hidden
    width, heads, middle, patch = vit_sizes(vision, width=1280, heads=16, middle=5120, patch=14)
    size = vision.integer("image_size", default=2016, high=2**14)
    compression = vision.child("img_token_compression_config")
    frames = compression.integer("temporal_patch_size", default=2, high=64)
    merge = compression.integer("spatial_merge_size", default=2, high=64)
    inner = source.config.integer("projector_hidden_size", default=hidden)
    block = encoder_block(source.builder, width, heads, middle)
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * frames * patch * patch, width)
    stem.norm(width, bias=True)
    pair(stem, width, inner, hidden, bias=vision.flag("multimodal_projector_bias", default=True))
    pair(stem, hidden * merge * merge, inner, hidden, bias=vision.flag("patch_merge_bias", default=True))
    patches = (size // patch) ** 2
    return MultiModalEncoder(
        "image",
        ((block, depth_of(vision, default=32)), (stem.layer(), 1)),
        width,
        patches // (merge * merge),
        patches,
        patches * 3 * frames * patch * patch,
    )


def read_eva(source: Source) -> MultiModalEncoder:
    """GLM-4V: EVA-02 CLIP, a convolution over two by two patches and a gated projector of the decoder's width."""
    vision, hidden = source.vision, source.hidden
    width = vision.integer("hidden_size")
    heads = vision.integer("num_heads", high=MOST_HEADS)
    size = vision.integer("image_size", high=2**14)
    patch = vision.integer("patch_size", high=256)
    block = encoder_block(source.builder, width, heads, vision.integer("intermediate_size"))
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    plain(stem, "position_embedding", vision.integer("num_positions") + 1, width)
    plain(stem, "conv", 4 * width, hidden, bias=True)
    plain(stem, "linear_proj", hidden, hidden)
    stem.norm(hidden, bias=True)
    stem.mlp(hidden, source.config.integer("ffn_hidden_size"), prefix="linear_proj.", quantizable=False)
    stem.norm(hidden, 2)
    patches = (size // patch) ** 2
    return MultiModalEncoder(
        "image", ((block, depth_of(vision)), (stem.layer(), 1)), width, patches // 4 + 2, patches, 3 * size * size
    )


def read_aria(source: Source) -> MultiModalEncoder:
    """Aria: SigLIP without its last norm; queries that attend to the patches, as many as the largest image has."""
    vision, hidden = source.vision, source.hidden
    width, heads, middle, patch = vit_sizes(vision, width=1152, heads=16, middle=3072, patch=32)
    size = vision.integer("image_size", default=224, high=2**14)
    patches = (size // patch) ** 2
    counts = source.config.child("projector_patch_to_query_dict")
    queries = max((counts.integer(name, high=2**20) for name in counts.entries()), default=256)
    block = encoder_block(source.builder, width, heads, middle)
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    plain(stem, "position_embedding", patches, width)
    plain(stem, "query", queries, width)
    for name in ("q_proj", "k_proj", "v_proj"):
        plain(stem, name, width, width)
    plain(stem, "multihead_attn.in_proj", width, 3 * width, bias=True)
    plain(stem, "multihead_attn.out_proj", width, width, bias=True)
    plain(stem, "linear", width, width, bias=True)
    stem.norm(width, 3, bias=True)
    pair(stem, width, hidden, hidden, bias=False)
    return MultiModalEncoder(
        "image", ((block, depth_of(vision, default=12)), (stem.layer(), 1)), width, queries, patches, 3 * size * size
    )


def read_phi4_siglip(source: Source) -> MultiModalEncoder:
    """Phi-4-reasoning-vision: SigLIP 2 over patches in the image's own shape, up to the last layer but one; the
    outputs of all are kept."""
    vision = source.vision
    width, heads, middle, patch = vit_sizes(vision, width=768, heads=12, middle=3072, patch=16)
    block = encoder_block(source.builder, width, heads, middle)
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    plain(stem, "position_embedding", vision.integer("num_patches", default=256), width)
    pair(stem, source.config.integer("mm_hidden_size"), source.hidden, source.hidden, bias=True)
    depth = depth_of(vision, default=12) - 1
    patches = source.config.integer("max_num_patches", default=3600, high=2**20)
    blocks = ((block, depth), (stem.layer(), 1))
    return MultiModalEncoder("image", blocks, width, patches, patches, patches * 3 * patch * patch, kept=depth + 1)


def moondream_text(config: Fields) -> str:
    """The text model; the first two Moondreams, whose configs name the same architecture, are refused."""
    if config.text("model_type", default="moondream3") != "moondream3":
        raise config.wrong("model_type", config.raw("model_type"), "moondream3")
    return "Moondream3TextModel"


def read_moondream(source: Source) -> MultiModalEncoder:
    """Moondream 3: SigLIP over a crop and an overview, whose features the projector takes together."""
    vision = source.config.child("config").child("vision")
    width = vision.integer("enc_dim", default=1152)
    heads = vision.integer("enc_n_heads", default=16, high=MOST_HEADS)
    size = vision.integer("crop_size", default=378, high=2**14)
    patch = vision.integer("enc_patch_size", default=14, high=256)
    patches = (size // patch) ** 2
    block = encoder_block(source.builder, width, heads, vision.integer("enc_ff_dim", default=4304))
    stem = stem_of(source)
    plain(stem, "patch_emb", 3 * patch * patch, width, bias=True)
    plain(stem, "pos_emb", patches, width)
    stem.norm(width, bias=True)
    pair(stem, 2 * width, vision.integer("proj_inner_dim", default=8192), source.hidden, bias=True)
    return MultiModalEncoder(
        "image",
        ((block, depth_of(vision, "enc_n_layers", default=27)), (stem.layer(), 1)),
        width,
        patches + 1,
        2 * patches,
        2 * 3 * size * size,
    )
