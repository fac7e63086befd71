"""DeepSeek-OCR and Unlimited-OCR: SAM, then CLIP or a Qwen2 (deepencoder.py, unlimited_ocr.py of vLLM 0.29)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.builder import LayerBuilder
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, encoder_block, plain, stem_of
from rayllm_ctl.model.facts import Layer, MultiModalEncoder, Vector

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
    layer = source.builder.single("vision_tower.")
    plain(layer, "qkv", width, width * (heads + 2 * kv_heads) // heads, bias=True)
    plain(layer, "proj", width, width)
    layer.mlp(width, 4864, split=False, quantizable=False)
    layer.norm(width, 2)
    stem = _sam_stem(source, width)
    plain(stem, "queries", 144 + 256, width)
    stem.norm(width)
    stem.norm(_projector(source, stem, width))
    return _deepseek(source, stem, (layer.layer(), 24), width, 768, (2, 2))


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
