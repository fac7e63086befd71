"""Nemotron Nano VL: C-RADIO over tiles, shuffled, and a projector that is not divided (vLLM: nano_nemotron_vl.py and,
for the first model, nemotron_vl.py)."""

from __future__ import annotations

import math

from rayllm_ctl.catalog.modelconfig.encoders.sizes import EncoderScope, SizeEntry, flag, size
from rayllm_ctl.catalog.modelconfig.encoders.source import EncoderSource
from rayllm_ctl.catalog.modelconfig.encoders.spec import WHOLE, Dense, EncoderSpec, Norm, Steps, pair

_TIMM = {
    "vit_small_patch16_224": (384, 12, 6, 1536), "vit_base_patch16_224": (768, 12, 12, 3072),
    "vit_large_patch16_224": (1024, 24, 16, 4096), "vit_huge_patch16_224": (1280, 32, 16, 5120),
}  # fmt: skip
"""Width, depth, heads and feed-forward width of timm's names, which are all that the config says of them."""

_ARGS = "vision_config.args"


def _timm(position: int) -> SizeEntry:
    def entry(scope: EncoderScope) -> int:
        args = scope.fields(_ARGS)
        name = args.text("model")
        if name not in _TIMM:
            raise args.wrong("model", name, f"one of {', '.join(_TIMM)}")
        return _TIMM[name][position]

    return entry


def _positions(scope: EncoderScope) -> int:
    """Of the largest image."""
    return round(scope["longest"] / scope["patch"]) ** 2


def _marks(scope: EncoderScope) -> int:
    """Tokens that stand before the patches."""
    args = scope.fields(_ARGS)
    teachers = {teacher.text("name") for teacher in args.objects("teachers", longest=64)}
    classes = max(1, len(teachers)) if args.flag("cls_token_per_teacher") else 1
    multiple = args.integer("register_multiple", default=0, low=0, high=2**10)
    return classes + (multiple - classes % multiple if multiple else 0)


def _ratio(scope: EncoderScope) -> float:
    """The share of positions along a side that shuffling leaves."""
    return max(scope.source.config.number("downsample_ratio", default=0.5), 0.05)


def _largest_image(scope: EncoderScope) -> tuple[int, int, int]:
    """All tiles and an overview."""
    return _shuffled(scope, scope["grid*tiles+grid"])


def _largest_shape(scope: EncoderScope) -> tuple[int, int, int]:
    """Images are cut by their own shape where the config bounds their patches."""
    args, most = scope.fields(_ARGS), 0
    if args.has("min_num_patches"):
        most = max(args.integer("max_num_patches", low=-1), 0)
    return _shuffled(scope, most or scope["grid*tiles+grid"])


def _shuffled(scope: EncoderScope, patches: int) -> tuple[int, int, int]:
    return math.ceil(patches * _ratio(scope) * _ratio(scope)), patches, patches * scope["values"]


_SIZES: dict[str, SizeEntry] = {
    "width": _timm(0), "depth": _timm(1), "heads": _timm(2), "middle": _timm(3), "patch": size("patch_size", 16),
    "longest": size("cpe_max_size", 2048, _ARGS, high=2**16), "positions": _positions, "marks": _marks,
    "given": size("vit_hidden_size", "width", "config"), "share": lambda scope: round(1 / _ratio(scope)),
    "merged": "given*share*share", "inner": size("projector_hidden_size", None, "config"),
    "image": size("force_image_size", 512, "config"), "tiles": size("max_dynamic_patch", 12, "config"),
}  # fmt: skip
_PATCHES: Steps = (Dense("values", "width"), Dense("positions", "width"), Dense("marks", "width"))

# The Omni models also take sound (conformer.py).
NEMOTRON_VL = EncoderSpec(
    {**_SIZES, "pairs": size("video_temporal_patch_size", 1, high=64)}, _largest_shape,
    (Dense("values*pairs", "width", when=lambda scope: scope["pairs"] > 1), *_PATCHES),
    (Norm("merged"), *pair("merged", "inner", "text", bias=False, split=False)),
    others=(((Norm("width", 2),), "depth"),),
)  # fmt: skip
_LLAMA_NEMOTRON_VL = EncoderSpec(
    _SIZES, _largest_image, (),
    (Norm("merged", bias=True), *pair("merged", "inner", "text", split=False)), (WHOLE,),
    (((*_PATCHES, Norm("width", bias=True, when=flag("model_norm", _ARGS))), 1),), sharded=False,
    float32=lambda scope: scope.fields(_ARGS).text("dtype", default="float32").removeprefix("torch.") == "float32",
)  # fmt: skip


def llama_nemotron_vl(source: EncoderSource) -> EncoderSpec:
    """The encoder comes with the checkpoint (radio/hf_model.py of NVlabs/RADIO): it is not divided, and of a dtype of
    its own, float32 if its config does not say."""
    args = source.vision.child("args")
    for part, name in (
        (source.vision, "adaptor_names"),
        (source.vision, "feature_normalizer_config"),
        (source.vision, "inter_feature_normalizer_config"),
        (args, "cpe_num_registers"),
    ):
        if part.raw(name):
            raise part.wrong(name, part.raw(name), "absent: what it adds to the encoder is not known here")
    if not args.has("cpe_max_size"):
        raise args.missing("cpe_max_size")
    return _LLAMA_NEMOTRON_VL
