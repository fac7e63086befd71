"""MiniCPM-V and MiniCPM-o: SigLIP over slices of an image, resampled to a fixed number of queries (vLLM: minicpmv.py,
minicpmo.py)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.sizes import EncoderScope, size, vit
from rayllm_ctl.catalog.modelconfig.encoders.spec import Attention, Dense, EncoderSpec, Norm, pair, patches_in
from rayllm_ctl.catalog.modelconfig.fields import Fields

_VISION_TEXT = {
    "2.5": "LlamaForCausalLM",
    "2.6": "Qwen2ForCausalLM",
    "4.0": "LlamaForCausalLM",
    "4.5": "Qwen3ForCausalLM",
}
_AUDIO_TEXT = {"2.6": "Qwen2ForCausalLM", "4.5": "Qwen3ForCausalLM"}
"""The text model of each version that vLLM has; MiniCPM-V 2.0, whose encoder is from timm, is not read."""


def minicpmv_text(config: Fields) -> str:
    """The text architecture: the config says the version only."""
    small = config.integer("hidden_size") == 2304 and config.integer("query_num", default=64) == 64
    return _by_version(config, _VISION_TEXT, "2.0" if small else "2.5")


def minicpmo_text(config: Fields) -> str:
    return _by_version(config, _AUDIO_TEXT, "2.6")


def _by_version(config: Fields, known: dict[str, str], default: str) -> str:
    version = config.raw("version")
    stated = default if version is None else str(float(version)) if isinstance(version, (int, float)) else version
    if not isinstance(stated, str) or stated not in known:
        raise config.wrong("version", stated, f"one of {', '.join(sorted(known))}")
    return known[stated]


def _depth(scope: EncoderScope, *, drops: bool) -> int:
    return max(1, scope["layers"] - scope.source.config.flag("drop_vision_last_layer", default=drops))


def _differ(scope: EncoderScope) -> bool:
    return scope["width"] != scope["text"]


# All slices and an overview; the resampler is not divided.
MINICPMV = EncoderSpec(
    {
        **vit(width=1152, heads=16, middle=4304, patch=14, image=980), "layers": size("num_hidden_layers", 27),
        "depth": lambda scope: _depth(scope, drops=True), "queries": size("query_num", 64, "config"),
        "slices": size("max_slice_nums", 9, "slice_config"), "side": size("scale_resolution", 448, "slice_config"),
        "views": "slices+1", "small": "side/patch",
    },
    ("queries*views", "small*small*views", "side*side*views*3"),
    (patches_in(), Dense("grid", "width"), Norm("width", bias=True)),
    (
        Dense("queries", "text"), Dense("width", "text", when=_differ), Dense("text", "text*3", True),
        Dense("text", "text", True), Dense("text", "text"), Norm("text", 3, True),
    ),
)  # fmt: skip
# MiniCPM-V 4.6: no resampler; attention in windows of two by two merges them, and an MLP merges again
MINICPMV46 = EncoderSpec(
    {
        **vit(width=768, heads=12, middle=3072, patch=16, image=224), "layers": size("num_hidden_layers", 12),
        "depth": lambda scope: _depth(scope, drops=False), "side": size("image_size", 448, "config"),
        "small": "side/patch",
    },
    ("small*small*10/16", "small*small*10", "side*side*30"),
    (patches_in(), Dense("grid", "width"), Norm("width", 2, True)),
    (
        Attention("width", "width", "heads", "heads"), Dense("width*4", "middle*4", True),
        Dense("middle*4", "width", True), *pair("width*4", "width*4", "text", split=False), Norm("width*4", 2, True),
    ),
)  # fmt: skip
