"""Encoders that take an image in its own shape: Pixtral, Qwen-VL, MoonViT, GLM-V."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.builder import LayerBuilder
from rayllm_ctl.catalog.modelconfig.encoders.blocks import (
    TEXT_PARTS,
    Source,
    depth_of,
    encoder_block,
    pair,
    plain,
    stem_of,
)
from rayllm_ctl.catalog.modelconfig.encoders.sizes import vit_sizes
from rayllm_ctl.model.facts import Layer, MultiModalEncoder


def read_pixtral(source: Source) -> MultiModalEncoder:
    """Pixtral's encoder (Mistral Small 3.1, Pixtral): gated blocks with RMS norms, patches merged two by two."""
    width, heads, middle, patch = vit_sizes(source.vision, width=1024, heads=16, middle=4096, patch=16)
    size = source.vision.integer("image_size", default=1024, high=2**14)
    block = encoder_block(source.builder, width, heads, middle, gated=True, bias=False, norm_bias=False)
    stem = stem_of(source)
    plain(stem, "patch_conv", 3 * patch * patch, width)
    stem.norm(width)
    merge = source.config.integer("spatial_merge_size", default=1, high=64)
    if merge > 1 or source.config.has("multimodal_projector_bias"):
        merge = max(merge, 2)
        stem.norm(width)
        plain(stem, "patch_merger", width * merge * merge, width)
    pair(stem, width, source.hidden, source.hidden, bias=source.config.flag("multimodal_projector_bias"))
    side = size // patch
    rows = side // merge
    return MultiModalEncoder(
        "image",
        ((block, depth_of(source.vision, default=24)), (stem.layer(), 1)),
        width,
        rows * rows + rows,
        side * side,
        3 * size * size,
        masked=True,
    )


def read_qwen2_vl(source: Source) -> MultiModalEncoder:
    """Qwen2-VL and Qwen2.5-VL. The largest image is 12845056 pixels (preprocessor_config.json): 16384 tokens.

    EXAONE 4.5 has fewer heads for keys and values than for queries.
    """
    newer = source.vision.has("out_hidden_size") or source.vision.has("fullatt_block_indexes")
    width = source.vision.integer("hidden_size" if newer else "embed_dim", default=1280)
    heads = source.vision.integer("num_heads", default=16, high=MOST_HEADS)
    middle = (
        source.vision.integer("intermediate_size", default=3420)
        if newer
        else int(width * source.vision.number("mlp_ratio", default=4))
    )
    patch = source.vision.integer("patch_size", default=14, high=256)
    merge = source.vision.integer("spatial_merge_size", default=2, high=64)
    kv_heads = source.vision.integer("num_key_value_heads", default=0, low=0, high=MOST_HEADS)
    block = encoder_block(source.builder, width, heads, middle, gated=newer, norm_bias=not newer, kv_heads=kv_heads)
    stem = stem_of(source)
    frames = source.vision.integer("temporal_patch_size", default=2, high=64)
    plain(stem, "patch_embed", 3 * frames * patch * patch, width)
    merged = width * merge * merge
    stem.norm(width, bias=not newer)
    stem.linear("merger.mlp.0", merged, merged, "column", bias=True, quantizable=False)
    stem.linear(
        "merger.mlp.2",
        merged,
        source.vision.integer("out_hidden_size", default=source.hidden),
        "row",
        bias=True,
        quantizable=False,
    )
    patches = 16384 * merge * merge
    pixels = patches * 3 * frames * patch * patch
    return MultiModalEncoder(
        "image",
        ((block, depth_of(source.vision, "depth", default=32)), (stem.layer(), 1)),
        width,
        16384,
        patches,
        pixels,
    )


def read_hyperclova(source: Source) -> MultiModalEncoder:
    """HyperCLOVA X Vision 2: Qwen2.5-VL's, and one projection into the decoder."""
    vision = source.vision
    width = vision.integer("hidden_size", default=1280)
    out = vision.integer("out_hidden_size", default=width)
    encoder = read_qwen2_vl(Source(source.config, vision, out, source.builder))
    ends = stem_of(source)
    plain(ends, "mm_projector", out, source.hidden, bias=True)
    return replace(encoder, blocks=(*encoder.blocks, (ends.layer(), 1)))


