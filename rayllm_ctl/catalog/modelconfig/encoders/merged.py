"""Encoders of the Qwen-VL kind with mergers of their own: ERNIE 4.5 VL, openPangu VL, LLaVA-OneVision 2, Kanana-V.

vLLM 0.29: ernie45_vl.py, openpangu_vl.py, llava_onevision2.py, kanana_v.py.
"""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.builder import LayerBuilder
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, depth_of, encoder_block, pair, plain, stem_of
from rayllm_ctl.catalog.modelconfig.encoders.sizes import vit_sizes
from rayllm_ctl.model.facts import Layer, MultiModalEncoder, VideoProfile


def read_ernie_vl(source: Source) -> MultiModalEncoder:
    """ERNIE 4.5 VL: merges two by two patches, then pairs of frames. Images of up to 78 x 78 tokens (transformers'
    processor: 6177 x 28 x 28 pixels). vLLM profiles as many pairs of such frames as fit into a request beside an image,
    but the processor shrinks each to 34 x 34 tokens (1196 x 28 x 28 pixels)."""
    vision, config = source.vision, source.config
    width = vision.integer("embed_dim", "hidden_size", default=1280)
    heads = vision.integer("num_heads", default=16, high=MOST_HEADS)
    middle = int(width * max(vision.number("mlp_ratio", default=4.0), 0.0))
    patch = vision.integer("patch_size", default=14, high=256)
    pixels = config.integer("pixel_hidden_size", default=width)
    merge = config.integer("spatial_conv_size", default=2, high=64)
    merged = pixels * merge * merge
    stem = stem_of(source)
    plain(stem, "patch_embed", 3 * patch * patch, width)
    stem.norm(width, bias=True)
    inputs = [merged]
    if config.flag("use_temporal_conv", default=True):
        inputs.append(merged * config.integer("temporal_conv_size", default=2, high=64))
    for size in inputs:
        plain(stem, "resampler.linear1", size, merged, bias=True, split=True)
        plain(stem, "resampler.linear2", merged, merged, bias=True, split=True)
        stem.norm(merged, bias=True)
    plain(stem, "resampler.mlp", merged, source.hidden, bias=True, split=True)
    stem.norm(source.hidden)
    block = encoder_block(source.builder, width, heads, middle)
    depth = depth_of(vision, "depth", default=32)
    encoder = _shaped((block, depth), stem, width, 78 * 78, merge, 3 * patch * patch)
    pair_of_frames = 2 * 34 * 34 * merge * merge
    video = VideoProfile(encoder.tokens, pair_of_frames, pair_of_frames * 3 * patch * patch, beside=encoder.tokens)
    return replace(encoder, video=video)


def read_pangu_vl(source: Source) -> MultiModalEncoder:
    """openPangu VL: a merger for each layer that is taken, their outputs added and projected. Images of up to 16384
    tokens, as Qwen2.5-VL's."""
    vision = source.vision
    width = vision.integer("hidden_size", default=1536)
    heads = vision.integer("num_heads", default=16, high=MOST_HEADS)
    patch = vision.integer("patch_size", default=14, high=256)
    frames = vision.integer("temporal_patch_size", default=2, high=64)
    merge = vision.integer("spatial_merge_size", default=2, high=64)
    out = vision.integer("out_hidden_size", default=source.hidden)
    taken = len(vision.integers("mm_unit_vision_select_layer", low=-1024, high=-1, longest=64)) or 2
    gated = vision.text("hidden_act", default="gelu") == "silu"
    middle = vision.integer("intermediate_size", default=4608)
    block = encoder_block(source.builder, width, heads, middle, gated=gated, norm_bias=False)
    merged = width * merge * merge
    stem = stem_of(source)
    plain(stem, "patch_embed", 3 * frames * patch * patch, width)
    stem.norm(width, 1 + taken)
    for _ in range(taken):
        pair(stem, merged, merged, out, bias=True)
    plain(stem, "vision_projection", out, source.hidden, bias=True)
    values = 3 * frames * patch * patch
    return _shaped((block, depth_of(vision, "depth", default=26)), stem, width, 16384, merge, values)


def read_llava_onevision2(source: Source) -> MultiModalEncoder:
    """LLaVA-OneVision 2: vLLM profiles images of 1800 x 1800 pixels; videos are not counted."""
    vision = source.vision
    width, heads, middle, patch = vit_sizes(vision, width=1024, heads=16, middle=4096, patch=14)
    merge = vision.integer("spatial_merge_size", default=2, high=64)
    merged = width * merge * merge
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width)
    stem.norm(width, 2, bias=True)
    pair(stem, merged, merged, source.hidden, bias=True)
    block = encoder_block(source.builder, width, heads, middle)
    tokens = max(1, round(1800 / (patch * merge))) ** 2
    return _shaped((block, depth_of(vision, default=24)), stem, width, tokens, merge, 3 * patch * patch)


def _shaped(
    block: tuple[Layer, int], stem: LayerBuilder, width: int, tokens: int, merge: int, values: int
) -> MultiModalEncoder:
    """`tokens`: of the largest image. `values`: input values of a patch."""
    patches = tokens * merge * merge
    return MultiModalEncoder("image", (block, (stem.layer(), 1)), width, tokens, patches, patches * values)


def read_kanana(source: Source) -> MultiModalEncoder:
    """Kanana-V: Qwen2-VL's encoder, whose layers' outputs are all kept, then convolutions around a merger, which are
    not divided. Images of up to 1003520 pixels (the default of its image processor)."""
    vision, projector = source.vision, source.config.child("projector_config")
    width = vision.integer("embed_dim", default=1280)
    heads = vision.integer("num_heads", default=16, high=MOST_HEADS)
    middle = int(width * max(vision.number("mlp_ratio", default=4.0), 0.0))
    patch = vision.integer("patch_size", default=14, high=256)
    frames = vision.integer("temporal_patch_size", default=2, high=64)
    features = projector.integer("encoder_hidden_size", default=1280)
    inner = projector.integer("hidden_size", default=1024)
    out = projector.integer("output_hidden_size", default=2048)
    merge = projector.integer("merge_size", default=2, high=64)
    depth = projector.integer("depth", default=2, low=0, high=256)
    stem = stem_of(source)
    plain(stem, "patch_embed", 3 * frames * patch * patch, width)
    if projector.flag("pos_emb", default=True):
        plain(stem, "pos_emb", projector.integer("pos_emb_size", default=576), features)
    for given in (features, merge * merge * inner):
        for index in range(depth):
            _convolutions(stem, inner if index else given, inner)
    for index in range(projector.integer("mlp_depth", default=2, high=256)):
        plain(stem, "readout", out if index else (inner if depth else features), out, bias=True)
    blocks = encoder_block(source.builder, width, heads, middle), depth_of(vision, "depth", default=32)
    return replace(_shaped(blocks, stem, width, 35 * 35, merge, 3 * frames * patch * patch), kept=blocks[1] + 1)


def _convolutions(stem: LayerBuilder, given: int, width: int) -> None:
    """A block of RegNet: into `width` channels, each with its neighbours, weighted by their means, and across again."""
    squeezed = max(1, round(given / 4))
    plain(stem, "conv1", given, width)
    plain(stem, "conv2", 9, width)
    plain(stem, "se.fc1", width, squeezed, bias=True)
    plain(stem, "se.fc2", squeezed, width, bias=True)
    plain(stem, "conv3", width, width)
    stem.norm(width, 3, bias=True)
    if given != width:
        plain(stem, "downsample", given, width)
        stem.norm(width, bias=True)
