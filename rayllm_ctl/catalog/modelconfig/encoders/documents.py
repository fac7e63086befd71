"""Encoders made for reading documents: dots.ocr, PaddleOCR-VL with Keye (which shares its encoder), DeepSeek-OCR."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.builder import LayerBuilder
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, depth_of, encoder_block, pair, plain, stem_of
from rayllm_ctl.catalog.modelconfig.encoders.sizes import vit_sizes
from rayllm_ctl.model.facts import Layer, MultiModalEncoder, Vector


def read_dots_ocr(source: Source) -> MultiModalEncoder:
    """dots.ocr: gated blocks with RMS norms. Images of up to 11289600 pixels (preprocessor_config.json)."""
    vision = source.vision
    width = vision.integer("embed_dim", default=1536)
    heads = vision.integer("num_attention_heads", default=12, high=MOST_HEADS)
    middle = vision.integer("intermediate_size", default=4224)
    patch = vision.integer("patch_size", default=14, high=256)
    merge = vision.integer("spatial_merge_size", default=2, high=64)
    bias = vision.flag("use_bias")
    block = encoder_block(source.builder, width, heads, middle, gated=True, bias=bias, norm_bias=False)
    stem = stem_of(source)
    plain(stem, "patch_embed", 3 * patch * patch, width, bias=True)
    stem.norm(width, 2 if vision.flag("post_norm", default=True) else 1)
    stem.norm(width, bias=True)
    merged = width * merge * merge
    pair(stem, merged, merged, vision.integer("hidden_size", default=1536), bias=True)
    patches = 11289600 // (patch * patch)
    return MultiModalEncoder(
        "image",
        ((block, depth_of(vision, default=42)), (stem.layer(), 1)),
        width,
        patches // (merge * merge),
        patches,
        3 * patches * patch * patch,
    )


def read_paddle_ocr(source: Source) -> MultiModalEncoder:
    """PaddleOCR-VL: SigLIP over an image in its own shape, up to 2822400 pixels (preprocessor_config.json), and a
    projector over two by two patches that is not divided."""
    blocks, stem, width = _siglip(source)
    stem.norm(width, bias=True)
    pair(stem, 4 * width, 4 * width, source.hidden, bias=True, split=False)
    return _shaped(source, blocks, stem, width, 2822400)


def read_keye(source: Source) -> MultiModalEncoder:
    """Keye-VL: PaddleOCR-VL's encoder with a second position table, and a projector that is divided."""
    blocks, stem, width = _siglip(source)
    plain(stem, "packing_position_embedding", 32768, width)
    stem.norm(width, bias=True)
    pair(stem, 4 * width, 4 * width, source.hidden, bias=True)
    return _shaped(source, blocks, stem, width, 2822400)


def read_keye15(source: Source) -> MultiModalEncoder:
    """Keye-VL 1.5: the projector's norm is over two by two patches."""
    blocks, stem, width = _siglip(source)
    plain(stem, "packing_position_embedding", 32768, width)
    stem.norm(4 * width, bias=True)
    pair(stem, 4 * width, 4 * width, source.hidden, bias=True)
    return _shaped(source, blocks, stem, width, 2822400)


