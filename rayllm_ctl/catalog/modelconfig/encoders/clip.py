"""CLIP and SigLIP with their projectors."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.shaped import PIXTRAL
from rayllm_ctl.catalog.modelconfig.encoders.sizes import EncoderScope, SizeEntry, flag, size, vit
from rayllm_ctl.catalog.modelconfig.encoders.source import EncoderSource
from rayllm_ctl.catalog.modelconfig.encoders.spec import (
    Dense,
    EncoderSpec,
    Limit,
    Mlp,
    Norm,
    Steps,
    of_crops,
    of_patches,
    of_pixels,
    of_queries,
    of_tokens,
    pair,
    patches_in,
)
from rayllm_ctl.catalog.modelconfig.fields import Fields


def _is_clip(scope: EncoderScope) -> bool:
    return "clip" in scope.source.vision.text("model_type", default="clip_vision_model")


def _by_kind(names: str, clip: int, siglip: int) -> SizeEntry:
    return size(names, lambda scope: clip if _is_clip(scope) else siglip)


def feature_depth(config: Fields, depth: int) -> int:
    """Layers up to the deepest feature that the projector takes; those above are not built."""
    raw = config.raw("vision_feature_layer", "mm_vision_select_layer")
    if isinstance(raw, list):
        chosen = list(config.integers("vision_feature_layer", low=-depth, high=depth)) or [depth]
    else:
        chosen = [config.integer("vision_feature_layer", "mm_vision_select_layer", default=-1, low=-depth, high=depth)]
    return max(1, max(layer + depth + 1 if layer < 0 else layer for layer in chosen))


def _built(scope: EncoderScope) -> int:
    return feature_depth(scope.source.config, scope["layers"])


def _last_norm(scope: EncoderScope) -> bool:
    return scope["depth"] == scope["layers"]


CLIP_SIZES: dict[str, SizeEntry] = {
    "width": _by_kind("hidden_size width", 1024, 768), "heads": _by_kind("num_attention_heads", 16, 12),
    "middle": size("intermediate_size", "width*4"), "layers": _by_kind("num_hidden_layers layers", 24, 12),
    "depth": _built, "image": _by_kind("image_size", 336, 224), "patch": _by_kind("patch_size", 14, 16),
    "positions": lambda scope: scope["grid"] + _is_clip(scope),
}  # fmt: skip
CLIP_STEM: Steps = (
    patches_in(bias=lambda scope: not _is_clip(scope)), Dense("positions", "width"), Norm("width", when=_is_clip),
    Norm("width", bias=True, when=_is_clip),
)  # fmt: skip
CLIP_STEM_AND_NORM: Steps = (*CLIP_STEM, Norm("width", bias=True, when=_last_norm))


def _clip(projector: Steps, limit: Limit, sizes: dict[str, SizeEntry], *, normed: bool = True) -> EncoderSpec:
    """`normed`: False where even a model that takes the last layer does without its norm."""
    return EncoderSpec({**CLIP_SIZES, **sizes}, limit, CLIP_STEM_AND_NORM if normed else CLIP_STEM, projector)


def _features(scope: EncoderScope) -> int:
    """Features that the projector takes of each patch, from one layer or several."""
    layers = scope.source.config.raw("vision_feature_layer")
    return scope["width"] * (len(layers) if isinstance(layers, list) and layers else 1)


def _has_grid(scope: EncoderScope) -> bool:
    return scope.source.config.has("image_grid_pinpoints")


def _llava(*, newline: bool, split: bool = True) -> EncoderSpec:
    """A projector of two layers. `newline`: a learned end of the rows of crops."""
    bias = flag("multimodal_projector_bias", "config", default=True)
    projector = (*pair("features", "text", "text", bias=bias, split=split), Norm("text", when=newline))
    sizes: dict[str, SizeEntry] = {
        "features": _features,
        "crops": lambda scope: 5 if _has_grid(scope) or newline else 1,
    }
    return _clip(projector, of_crops("crops"), sizes, normed=False)


LLAVA_NEXT = _llava(newline=True)
LLAVA_ONEVISION = _llava(newline=True, split=False)
LLAVA_VIDEO = _llava(newline=False, split=False)
_LLAVA = _llava(newline=False)


def llava(source: EncoderSource) -> EncoderSpec:
    """LLaVA 1.5 and similar models, which may have Pixtral's encoder, or crops as LLaVA-NeXT."""
    if source.vision.text("model_type") == "pixtral":
        return PIXTRAL
    return LLAVA_NEXT if source.config.has("image_grid_pinpoints") else _LLAVA


