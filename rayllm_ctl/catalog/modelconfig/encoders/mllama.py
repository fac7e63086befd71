"""Llama 3.2 Vision: four tiles of 560 pixels through local and global blocks (vLLM: mllama.py)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.sizes import Scope, size, vit
from rayllm_ctl.catalog.modelconfig.encoders.spec import Block, Dense, EncoderSpec, Norm, patches_in


def _positions(scope: Scope) -> int:
    """Tables of the patches of a tile, and of the tiles for each supported shape of an image."""
    listed = scope.source.vision.raw("supported_aspect_ratios")
    ratios = len(listed) if isinstance(listed, list) else 8
    tiles = scope["tiles"]
    return scope["patches"] * (1 + tiles * (ratios + 1)) + 2 * tiles * (ratios + 1)


def _tiles(scope: Scope) -> tuple[int, int, int]:
    patches = scope["patches"] * scope["tiles"]
    return patches, patches, scope["pixels"] * scope["tiles"]


MLLAMA = EncoderSpec(
    {
        **vit(width=1280, middle=5120, patch=14, image=560), "heads": size("attention_heads num_attention_heads", 16),
        "layers": size("num_hidden_layers", 32),
        "depth": lambda scope: scope["layers"] + scope.source.vision.integer("num_global_layers", default=8, high=1024),
        "tiles": size("max_num_tiles", 4), "patches": lambda scope: scope["grid"] + 1, "positions": _positions,
        "features": size("vision_output_dim", 7680),
    },
    _tiles, (patches_in(bias=False), Dense("positions", "width"), Norm("width", 2, True)),
    (Dense("features", "text", True),), Block(bias=False, mlp_bias=True),
)  # fmt: skip
