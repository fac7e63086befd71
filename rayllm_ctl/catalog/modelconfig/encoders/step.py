"""Step-3.7 and Step VL: the perception encoder; Step 3: an older one (vLLM: step_vl.py, step3p7.py, step3_vl.py)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.sizes import Scope, flag, ratio, size, vit
from rayllm_ctl.catalog.modelconfig.encoders.spec import Block, Dense, EncoderSpec, Norm, patches_in

_LONGEST = 3024
"""Pixels of the longest side that an image keeps (vllm/transformers_utils/processors/step3_vl.py)."""
_CROP = 504


def _overview_and_crops(scope: Scope) -> tuple[int, int, int]:
    """An image of up to 3024 x 3024 gives an overview and crops, and a sixteenth of its patches as tokens."""
    crops = (_LONGEST // _CROP) ** 2
    patches = scope["grid"] + crops * (_CROP // scope["patch"]) ** 2
    return patches // 16, patches, scope["pixels"] + crops * 3 * _CROP * _CROP


def _scales(scope: Scope) -> bool:
    return bool(scope.source.vision.number("ls_init_value", "layer_scale_init_value", default=0.0))


_CLASSED = flag("use_cls_token")
_BIAS = flag("projector_bias", "config", default=True)

# Rotary positions beside a table, scaled residuals, two convolutions and one projection
STEP_VL = EncoderSpec(
    {
        **vit(patch=14, image=728), "width": size("width hidden_size", 1536),
        "heads": size("heads num_attention_heads", 16), "middle": ratio(8960 / 1536),
        "depth": size("layers num_hidden_layers", 47), "positions": lambda scope: scope["grid"] + scope.holds(_CLASSED),
    },
    _overview_and_crops,
    (
        patches_in(bias=False), Norm("width", bias=True, when=flag("use_ln_pre", default=True)),
        Norm("width", bias=True, when=flag("use_ln_post")),
        Dense("positions", "width", when=flag("use_abs_posemb", default=True)), Norm("width", when=_CLASSED),
    ),
    (Dense("width*9", "width*2", True), Dense("width*18", "width*4", True), Dense("width*4", "text", _BIAS, "column")),
    Block(beside=(Norm("width", 2, when=_scales),)),
)  # fmt: skip
# Step 3: blocks of the CLIP kind without norms around them
STEP3 = EncoderSpec(
    {
        **vit(width=1792, heads=16, middle=3072, depth=63, patch=14, image=728),
        "out": size("output_hidden_size", 4096), "positions": lambda scope: scope["grid"] + 2,
    },
    _overview_and_crops, (patches_in(), Dense("positions", "width")),
    (Dense("width*4", "out", True), Dense("out*9", "out*2", True), Dense("out*2", "text", _BIAS)),
)  # fmt: skip
