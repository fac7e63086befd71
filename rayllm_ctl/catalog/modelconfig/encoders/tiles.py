"""Encoders that cut an image into tiles of one size, or pool it: Llama 4, InternVL, DeepSeek-VL2, Gemma 4."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.encoders.blocks import (
    Source,
    depth_of,
    encoder_block,
    feature_depth,
    pair,
    plain,
    stem_of,
)
from rayllm_ctl.catalog.modelconfig.encoders.sizes import vit_sizes
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import MultiModalEncoder


def read_llama4(source: Source) -> MultiModalEncoder:
    """Llama 4: tiles of 336 pixels, shuffled down to 144 tokens; at most 16 tiles and an overview."""
    width = source.vision.integer("hidden_size", default=768)
    heads = source.vision.integer("num_attention_heads", default=16, high=MOST_HEADS)
    middle = source.vision.integer("intermediate_size", default=5632)
    size, patch = (
        source.vision.integer("image_size", default=448, high=2**14),
        source.vision.integer("patch_size", default=14, high=256),
    )
    patches = (size // patch) ** 2
    ratio = source.vision.number("pixel_shuffle_ratio", default=0.5)
    block = encoder_block(source.builder, width, heads, middle)
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, split=True)
    plain(stem, "positional_embedding", patches + 1, width)
    stem.norm(width)
    stem.norm(width, 2, bias=True)
    inner, out = (
        source.vision.integer("projector_input_dim", default=4096),
        source.vision.integer("projector_output_dim", default=4096),
    )
    pair(stem, middle, inner, out, bias=source.vision.flag("multi_modal_projector_bias"))
    plain(stem, "projector", source.vision.integer("vision_output_dim", default=7680), source.hidden, split=True)
    tiles = 17
    tokens = int(patches * ratio * ratio) * tiles
    return MultiModalEncoder(
        "image",
        ((block, depth_of(source.vision, default=34)), (stem.layer(), 1)),
        width,
        tokens,
        patches * tiles,
        3 * size * size * tiles,
    )


def read_gemma4(source: Source) -> MultiModalEncoder:
    """Gemma 4: an encoder that vLLM takes from transformers, not divided by tensor parallelism."""
    width, heads, middle, patch = vit_sizes(source.vision, width=1152, heads=16, middle=4304, patch=16)
    block = encoder_block(
        source.builder,
        width,
        heads,
        middle,
        gated=True,
        bias=False,
        norm_bias=False,
        norms=4,
        split=False,
    )
    head_norms = stem_of(source)
    head_norms.norm(source.vision.integer("head_dim", default=max(1, width // heads)), 2)
    stem = stem_of(source)
    plain(stem, "position_embedding_table", 2 * source.vision.integer("position_embedding_size", default=10240), width)
    plain(stem, "input_proj", 3 * patch * patch, width)
    plain(stem, "embedding_projection", width, source.hidden)
    stem.norm(width, 2)
    depth = depth_of(source.vision, default=27)
    tokens = source.config.integer("vision_soft_tokens_per_image", default=280)
    pool = source.vision.integer("pooling_kernel_size", default=3, high=64)
    patches = tokens * pool * pool
    return MultiModalEncoder(
        "image",
        ((block, depth), (head_norms.layer(), depth), (stem.layer(), 1)),
        width,
        tokens,
        patches,
        patches * 3 * patch * patch,
        sharded=False,
    )


def read_gemma4_unified(source: Source) -> MultiModalEncoder:
    """Gemma 4 12B: no encoder; patches go through one layer into the decoder, which sees them itself."""
    vision = source.vision
    if not source.config.has("vision_config"):
        raise source.config.missing("vision_config")
    side = vision.integer("patch_size", default=16, high=256) * vision.integer(
        "pooling_kernel_size", default=3, high=64
    )
    width = vision.integer("mm_embed_dim", default=3840)
    stem = stem_of(source)
    stem.norm(3 * side * side, bias=True)
    plain(stem, "patch_dense", 3 * side * side, width, bias=True, split=True)
    stem.norm(width, 2, bias=True)
    plain(stem, "pos_embedding", 2 * vision.integer("mm_posemb_size", default=1120), width)
    plain(stem, "embed_vision", vision.integer("output_proj_dims", default=3840), source.hidden)
    if source.config.has("audio_config"):
        sound = source.config.child("audio_config")
        plain(stem, "embed_audio", sound.integer("audio_embed_dim", default=640), source.hidden)
    tokens = vision.integer("num_soft_tokens", default=280, high=2**20)
    return MultiModalEncoder("image", ((stem.layer(), 1),), width, tokens, tokens, tokens * 3 * side * side)


def read_intern(source: Source) -> MultiModalEncoder:
    """InternViT (InternVL 2 to 3.5). In transformers' form (text_config) vLLM does not divide its attention."""
    return _intern(source, split_attention=not source.config.has("text_config"))


