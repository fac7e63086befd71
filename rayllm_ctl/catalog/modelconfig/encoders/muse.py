"""Muse Glimmer: an encoder of images and videos whose attention alone is divided (vLLM: muse_glimmer.py)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source
from rayllm_ctl.catalog.modelconfig.encoders.sizes import Entry, Scope, size
from rayllm_ctl.catalog.modelconfig.encoders.spec import (
    Block,
    Dense,
    EncoderSpec,
    Norm,
    of_tokens,
    pair,
    patches_in,
    read_encoder,
)
from rayllm_ctl.model.facts import MultiModalEncoder

_TOKENS = max(4096, 96 // 2 * 144)
"""Of an image; of a video of 96 frames, two to a patch (vllm/transformers_utils/processors/muse_glimmer.py)."""


def _either(name: str, flat: str, default: int) -> Entry:
    """Older files keep the encoder's sizes at the top, under names of their own."""
    return size(name, lambda scope: scope.source.config.integer(flat, default=default))


def _middle(scope: Scope) -> int:
    share = max(scope.source.config.number("vision_mlp_ratio", default=0.0), 0.0)
    return scope.source.vision.integer("intermediate_size", default=int(share * scope["width"]) or 8960)


_MUSE = EncoderSpec(
    {
        "width": _either("hidden_size", "vision_latent_dim", 1536),
        "heads": _either("num_attention_heads", "vision_heads", 16), "middle": _middle,
        "depth": _either("num_hidden_layers", "vision_layers", 50),
        "patch": _either("patch_size", "vision_patch_size", 14),
        "frames": _either("patch_temporal", "vision_patch_temporal", 2),
        "merge": _either("merge_kernel_size", "vision_downsample_factor", 2),
        "rows": _either("pos_emb_height", "vision_pos_emb_grid_h", 32),
        "columns": _either("pos_emb_width", "vision_pos_emb_grid_w", 32),
        "positions": lambda scope: scope["rows"] * scope["columns"],
        "adapter": _either("adapter_dim", "vision_adapter_dim", 4096),
    },
    of_tokens(_TOKENS), (patches_in(bias=False), Dense("positions", "width"), Norm("width", 2, True)),
    (*pair("merged", "adapter", "adapter", bias=False, split=False), Dense("adapter", "text")),
    Block(kv_heads="heads", split_mlp=False),
)  # fmt: skip


def read_muse_glimmer(source: Source) -> MultiModalEncoder | None:
    """The encoder, or None for a config of the text model alone."""
    nested = source.config.text("model_type") == "muse_glimmer"
    if not source.config.flag("has_vision", default=nested or bool(source.vision)):
        return None
    return read_encoder(_MUSE, source)
