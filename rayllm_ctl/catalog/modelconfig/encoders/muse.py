"""Muse Glimmer: an encoder of images and videos whose attention alone is divided (vLLM: muse_glimmer.py)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, pair, plain, stem_of
from rayllm_ctl.model.facts import MultiModalEncoder

_IMAGE_TOKENS = 4096
_VIDEO_TOKENS = 96 // 2 * 144
"""Of an image; of a video of 96 frames, two to a patch (vllm/transformers_utils/processors/muse_glimmer.py)."""


def read_muse_glimmer(source: Source) -> MultiModalEncoder | None:
    """The encoder, or None for a config of the text model alone. Older files keep the encoder's sizes at the top."""
    config, vision = source.config, source.vision
    nested = config.text("model_type") == "muse_glimmer"
    if not config.flag("has_vision", default=nested or bool(vision)):
        return None

    def size(name: str, flat: str, default: int, high: int = 2**20) -> int:
        return vision.integer(name, default=config.integer(flat, default=default, high=high), high=high)

    width = size("hidden_size", "vision_latent_dim", 1536)
    heads = size("num_attention_heads", "vision_heads", 16, MOST_HEADS)
    depth = size("num_hidden_layers", "vision_layers", 50, MOST_LAYERS)
    patch = size("patch_size", "vision_patch_size", 14, 256)
    frames = size("patch_temporal", "vision_patch_temporal", 2, 64)
    merge = size("merge_kernel_size", "vision_downsample_factor", 2, 64)
    middle = int(max(config.number("vision_mlp_ratio", default=0.0), 0.0) * width) or 8960
    block = stem_of(source)
    block.attention(
        width, heads, heads, width // heads, bias=True, out_bias=True, prefix="attn.", cached=False, quantizable=False
    )
    middle = vision.integer("intermediate_size", default=middle)
    block.mlp(width, middle, gated=False, bias=True, split=False, quantizable=False)
    block.norm(width, 2, bias=True)
    stem = stem_of(source)
    plain(stem, "conv1_linear", frames * 3 * patch * patch, width)
    rows = size("pos_emb_height", "vision_pos_emb_grid_h", 32) * size("pos_emb_width", "vision_pos_emb_grid_w", 32)
    plain(stem, "positional_embedding", rows, width)
    stem.norm(width, 2, bias=True)
    adapter = size("adapter_dim", "vision_adapter_dim", 4096)
    pair(stem, width * merge * merge, adapter, adapter, bias=False, split=False)
    plain(stem, "vision_projection", adapter, source.hidden)
    tokens = max(_IMAGE_TOKENS, _VIDEO_TOKENS)
    patches = tokens * merge * merge
    return MultiModalEncoder(
        "image",
        ((block.layer(), depth), (stem.layer(), 1)),
        width,
        tokens,
        patches,
        patches * frames * 3 * patch * patch,
    )