# Gemma 3, PaliGemma: pooled to a fixed number of tokens
GEMMA3 = _clip(
    (Dense("width", "text"), Norm("width")), of_queries("tokens"),
    {"tokens": size("mm_tokens_per_image", 256, "config")},
)  # fmt: skip
# Idefics 3, SmolVLM: with pixel shuffle
IDEFICS3 = _clip((Dense("merged", "text"),), of_crops(17), {"merge": size("scale_factor", 2, "config")})
# Aya Vision and Command A Vision: a gated projector
COHERE = _clip(
    (Dense("merged", "inner", True, "column"), Dense("inner/2", "text", True, "row")), of_crops(13),
    {
        "merge": size("downsample_factor", 2, "config"),
        "inner": size("alignment_intermediate_size adapter_layer_intermediate_size", "text*2", "config"),
    },
)  # fmt: skip
# Phi-3 and 3.5 Vision: CLIP ViT-L/14 at 336 pixels, whose sizes the config leaves out, up to 16 crops
PHI3V = EncoderSpec(
    {"width": 1024, "heads": 16, "middle": 4096, "depth": 23, "image": 336, "patch": 14, "merge": 2},
    (1921, "grid*17", "pixels*17"),
    (patches_in(bias=False), Dense(577, "width"), Norm("width"), Norm("width", bias=True)),
    (*pair("merged", "text", "text", split=False), Norm("merged", 2)),
)  # fmt: skip


def _normed(middle: str) -> EncoderSpec:
    """LLaVA-OneVision with a projector that starts with a norm and is not divided."""
    projector = (Norm("width", bias=True), *pair("width", middle, "text", split=False), Norm("text"))
    return _clip(projector, of_crops(5), {}, normed=False)


R4B = _normed("text")
BEE = _normed("text*4")


def _eagle_depth(scope: EncoderScope) -> int:
    depth = scope["layers"]
    layer = scope.source.config.integer("select_layer", default=-1, low=-depth, high=depth - 1)
    return max(1, layer + depth + 1 if layer < 0 else layer + 1)


# Eagle 2.5: up to the chosen layer, shuffled; up to 12 tiles and an overview
EAGLE = _clip(
    (Norm("merged", bias=True), *pair("merged", "text", "text", split=False)),
    ("grid/merge/merge*all", "grid*all", "pixels*all"),
    {
        "depth": _eagle_depth,
        "merge": lambda scope: max(1, int(1 / max(scope.source.config.number("downsample_ratio", default=0.5), 0.05))),
        "tiles": size("max_dynamic_tiles max_dynamic_patch", 12, "config"), "all": "tiles+1",
    },
)  # fmt: skip

_SIGLIP2: Steps = (patches_in(), Dense("positions", "width"), Norm("width", bias=True))
"""Around the blocks of SigLIP 2, which takes patches in the image's own shape."""
_SIGLIP: Steps = (patches_in(), Dense("grid", "width"), Norm("width", bias=True))

