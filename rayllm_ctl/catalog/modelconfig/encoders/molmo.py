"""Encoders of Molmo and Molmo 2: features of two layers, pooled by attention over two by two patches.

vLLM: molmo.py, molmo2.py of 0.29, which keep the outputs of all layers. Crops are those of preprocessor_config.json,
frames those that the authors' molmo-utils samples.
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.sizes import EncoderScope, size, vit
from rayllm_ctl.catalog.modelconfig.encoders.spec import (
    Attention,
    Block,
    Dense,
    EncoderSpec,
    Limit,
    Mlp,
    Norm,
    patches_in,
)
from rayllm_ctl.model.plan.facts import VideoProfile

_MARGINS = 8
"""Patches of a crop, on both sides together, that lie in its neighbours as well."""


def _crops(crops: int) -> Limit:
    """So many crops below one another, each row with an end, and the overview."""

    def limit(scope: EncoderScope) -> tuple[int, int, int]:
        side = scope["image"] // scope["patch"]
        rows = (crops * max(side - _MARGINS, 0) + _MARGINS + 1) // 2
        columns = (side + 1) // 2
        tokens = (rows + columns) * (columns + 1) + 4
        return tokens, (crops + 1) * scope["grid"], (crops + 1) * scope["pixels"]

    return limit


# CLIP ViT-L/14 up to the last layer but one, whatever the config says; up to twelve crops and an overview
MOLMO = EncoderSpec(
    {
        "width": 1024, "heads": 16, "middle": 4096, "patch": 14, "image": 336, "depth": 23,
        "inner": lambda scope: scope.source.config.integer("intermediate_size", low=2) // 2,
    },
    _crops(12), (Norm("width"), Dense(577, "width"), patches_in(bias=False), Norm("width", bias=True), Norm("width*4")),
    (Attention("width*2", "width", "heads", "heads", fused=False), Mlp("width", "inner", "text")),
    kept="depth",
)  # fmt: skip

_ADAPTER = "adapter_config"


def _taken(scope: EncoderScope) -> tuple[int, ...]:
    """Layers whose features are taken, from the first or from the last."""
    depth = scope["layers"]
    listed = scope.source.config.child(_ADAPTER).integers("vit_layers", low=-depth, high=depth - 1, longest=64)
    return listed or (max(-3, -depth),) * 2


def _depth(scope: EncoderScope) -> int:
    return max(layer if layer >= 0 else layer + scope["layers"] for layer in _taken(scope)) + 1


def _frames(scope: EncoderScope) -> VideoProfile:
    """384 frames whose patches are pooled three by three."""
    side = scope["image"] // scope["patch"]
    return VideoProfile((-(-side // 3)) ** 2 + 2, side * side, scope["pixels"], longest=384)


# SigLIP 2 up to the deepest layer that is taken; up to eight crops and an overview
MOLMO2 = EncoderSpec(
    {
        **vit({"patch": "image_patch_size"}, width=1152, heads=16, kv_heads=16, middle=4304, patch=14),
        "layers": size("num_hidden_layers", 27), "depth": _depth, "positions": size("image_num_pos", 577),
        "image": lambda scope: scope.source.vision.integer_at(0, "image_default_input_size", default=378),
        "taken": lambda scope: len(_taken(scope)),
        "pooled": size("hidden_size", 1152, _ADAPTER), "pool_heads": size("num_attention_heads", 16, _ADAPTER),
        "pool_kv_heads": size("num_key_value_heads", 16, _ADAPTER),
        "inner": size("intermediate_size", 18944, _ADAPTER), "out": size("text_hidden_size", "text", _ADAPTER),
    },
    _crops(8), (Dense("positions", "width"), patches_in()),
    (
        Attention("width*taken", "pooled", "pool_heads", "pool_kv_heads", fused=False), Mlp("pooled", "inner", "out"),
    ),
    (Block(kv_heads="kv_heads"),), kept="depth", video=_frames, part="vit_config",
)  # fmt: skip
