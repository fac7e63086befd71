"""Step-3.7 and Step VL: the perception encoder; Step 3: an older one (vLLM: step_vl.py, step3p7.py, step3_vl.py).

An image of up to 3024 x 3024 gives an overview and crops of 504 pixels, and a sixteenth of its patches as tokens.
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, depth_of, encoder_block, plain, stem_of
from rayllm_ctl.catalog.modelconfig.encoders.sizes import vit_sizes
from rayllm_ctl.model.facts import Layer, MultiModalEncoder

_LONGEST = 3024
"""Pixels of the longest side that an image keeps (vllm/transformers_utils/processors/step3_vl.py)."""
_CROP = 504


def read_step(source: Source) -> MultiModalEncoder:
    """Rotary positions beside a table, scaled residuals, two convolutions and one projection."""
    vision = source.vision
    width = vision.integer("width", "hidden_size", default=1536)
    heads = vision.integer("heads", "num_attention_heads", default=16, high=MOST_HEADS)
    middle = int(width * max(vision.number("mlp_ratio", default=8960 / 1536), 0.0))
    size = vision.integer("image_size", default=728, high=2**14)
    patch = vision.integer("patch_size", default=14, high=256)
    classed = vision.flag("use_cls_token")
    block = encoder_block(source.builder, width, heads, middle)
    depth = depth_of(vision, "layers", "num_hidden_layers", default=47)
    scales = stem_of(source)
    if vision.number("ls_init_value", "layer_scale_init_value", default=0.0):
        scales.norm(width, 2)
    stem = stem_of(source)
    plain(stem, "conv1", 3 * patch * patch, width)
    if vision.flag("use_ln_pre", default=True):
        stem.norm(width, bias=True)
    if vision.flag("use_ln_post"):
        stem.norm(width, bias=True)
    if vision.flag("use_abs_posemb", default=True):
        plain(stem, "positional_embedding", (size // patch) ** 2 + classed, width)
    if classed:
        stem.norm(width)
    plain(stem, "vit_downsampler1", 9 * width, 2 * width, bias=True)
    plain(stem, "vit_downsampler2", 9 * 2 * width, 4 * width, bias=True)
    bias = source.config.flag("projector_bias", default=True)
    plain(stem, "vit_large_projector", 4 * width, source.hidden, bias=bias, split=True)
    return _tower(size, patch, width, ((block, depth), (scales.layer(), depth), (stem.layer(), 1)))


def read_step3(source: Source) -> MultiModalEncoder:
    """Step 3: blocks of the CLIP kind without norms around them, two convolutions and one projection."""
    vision = source.vision
    width, heads, middle, patch = vit_sizes(vision, width=1792, heads=16, middle=3072, patch=14)
    out = vision.integer("output_hidden_size", default=4096)
    size = vision.integer("image_size", default=728, high=2**14)
    block = encoder_block(source.builder, width, heads, middle)
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    plain(stem, "position_embedding", (size // patch) ** 2 + 2, width)
    plain(stem, "vit_downsampler", 4 * width, out, bias=True)
    plain(stem, "vit_downsampler2", 9 * out, 2 * out, bias=True)
    bias = source.config.flag("projector_bias", default=True)
    plain(stem, "vit_large_projector", 2 * out, source.hidden, bias=bias)
    return _tower(size, patch, width, ((block, depth_of(vision, default=63)), (stem.layer(), 1)))


def _tower(size: int, patch: int, width: int, blocks: tuple[tuple[Layer, int], ...]) -> MultiModalEncoder:
    crops = (_LONGEST // _CROP) ** 2
    patches = (size // patch) ** 2 + crops * (_CROP // patch) ** 2
    return MultiModalEncoder("image", blocks, width, patches // 16, patches, 3 * (size * size + crops * _CROP * _CROP))