def _siglip(source: Source) -> tuple[tuple[Layer, int], LayerBuilder, int]:
    vision = source.vision
    width, heads, middle, patch = vit_sizes(vision, width=1152, heads=16, middle=4304, patch=14)
    size = vision.integer("image_size", default=384, high=2**14)
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    plain(stem, "position_embedding", (size // patch) ** 2, width)
    stem.norm(width, bias=True)
    return (encoder_block(source.builder, width, heads, middle), depth_of(vision, default=27)), stem, width


def _shaped(
    source: Source, blocks: tuple[Layer, int], stem: LayerBuilder, width: int, pixels: int
) -> MultiModalEncoder:
    patch = source.vision.integer("patch_size", default=14, high=256)
    patches = pixels // (patch * patch)
    return MultiModalEncoder("image", (blocks, (stem.layer(), 1)), width, patches // 4, patches, 3 * pixels)


_SAM_WIDTH = 768
_SAM_DEPTH = 12
_SAM_HEAD = 64
_SAM_OUT = 256
_SAM_SIDE = 64
_SAM_WINDOW = 14
_SAM_GLOBAL = 4
"""SAM ViT-B as vLLM builds it for DeepSeek-OCR, whatever the config says (deepencoder.py)."""


def read_deepseek_ocr(source: Source) -> MultiModalEncoder:
    """DeepSeek-OCR: SAM ViT-B, which is not divided, then CLIP ViT-L/14 and one projection. An overview of 1024 pixels
    and up to four crops of 640."""
    return _sam_clip(source, (2, 2))


def read_unlimited_ocr(source: Source) -> MultiModalEncoder:
    """Unlimited-OCR: DeepSeek-OCR's encoder, with up to eight rows of four crops (unlimited_ocr.py)."""
    return _sam_clip(source, (8, 4))


def _sam_clip(source: Source, crops: tuple[int, int]) -> MultiModalEncoder:
    width = 1024
    clip = encoder_block(source.builder, width, 16, 4096)
    stem = _sam_stem(source, width)
    plain(stem, "clip.patch_embedding", 3 * 14 * 14, width)
    plain(stem, "clip.position_embedding", 16 * 16 + 1, width)
    stem.norm(width)
    stem.norm(width, bias=True)
    out = _projector(source, stem, 2 * width)
    stem.norm(out, 2)
    return _deepseek(source, stem, (clip, 24), width, 640, crops)


def read_deepseek_ocr2(source: Source) -> MultiModalEncoder:
    """DeepSeek-OCR 2: SAM ViT-B, then a Qwen2 of 0.5B as encoder with queries of its own, none of it divided. An
    overview of 1024 pixels and up to four crops of 768."""
    width = 896
    heads, kv_heads = 14, 2
    pieces = source.builder.single("vision_tower.")
    plain(pieces, "qkv", width, width * (heads + 2 * kv_heads) // heads, bias=True)
    plain(pieces, "proj", width, width)
    pieces.mlp(width, 4864, split=False, quantizable=False)
    pieces.norm(width, 2)
    stem = _sam_stem(source, width)
    plain(stem, "queries", 144 + 256, width)
    stem.norm(width)
    stem.norm(_projector(source, stem, width))
    return _deepseek(source, stem, (pieces.layer(), 24), width, 768, (2, 2))


def _projector(source: Source, stem: LayerBuilder, inputs: int) -> int:
    fields = source.config.child("projector_config")
    out = fields.integer("n_embed", default=source.hidden)
    plain(stem, "projector", fields.integer("input_dim", default=inputs), out, bias=True)
    return out


def _sam_stem(source: Source, out: int) -> LayerBuilder:
    """What stands around SAM's blocks: patches, positions, and convolutions down to a sixteenth of the positions."""
    stem = stem_of(source)
    plain(stem, "sam.patch_embed", 3 * 16 * 16, _SAM_WIDTH, bias=True)
    plain(stem, "sam.pos_embed", _SAM_SIDE * _SAM_SIDE, _SAM_WIDTH)
    plain(stem, "sam.neck.0", _SAM_WIDTH, _SAM_OUT)
    plain(stem, "sam.neck.2", 9 * _SAM_OUT, _SAM_OUT)
    stem.norm(_SAM_OUT, 2, bias=True)
    plain(stem, "sam.net_2", 9 * _SAM_OUT, 2 * _SAM_OUT)
    plain(stem, "sam.net_3", 9 * 2 * _SAM_OUT, out)
    return stem


def _sam_block(source: Source) -> Layer:
    return encoder_block(source.builder, _SAM_WIDTH, 12, 4 * _SAM_WIDTH, split=False)


def _deepseek(
    source: Source, stem: LayerBuilder, second: tuple[Layer, int], width: int, crop: int, grid: tuple[int, int]
) -> MultiModalEncoder:
    """`crop`: pixels of a side; `grid`: the most rows and columns of crops beside the overview."""
    near = Layer(vectors=(Vector((2 * _SAM_WINDOW - 1) * _SAM_HEAD),) * 2)
    far = Layer(vectors=(Vector((2 * _SAM_SIDE - 1) * _SAM_HEAD),) * 2)
    rows, columns = grid
    pixels = 1024 * 1024 + rows * columns * crop * crop
    side, small = 1024 // 64, crop // 64
    return MultiModalEncoder(
        "image",
        (
            (_sam_block(source), _SAM_DEPTH),
            (near, _SAM_DEPTH - _SAM_GLOBAL),
            (far, _SAM_GLOBAL),
            second,
            (stem.layer(), 1),
        ),
        width,
        side * (side + 1) + rows * small * (columns * small + 1) + 1,
        pixels // (16 * 16),
        3 * pixels,
    )