def read_qwen3_vl(source: Source) -> MultiModalEncoder:
    """Qwen3-VL and Qwen3.5: a merger for the last layer and for each deepstack layer. Images of up to 16384 tokens."""
    width = source.vision.integer("hidden_size", default=1152)
    heads = source.vision.integer("num_heads", default=16, high=MOST_HEADS)
    patch = source.vision.integer("patch_size", default=16, high=256)
    merge = source.vision.integer("spatial_merge_size", default=2, high=64)
    out = source.vision.integer("out_hidden_size", default=source.hidden)
    block = encoder_block(source.builder, width, heads, source.vision.integer("intermediate_size", default=4304))
    stem = stem_of(source)
    frames = source.vision.integer("temporal_patch_size", default=2, high=64)
    plain(stem, "patch_embed", 3 * frames * patch * patch, width, bias=True)
    plain(stem, "pos_embed", source.vision.integer("num_position_embeddings", default=2304), width)
    merged = width * merge * merge
    deep = len(source.vision.integers("deepstack_visual_indexes", longest=64))
    for index in range(1 + deep):
        stem.norm(width if index == 0 else merged, bias=True)
        stem.linear("merger.linear_fc1", merged, merged, "column", bias=True, quantizable=False)
        stem.linear("merger.linear_fc2", merged, out, "row", bias=True, quantizable=False)
    patches = 16384 * merge * merge
    pixels = patches * 3 * frames * patch * patch
    return MultiModalEncoder(
        "image",
        ((block, depth_of(source.vision, "depth", default=27)), (stem.layer(), 1)),
        width,
        16384,
        patches,
        pixels,
        levels=deep,
    )


def read_moonvit(source: Source) -> MultiModalEncoder:
    """MoonViT (Kimi-VL, Kimi K2.5 and K3): at most 4096 patches an image in Kimi-VL, 16384 later."""
    newer = source.vision.has("vt_hidden_size")
    width = source.vision.integer("vt_hidden_size", "hidden_size", default=1152)
    heads = source.vision.integer("vt_num_attention_heads", "num_attention_heads", default=16, high=MOST_HEADS)
    middle = source.vision.integer("vt_intermediate_size", "intermediate_size", default=4304)
    patch = source.vision.integer("patch_size", default=14, high=256)
    merge = source.vision.integers("merge_kernel_size", low=1, longest=4) or (2, 2)
    rms = source.vision.text("norm_type") == "rmsnorm"
    block = encoder_block(
        source.builder,
        width,
        heads,
        middle,
        bias=source.vision.flag("attn_bias", default=True),
        mlp_bias=source.vision.flag("linear_bias", default=True),
        norm_bias=not rms,
        inner=source.vision.integer("qkv_hidden_size", default=width),
    )
    stem = stem_of(source)
    plain(stem, "patch_embed", 3 * patch * patch, width, bias=source.vision.flag("patch_embed_proj_bias", default=True))
    rows = source.vision.integer("init_pos_emb_height", default=64) * source.vision.integer(
        "init_pos_emb_width", default=64
    )
    plain(stem, "pos_emb", rows, width)
    stem.norm(width, bias=not rms)
    merged = width * merge[0] * merge[-1]
    second = source.vision.text("mm_projector_type").endswith("v2")
    if second:
        stem.norm(source.hidden)
    else:
        stem.norm(width, bias=True)
    pair(stem, merged, merged, source.hidden, bias=not second, split=False)
    patches = 16384 if newer else 4096
    depth = depth_of(source.vision, "vt_num_hidden_layers", "num_hidden_layers", default=27)
    return MultiModalEncoder(
        "image",
        ((block, depth), (stem.layer(), 1)),
        width,
        patches // (merge[0] * merge[-1]),
        patches,
        patches * 3 * patch * patch,
    )