def read_qianfan(source: Source) -> MultiModalEncoder:
    """Qianfan-OCR: InternVL's own form under other names."""
    return _intern(source, split_attention=True)


def _intern(source: Source, *, split_attention: bool) -> MultiModalEncoder:
    """Tiles of 448 pixels, at most 12 and an overview, shuffled to 256 tokens each."""
    width = source.vision.integer("hidden_size", default=1024)
    heads = source.vision.integer("num_attention_heads", default=16, high=MOST_HEADS)
    middle = source.vision.integer("intermediate_size", default=4096)
    size, patch = (
        source.vision.integer_at(0, "image_size", default=448),
        source.vision.integer_at(0, "patch_size", default=14),
    )
    patches = (size // patch) ** 2
    rms = source.vision.text("norm_type", default="layer_norm").startswith("rms")
    bias = source.vision.flag("qkv_bias", "attention_bias", default=True)
    block = encoder_block(
        source.builder,
        width,
        heads,
        middle,
        bias=bias,
        mlp_bias=True,
        out_bias=True,
        norm_bias=not rms,
        split_attention=split_attention,
    )
    scales = stem_of(source)
    scales.norm(width, 2)
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    plain(stem, "position_embedding", patches + 2, width)
    shuffle = source.config.number("downsample_ratio", default=0.5)
    merged = int(width / max(shuffle, 0.05) ** 2)
    stem.norm(merged, bias=True)
    pair(stem, merged, source.hidden, source.hidden, bias=True, split=False)
    depth = feature_depth(
        Fields({"vision_feature_layer": source.config.raw("select_layer")}), depth_of(source.vision, default=24)
    )
    tiles = source.config.integer("max_dynamic_patch", default=12, high=256) + 1
    tokens = int(patches * shuffle * shuffle) * tiles
    return MultiModalEncoder(
        "image",
        ((block, depth), (scales.layer(), depth), (stem.layer(), 1)),
        width,
        tokens,
        patches * tiles,
        3 * size * size * tiles,
    )


def read_deepseek_vl2(source: Source) -> MultiModalEncoder:
    """DeepSeek-VL2 and DeepSeek-OCR: SigLIP from timm, not divided, and a projector of two layers."""
    width = source.vision.integer("width", "hidden_size", default=1152)
    depth = depth_of(source.vision, "layers", "num_hidden_layers", default=27)
    middle = int(width * source.vision.number("mlp_ratio", default=3.7362))
    size, patch = (
        source.vision.integer("image_size", default=384, high=2**14),
        source.vision.integer("patch_size", default=14, high=256),
    )
    patches = (size // patch) ** 2
    block = encoder_block(source.builder, width, 16, middle, split=False)
    stem = stem_of(source)
    plain(stem, "patch_embed", 3 * patch * patch, width, bias=True)
    plain(stem, "pos_embed", patches, width)
    stem.norm(width, bias=True)
    pair(stem, width * 4, source.hidden, source.hidden, bias=True, split=False)
    stem.norm(source.hidden, 2)
    tiles = 10
    tokens = patches // 4 * tiles
    return MultiModalEncoder(
        "image",
        ((block, depth), (stem.layer(), 1)),
        width,
        tokens,
        patches * tiles,
        3 * size * size * tiles,
        sharded=False,
    )