# LFM2-VL: two by two patches folded into one
LFM2 = EncoderSpec(
    {
        **vit(width=768, heads=12, middle=3072, patch=16), "layers": size("num_hidden_layers", 12), "depth": _built,
        "positions": size("num_patches", 256), "merge": size("downsample_factor", 2, "config"),
        "inner": size("projector_hidden_size", 2560, "config"), "tokens": size("max_image_tokens", 256, "config"),
        "crops": size("max_tiles", 10, "config"),
    },
    of_tokens("tokens*crops"), _SIGLIP2,
    (
        Norm("merged", bias=True, when=flag("projector_use_layernorm", "config", default=True)),
        *pair("merged", "inner", "text", bias=flag("projector_bias", "config", default=True), split=False),
    ),
)  # fmt: skip
# Isaac: shuffled, then a projector four times as wide
ISAAC = EncoderSpec(
    {
        **vit(width=1152, heads=16, middle=4304, depth=27, patch=16), "positions": size("num_patches", 256),
        "merge": size("pixel_shuffle_scale_factor", 1), "most": size("vision_max_num_patches", 6144, "config"),
    },
    of_patches("most"), _SIGLIP2, pair("merged", "merged*4", "text", bias=False),
)  # fmt: skip
# Phi-4-reasoning-vision: up to the last layer but one; the outputs of all are kept
PHI4_SIGLIP = EncoderSpec(
    {
        **vit(width=768, heads=12, middle=3072, patch=16), "layers": size("num_hidden_layers", 12),
        "depth": lambda scope: scope["layers"] - 1, "positions": size("num_patches", 256),
        "features": size("mm_hidden_size", None, "config"), "most": size("max_num_patches", 3600, "config"),
    },
    of_patches("most"), _SIGLIP2[:2], pair("features", "text", "text"), kept="layers",
)  # fmt: skip
# MiniMax M3: blocks over pairs of frames; a projector, then a merger of what it gave
MINIMAX_M3 = EncoderSpec(
    {
        **vit(width=1280, heads=16, middle=5120, depth=32, patch=14, image=2016),
        "frames": size("temporal_patch_size", 2, "vision_config.img_token_compression_config"),
        "merge": size("spatial_merge_size", 2, "vision_config.img_token_compression_config"),
        "inner": size("projector_hidden_size", "text", "config"),
    },
    of_patches("grid"), (patches_in(bias=False), Norm("width", bias=True)),
    (
        *pair("width", "inner", "text", bias=flag("multimodal_projector_bias", default=True)),
        *pair("text*merge*merge", "inner", "text", bias=flag("patch_merge_bias", default=True)),
    ),
)  # fmt: skip
# GLM-4V: EVA-02 CLIP, a convolution over two by two patches and a gated projector of the decoder's width
EVA = EncoderSpec(
    {
        **vit({"heads": "num_heads"}, width=None, heads=None, middle=None, depth=None, image=None, patch=None),
        "positions": size("num_positions"), "inner": size("ffn_hidden_size", None, "config"),
    },
    ("grid/4+2", "grid", "pixels"), (patches_in(), Dense("positions+1", "width")),
    (
        Dense("width*4", "text", True), Dense("text", "text"), Norm("text", bias=True), Mlp("text", "inner", "text"),
        Norm("text", 2),
    ),
)  # fmt: skip


def _most_queries(scope: EncoderScope) -> int:
    counts = scope.source.config.child("projector_patch_to_query_dict")
    return max((counts.integer(name, high=2**20) for name in counts.entries()), default=256)


# Aria: no last norm; queries that attend to the patches, as many as the largest image has
ARIA = EncoderSpec(
    {**vit(width=1152, heads=16, middle=3072, depth=12, patch=32, image=224), "queries": _most_queries},
    of_queries("queries"), (patches_in(), Dense("grid", "width")),
    (
        Dense("queries", "width"), *(Dense("width", "width"),) * 3, Dense("width", "width*3", True),
        *(Dense("width", "width", True),) * 2, Norm("width", 3, True), *pair("width", "text", "text", bias=False),
    ),
)  # fmt: skip


def _siglip_shaped(projector: Steps) -> EncoderSpec:
    """SigLIP over an image in its own shape, up to 2822400 pixels (preprocessor_config.json)."""
    sizes = {**vit(width=1152, heads=16, middle=4304, depth=27, patch=14, image=384), "merge": 2}
    return EncoderSpec(sizes, of_pixels(2822400), _SIGLIP, projector)


# PaddleOCR-VL: a projector over two by two patches that is not divided
PADDLE_OCR = _siglip_shaped((Norm("width", bias=True), *pair("merged", "merged", "text", split=False)))
# Keye-VL: a second position table, and a projector that is divided; in 1.5 its norm is over two by two patches
KEYE = _siglip_shaped((Dense(32768, "width"), Norm("width", bias=True), *pair("merged", "merged", "text")))
KEYE15 = _siglip_shaped((Dense(32768, "width"), Norm("merged", bias=True), *pair("merged", "merged", "text")))

# Moondream 3: SigLIP over a crop and an overview, whose features the projector takes together
MOONDREAM = EncoderSpec(
    {
        "width": size("enc_dim", 1152), "heads": size("enc_n_heads", 16), "middle": size("enc_ff_dim", 4304),
        "depth": size("enc_n_layers", 27), "image": size("crop_size", 378), "patch": size("enc_patch_size", 14),
        "inner": size("proj_inner_dim", 8192),
    },
    ("grid+1", "grid*2", "pixels*2"), _SIGLIP, pair("width*2", "inner", "text"), part="config.vision",
)  # fmt: skip


def moondream_text(config: Fields) -> str:
    """The text model; the first two Moondreams, whose configs name the same architecture, are rejected."""
    if config.text("model_type", default="moondream3") != "moondream3":
        raise config.wrong("model_type", config.raw("model_type"), "moondream3")
    return "Moondream3TextModel"