def read_glm4v(source: Source) -> MultiModalEncoder:
    """GLM-4.1V and GLM-4.5V/4.6V: gated blocks without biases, a convolution and a gated merger."""
    vision = source.vision
    width = vision.integer("hidden_size", default=1536)
    heads = vision.integer("num_heads", "num_attention_heads", default=12, high=MOST_HEADS)
    out = vision.integer("out_hidden_size", default=source.hidden)
    middle = vision.integer("intermediate_size", default=13696)
    patch = vision.integer("patch_size", default=14, high=256)
    size = vision.integer("image_size", default=336, high=2**14)
    block = encoder_block(source.builder, width, heads, out, gated=True, bias=False, norm_bias=False)
    stem = stem_of(source)
    plain(stem, "position_embedding", (size // patch) ** 2, width)
    stem.norm(width)
    return _glm(source, block, stem, width, out, middle)


def read_glm_ocr(source: Source) -> MultiModalEncoder:
    """GLM-OCR: GLM-4V's with biases and norms of heads, no position table, a merger as wide as the decoder's MLP."""
    vision = source.vision
    width = vision.integer("hidden_size", default=1024)
    heads = vision.integer("num_heads", "num_attention_heads", default=16, high=MOST_HEADS)
    out = vision.integer("out_hidden_size", default=1536)
    middle = vision.integer("intermediate_size", default=4096)
    block = encoder_block(source.builder, width, heads, middle, gated=True, norm_bias=False, head_norms=True)
    merger = source.config.child(*TEXT_PARTS).integer("intermediate_size", default=4096)
    return _glm(source, block, stem_of(source), width, out, merger)


def _glm(source: Source, block: Layer, stem: LayerBuilder, width: int, out: int, middle: int) -> MultiModalEncoder:
    """What stands around the blocks of GLM's encoders. Images of up to 6144 tokens."""
    vision = source.vision
    patch = vision.integer("patch_size", default=14, high=256)
    merge = vision.integer("spatial_merge_size", default=2, high=64)
    frames = vision.integer("temporal_patch_size", default=2, high=64)
    plain(stem, "patch_embed", 3 * frames * patch * patch, width, bias=True)
    stem.norm(width)
    plain(stem, "downsample", width * merge * merge, out, bias=True)
    plain(stem, "merger.proj", out, out, split=True)
    stem.norm(out, bias=True)
    stem.mlp(out, middle, prefix="merger.", quantizable=False)
    patches = 6144 * merge * merge
    return MultiModalEncoder(
        "image",
        ((block, depth_of(vision, "depth", "num_hidden_layers", default=24)), (stem.layer(), 1)),
        width,
        6144,
        patches,
        patches * 3 * frames * patch * patch,
    )


def read_hunyuan(source: Source) -> MultiModalEncoder:
    """HunYuanOCR: a table of positions for the largest image, and convolutions that widen what they merge.

    As in vLLM's own model (0.20); 0.29 runs it through transformers, which may leave the encoder undivided.
    """
    vision = source.vision
    width, heads, middle, patch = vit_sizes(vision, width=1152, heads=16, middle=4304, patch=16)
    out = vision.integer("out_hidden_size", default=4096)
    merge = vision.integer("spatial_merge_size", default=2, high=64)
    patches = (vision.integer("max_image_size", default=2048, high=2**14) // patch) ** 2
    block = encoder_block(source.builder, width, heads, middle)
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    plain(stem, "position_embedding", patches + 1, width)
    plain(stem, "perceive.proj.0", width * merge * merge, 2 * width, bias=True)
    plain(stem, "perceive.proj.2", 2 * width, 4 * width, bias=True)
    plain(stem, "perceive.mlp", 4 * width, out, bias=True)
    stem.norm(4 * width)
    stem.norm(out, 4)
    stem.norm(width)
    side = vision.integer("max_image_size", default=2048, high=2**14) // (patch * merge)
    return MultiModalEncoder(
        "image",
        ((block, depth_of(vision, default=27)), (stem.layer(), 1)),
        width,
        side * (side + 1) + 2,
        patches,
        patches * 3 * patch * patch,
    )
