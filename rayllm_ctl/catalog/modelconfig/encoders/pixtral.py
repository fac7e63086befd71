"""Pixtral's encoder (Mistral Small 3.1, Pixtral): gated blocks with RMS norms, patches merged two by two."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.sizes import Scope, flag, vit
from rayllm_ctl.catalog.modelconfig.encoders.spec import Block, Dense, EncoderSpec, Norm, pair, patches_in

_BIAS = flag("multimodal_projector_bias", "config")


def _merges(scope: Scope) -> bool:
    return _stated_merge(scope) > 1 or scope.source.config.has("multimodal_projector_bias")


def _stated_merge(scope: Scope) -> int:
    return scope.source.config.integer("spatial_merge_size", default=1, high=64)


def _largest_image(scope: Scope) -> tuple[int, int, int]:
    """Each row of tokens ends with one more."""
    rows = scope["image"] // scope["patch"] // scope["merge"]
    return rows * rows + rows, scope["grid"], scope["pixels"]


PIXTRAL = EncoderSpec(
    {
        **vit(width=1024, heads=16, middle=4096, depth=24, patch=16, image=1024),
        "merge": lambda scope: max(_stated_merge(scope), 2) if _merges(scope) else 1,
    },
    _largest_image, (patches_in(bias=False), Norm("width")),
    (Norm("width", when=_merges), Dense("merged", "width", when=_merges), *pair("width", "text", "text", bias=_BIAS)),
    Block(gated=True, bias=False, norm_bias=False), masked=True,
)  # fmt: skip
