"""DeepSeek-OCR and Unlimited-OCR: SAM, then CLIP or a Qwen2 (deepencoder.py, unlimited_ocr.py of vLLM 0.29)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.sizes import SizeEntry, size
from rayllm_ctl.catalog.modelconfig.encoders.spec import Block, Dense, EncoderSpec, Limit, Norm, Steps

_SAM: dict[str, SizeEntry] = {
    "depth": 12, "local": 8, "global": 4, "near": (2 * 14 - 1) * 64, "far": (2 * 64 - 1) * 64,
    "out": size("n_embed", "text", "projector_config"),
}  # fmt: skip
"""SAM ViT-B as vLLM builds it, whatever the config says: blocks of windows of 14 x 14 positions and global ones, with
relative positions for heads of 64 features. It is not divided."""

_SAM_BLOCK: Steps = (
    Dense(768, 3 * 768, True), Dense(768, 768, True), Dense(768, 4 * 768, True), Dense(4 * 768, 768, True),
    Norm(768, 2, True),
)  # fmt: skip
_SAM_STEM: Steps = (
    Dense(3 * 16 * 16, 768, True), Dense(64 * 64, 768), Dense(768, 256), Dense(9 * 256, 256), Norm(256, 2, True),
    Dense(9 * 256, 512), Dense(9 * 512, "width"),
)  # fmt: skip
"""Patches, positions, and convolutions down to a sixteenth of the positions."""
_SAM_POSITIONS = (((Norm("near", 2),), "local"), ((Norm("far", 2),), "global"))


def _overview_and_crops(crop: int, rows: int, columns: int) -> Limit:
    """An overview of 1024 pixels and crops of `crop` pixels. Each row of tokens ends with one more."""
    pixels = 1024 * 1024 + rows * columns * crop * crop
    side, small = 1024 // 64, crop // 64
    tokens = side * (side + 1) + rows * small * (columns * small + 1) + 1
    return tokens, pixels // (16 * 16), 3 * pixels


# SAM, then CLIP ViT-L/14 and one projection
DEEPSEEK_OCR = EncoderSpec(
    {
        **_SAM, "width": 1024, "heads": 16, "middle": 4096, "layers": 24,
        "features": size("input_dim", "width*2", "projector_config"),
    },
    _overview_and_crops(640, 2, 2),
    (*_SAM_STEM, Dense(3 * 14 * 14, "width"), Dense(16 * 16 + 1, "width"), Norm("width"), Norm("width", bias=True)),
    (Dense("features", "out", True), Norm("out", 2)), _SAM_BLOCK, (*_SAM_POSITIONS, ((Block(),), "layers")),
)  # fmt: skip
UNLIMITED_OCR = DEEPSEEK_OCR._replace(limit=_overview_and_crops(640, 8, 4))
# SAM, then a Qwen2 of 0.5B as encoder with queries of its own, none of it divided
DEEPSEEK_OCR2 = EncoderSpec(
    {**_SAM, "width": 896, "layers": 24, "features": size("input_dim", "width", "projector_config")},
    _overview_and_crops(768, 2, 2), (*_SAM_STEM, Dense(144 + 256, "width"), Norm("width")),
    (Dense("features", "out", True), Norm("out")), _SAM_BLOCK,
    (
        *_SAM_POSITIONS,
        (
            (
                Dense("width", 896 * 18 // 14, True), Dense("width", "width"), Dense("width", 2 * 4864),
                Dense(4864, "width"), Norm("width", 2),
            ),
            "layers",
        ),
    ),
)  # fmt: skip
