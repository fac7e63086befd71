"""Encoders that cut an image into tiles of one size: Llama 3.2 and 4, InternVL, DeepSeek-VL2, Phi-4, Step, Ovis.

vLLM: mllama.py, phi4mm.py, step_vl.py, step3p7.py, step3_vl.py, ovis.py, ovis2_5.py.
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.clip import CLIP_SIZES, CLIP_STEM_AND_NORM, feature_depth
from rayllm_ctl.catalog.modelconfig.encoders.sizes import EncoderScope, SizeEntry, flag, ratio, size, vit
from rayllm_ctl.catalog.modelconfig.encoders.source import EncoderSource
from rayllm_ctl.catalog.modelconfig.encoders.spec import (
    WHOLE,
    Block,
    Dense,
    EncoderSpec,
    Norm,
    Steps,
    of_crops,
    pair,
    patches_in,
)
from rayllm_ctl.catalog.modelconfig.fields import Fields

_TIMM_NAMES = {
    "width": "width hidden_size", "heads": "heads num_attention_heads", "depth": "layers num_hidden_layers",
}  # fmt: skip


def _shuffled(scope: EncoderScope, share: float, tiles: int) -> tuple[int, int, int]:
    """`share`: of the positions along a side that pixel shuffle leaves."""
    return int(scope["grid"] * share * share) * tiles, scope["grid"] * tiles, scope["pixels"] * tiles


# Llama 4: tiles of 336 pixels, shuffled down to 144 tokens; at most 16 tiles and an overview
LLAMA4 = EncoderSpec(
    {
        **vit(width=768, heads=16, middle=5632, depth=34, patch=14, image=448),
        "inner": size("projector_input_dim", 4096), "out": size("projector_output_dim", 4096),
        "features": size("vision_output_dim", 7680),
    },
    lambda scope: _shuffled(scope, scope.source.vision.number("pixel_shuffle_ratio", default=0.5), 17),
    (Dense("values", "width", split="column"), Dense("grid+1", "width"), Norm("width"), Norm("width", 2, True)),
    (
        *pair("middle", "inner", "out", bias=flag("multi_modal_projector_bias")),
        Dense("features", "text", split="column"),
    ),
)  # fmt: skip


def _intern_shuffle(scope: EncoderScope) -> float:
    return scope.source.config.number("downsample_ratio", default=0.5)


def _intern_depth(scope: EncoderScope) -> int:
    chosen = Fields({"vision_feature_layer": scope.source.config.raw("select_layer")})
    return feature_depth(chosen, scope["layers"])


# InternViT (InternVL 2 to 3.5): tiles of 448 pixels, at most 12 and an overview, shuffled to 256 tokens each
_INTERN_BLOCK = Block(
    bias=flag("qkv_bias attention_bias", default=True), mlp_bias=True, out_bias=True,
    norm_bias=lambda scope: not scope.source.vision.text("norm_type", default="layer_norm").startswith("rms"),
)  # fmt: skip
QIANFAN = EncoderSpec(
    {
        **vit(width=1024, heads=16, middle=4096), "layers": size("num_hidden_layers", 24), "depth": _intern_depth,
        "image": lambda scope: scope.source.vision.integer_at(0, "image_size", default=448),
        "patch": lambda scope: scope.source.vision.integer_at(0, "patch_size", default=14),
        "merged": lambda scope: int(scope["width"] / max(_intern_shuffle(scope), 0.05)**2),
        "tiles": size("max_dynamic_patch", 12, "config"),
    },
    lambda scope: _shuffled(scope, _intern_shuffle(scope), scope["tiles"] + 1),
    (patches_in(), Dense("grid+2", "width")), (Norm("merged", bias=True), *pair("merged", "text", "text", split=False)),
    (_INTERN_BLOCK, Norm("width", 2)),
)  # fmt: skip
# In transformers' form (text_config) vLLM does not divide its attention.
_DIVIDED = _INTERN_BLOCK._replace(split_attention=lambda scope: not scope.source.config.has("text_config"))
INTERN = QIANFAN._replace(block=(_DIVIDED, Norm("width", 2)))

# DeepSeek-VL2: SigLIP from timm, not divided, and a projector of two layers
DEEPSEEK_VL2 = EncoderSpec(
    {
        **vit(_TIMM_NAMES, width=1152, depth=27, patch=14, image=384), "heads": 16,
        "middle": lambda scope: int(scope["width"] * scope.source.vision.number("mlp_ratio", default=3.7362)),
    },
    ("grid/4*10", "grid*10", "pixels*10"),
    (patches_in(), Dense("grid", "width"), Norm("width", bias=True)),
    (*pair("width*4", "text", "text", split=False), Norm("text", 2)), (WHOLE,), sharded=False,
)  # fmt: skip


_STEP_LONGEST = 3024
"""Pixels of the longest side that an image keeps (vllm/transformers_utils/processors/step3_vl.py)."""
_STEP_CROP = 504
_STEP_CROPS = (_STEP_LONGEST // _STEP_CROP) ** 2
_STEP_SIZES: dict[str, SizeEntry] = {"side": f"{_STEP_CROP}/patch", "patches": f"side*side*{_STEP_CROPS}+grid"}
_STEP_LIMIT = ("patches/16", "patches", f"pixels+{_STEP_CROPS * 3 * _STEP_CROP * _STEP_CROP}")
"""An image gives an overview and crops, and a sixteenth of its patches as tokens."""


def _is_scaled(scope: EncoderScope) -> bool:
    return bool(scope.source.vision.number("ls_init_value", "layer_scale_init_value", default=0.0))


_STEP_CLASSED = flag("use_cls_token")
_STEP_BIAS = flag("projector_bias", "config", default=True)

# Step-3.7 and Step VL, the perception encoder: rotary positions beside a table, scaled residuals, two
# convolutions and one projection
STEP_VL = EncoderSpec(
    {
        **vit(_TIMM_NAMES, width=1536, heads=16, depth=47, patch=14, image=728), "middle": ratio(8960 / 1536),
        **_STEP_SIZES, "positions": lambda scope: scope["grid"] + scope.holds(_STEP_CLASSED),
    },
    _STEP_LIMIT,
    (
        patches_in(bias=False), Norm("width", bias=True, when=flag("use_ln_pre", default=True)),
        Norm("width", bias=True, when=flag("use_ln_post")),
        Dense("positions", "width", when=flag("use_abs_posemb", default=True)), Norm("width", when=_STEP_CLASSED),
    ),
    (
        Dense("width*9", "width*2", True), Dense("width*18", "width*4", True),
        Dense("width*4", "text", _STEP_BIAS, "column"),
    ),
    (Block(), Norm("width", 2, when=_is_scaled)),
)  # fmt: skip
# Step 3: blocks of the CLIP kind without norms around them
STEP3 = EncoderSpec(
    {
        **vit(width=1792, heads=16, middle=3072, depth=63, patch=14, image=728),
        **_STEP_SIZES, "out": size("output_hidden_size", 4096),
    },
    _STEP_LIMIT, (patches_in(), Dense("grid+2", "width")),
    (Dense("width*4", "out", True), Dense("out*9", "out*2", True), Dense("out*2", "text", _STEP_BIAS)),
)  # fmt: skip


def _mllama_positions(scope: EncoderScope) -> int:
    """Tables of the patches of a tile, and of the tiles for each supported shape of an image."""
    listed = scope.source.vision.raw("supported_aspect_ratios")
    ratios = len(listed) if isinstance(listed, list) else 8
    tiles = scope["tiles"]
    return scope["patches"] * (1 + tiles * (ratios + 1)) + 2 * tiles * (ratios + 1)


# Llama 3.2 Vision: four tiles of 560 pixels through local and global blocks
MLLAMA = EncoderSpec(
    {
        **vit(width=1280, middle=5120, patch=14, image=560), "heads": size("attention_heads num_attention_heads", 16),
        "layers": size("num_hidden_layers", 32), "whole": size("num_global_layers", 8, high=1024),
        "depth": "layers+whole", "tiles": size("max_num_tiles", 4), "patches": "grid+1", "positions": _mllama_positions,
        "features": size("vision_output_dim", 7680),
    },
    ("patches*tiles", "patches*tiles", "pixels*tiles"),
    (patches_in(bias=False), Dense("positions", "width"), Norm("width", 2, True)),
    (Dense("features", "text", True),), (Block(bias=False, mlp_bias=True),),
)  # fmt: skip


def _phi4_depth(scope: EncoderScope) -> int:
    chosen = scope.fields("img_processor").integer("layer_idx", default=-2, low=-27, high=26)
    return chosen + 1 + (27 if chosen < 0 else 0)


# Phi-4-multimodal: the encoder that vLLM builds whatever the config says, up to the layer that it takes; features
# pooled by four. 36 crops and an overview (preprocessor_config.json: dynamic_hd).
PHI4_IMAGE = EncoderSpec(
    {"width": 1152, "heads": 16, "middle": 4304, "depth": _phi4_depth, "image": 448, "patch": 14, "merge": 2},
    of_crops(37), (patches_in(), Dense("grid", "width"), Norm("width", 2)), pair("width", "text", "text", split=False),
)  # fmt: skip

# Ovis: features choose from a visual vocabulary, which has embeddings of its own. Some of
# its rows mark where images begin and end: the head does not choose them.
_OVIS_PROJECTOR: Steps = (Dense("merged", "chosen"), Norm("chosen", bias=True), Dense("words", "text"))


def _words(names: str, default: int, part: str, marks: int) -> dict[str, SizeEntry]:
    return {"words": size(names, default, part, low=marks + 1), "chosen": lambda scope: scope["words"] - marks}


_OVIS, _BACKBONE = "visual_tokenizer_config", "visual_tokenizer_config.backbone_config"
_OVIS_SIZES: dict[str, SizeEntry] = {"merge": size("hidden_stride", 1, _OVIS), **_words("vocab_size", 16384, _OVIS, 5)}
_OVIS_SIGLIP = EncoderSpec(
    {**CLIP_SIZES, **_OVIS_SIZES}, of_crops(10), CLIP_STEM_AND_NORM, _OVIS_PROJECTOR, part=_BACKBONE
)
_OVIS_AIMV2 = EncoderSpec(
    {**vit(width=1024, heads=8, middle=2816, depth=24, patch=14, image=224), **_OVIS_SIZES}, of_crops(10),
    (patches_in(), Dense("grid", "width"), Norm("width")), _OVIS_PROJECTOR,
    (Block(gated=True, bias=flag("qkv_bias"), mlp_bias=flag("use_bias"), out_bias=flag("use_bias"), norm_bias=False),),
    part=_BACKBONE,
)  # fmt: skip


def ovis(source: EncoderSource) -> EncoderSpec:
    """Ovis 1.6 and 2: SigLIP or AIMv2 over up to nine crops and an overview."""
    backbone = source.config.child(_OVIS).child("backbone_config")
    return _OVIS_AIMV2 if backbone.text("model_type") == "aimv2" else _OVIS_SIGLIP


def _ovis25_positions(scope: EncoderScope) -> int:
    given = scope.source.vision.integer("num_patches", default=-1, low=-1)
    return given if given > 0 else scope["grid"]


# Ovis 2.5 and 2.6: SigLIP 2 over an image in its own shape, up to 1792 x 1792
OVIS25 = EncoderSpec(
    {
        **vit(width=1152, heads=16, middle=4304, depth=27, patch=16, image=512), "merge": size("hidden_stride", 2),
        "positions": _ovis25_positions, "patches": lambda scope: (1792 // scope["patch"])**2,
        **_words("visual_vocab_size", 65536, "config", 4),
    },
    ("patches/merge/merge", "patches", 3 * 1792 * 1792),
    (
        patches_in(), Dense("positions", "width", when=flag("preserve_original_pe", default=True)),
        Norm("width", bias=True),
    ),
    _OVIS_PROJECTOR, part="vit_config",
)  # fmt: skip
