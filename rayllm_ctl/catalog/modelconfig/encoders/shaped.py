"""Encoders that take an image in its own shape: Pixtral, MoonViT, Gemma 4, Muse Glimmer (vLLM: muse_glimmer.py)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.sizes import EncoderScope, SizeEntry, flag, size, stated, vit
from rayllm_ctl.catalog.modelconfig.encoders.spec import (
    WHOLE,
    Block,
    Dense,
    EncoderSpec,
    Norm,
    of_patches,
    of_tokens,
    pair,
    patches_in,
)


def _pixtral_merges(scope: EncoderScope) -> bool:
    return _pixtral_merge(scope) > 1 or scope.source.config.has("multimodal_projector_bias")


def _pixtral_merge(scope: EncoderScope) -> int:
    return scope.source.config.integer("spatial_merge_size", default=1, high=64)


# Pixtral (Mistral Small 3.1): gated blocks with RMS norms, patches merged two by two. Each row of tokens ends with one
# more.
PIXTRAL = EncoderSpec(
    {
        **vit(width=1024, heads=16, middle=4096, depth=24, patch=16, image=1024),
        "merge": lambda scope: max(_pixtral_merge(scope), 2) if _pixtral_merges(scope) else 1,
        "rows": "image/patch/merge",
    },
    ("rows*rows+rows", "grid", "pixels"), (patches_in(bias=False), Norm("width")),
    (
        Norm("width", when=_pixtral_merges), Dense("merged", "width", when=_pixtral_merges),
        *pair("width", "text", "text", bias=flag("multimodal_projector_bias", "config")),
    ),
    (Block(gated=True, bias=False, norm_bias=False),), masked=True,
)  # fmt: skip


def _kernel(scope: EncoderScope) -> int:
    kernel = scope.source.vision.integers("merge_kernel_size", low=1, longest=4) or (2, 2)
    return kernel[0] * kernel[-1]


def _has_bias(scope: EncoderScope) -> bool:
    return scope.source.vision.text("norm_type") != "rmsnorm"


def _is_second(scope: EncoderScope) -> bool:
    return scope.source.vision.text("mm_projector_type").endswith("v2")


def _is_first(scope: EncoderScope) -> bool:
    return not _is_second(scope)


# MoonViT (Kimi-VL, Kimi K2.5 and K3): at most 4096 patches an image in Kimi-VL, 16384 later
MOONVIT = EncoderSpec(
    {
        "width": size("vt_hidden_size hidden_size", 1152),
        "heads": size("vt_num_attention_heads num_attention_heads", 16),
        "middle": size("vt_intermediate_size intermediate_size", 4304),
        "depth": size("vt_num_hidden_layers num_hidden_layers", 27), "patch": size("patch_size", 14),
        "inner": size("qkv_hidden_size", "width"), "rows": size("init_pos_emb_height", 64),
        "columns": size("init_pos_emb_width", 64), "kernel": _kernel, "merged": "width*kernel",
        "patches": lambda scope: 16384 if scope.source.vision.has("vt_hidden_size") else 4096,
    },
    ("patches/kernel", "patches", "patches*values"),
    (
        patches_in(bias=flag("patch_embed_proj_bias", default=True)), Dense("rows*columns", "width"),
        Norm("width", bias=_has_bias),
    ),
    (
        Norm("text", when=_is_second), Norm("width", bias=True, when=_is_first),
        *pair("merged", "merged", "text", bias=_is_first, split=False),
    ),
    (
        Block(
            bias=flag("attn_bias", default=True), mlp_bias=flag("linear_bias", default=True), norm_bias=_has_bias,
            inner="inner",
        ),
    ),
)  # fmt: skip

# Gemma 4: vLLM takes it from transformers; tensor parallelism does not divide it
GEMMA4 = EncoderSpec(
    {
        **vit(width=1152, heads=16, middle=4304, depth=27, patch=16),
        "head": size("head_dim", lambda scope: max(1, scope["width"] // scope["heads"])),
        "positions": size("position_embedding_size", 10240), "merge": size("pooling_kernel_size", 3),
        "tokens": size("vision_soft_tokens_per_image", 280, "config"),
    },
    of_tokens("tokens"), (Dense("positions*2", "width"), patches_in(bias=False)),
    (Dense("width", "text"), Norm("width", 2)),
    (WHOLE._replace(gated=True, bias=False, norm_bias=False, norms=4), Norm("head", 2)), sharded=False,
)  # fmt: skip

# Gemma 4 12B: no encoder; patches go through one layer into the decoder, which sees them itself
GEMMA4_UNIFIED = EncoderSpec(
    {
        "width": size("mm_embed_dim", 3840), "patch": size("patch_size", 16), "pool": size("pooling_kernel_size", 3),
        "values": "patch*patch*pool*pool*3", "positions": size("mm_posemb_size", 1120),
        "out": size("output_proj_dims", 3840), "tokens": size("num_soft_tokens", 280),
        "sound": size("audio_embed_dim", 640, "audio_config"),
    },
    of_patches("tokens"),
    (
        Norm("values", bias=True), Dense("values", "width", True, "column"), Norm("width", 2, True),
        Dense("positions*2", "width"), Dense("out", "text"),
        Dense("sound", "text", when=lambda scope: scope.source.config.has("audio_config")),
    ),
    present=stated("vision_config"),
)  # fmt: skip

_MUSE_TOKENS = max(4096, 96 // 2 * 144)
"""Of an image; of a video of 96 frames, two to a patch (vllm/transformers_utils/processors/muse_glimmer.py)."""


def _either(name: str, flat: str, default: int) -> SizeEntry:
    """Older files keep the encoder's sizes at the top, under names of their own."""
    return size(name, lambda scope: scope.source.config.integer(flat, default=default))


def _muse_middle(scope: EncoderScope) -> int:
    share = max(scope.source.config.number("vision_mlp_ratio", default=0.0), 0.0)
    return scope.source.vision.integer("intermediate_size", default=int(share * scope["width"]) or 8960)


def _has_vision(scope: EncoderScope) -> bool:
    """False for a config of the text model alone."""
    nested = scope.source.config.text("model_type") == "muse_glimmer"
    return scope.source.config.flag("has_vision", default=nested or bool(scope.source.vision))


# Muse Glimmer: images and videos; its attention alone is divided
MUSE = EncoderSpec(
    {
        "width": _either("hidden_size", "vision_latent_dim", 1536),
        "heads": _either("num_attention_heads", "vision_heads", 16), "middle": _muse_middle,
        "depth": _either("num_hidden_layers", "vision_layers", 50),
        "patch": _either("patch_size", "vision_patch_size", 14),
        "frames": _either("patch_temporal", "vision_patch_temporal", 2),
        "merge": _either("merge_kernel_size", "vision_downsample_factor", 2),
        "rows": _either("pos_emb_height", "vision_pos_emb_grid_h", 32),
        "columns": _either("pos_emb_width", "vision_pos_emb_grid_w", 32),
        "adapter": _either("adapter_dim", "vision_adapter_dim", 4096),
    },
    of_tokens(_MUSE_TOKENS), (patches_in(bias=False), Dense("rows*columns", "width"), Norm("width", 2, True)),
    (*pair("merged", "adapter", "adapter", bias=False, split=False), Dense("adapter", "text")),
    (Block(kv_heads="heads", split_mlp=False),), present=_has_vision,
)  # fmt: skip
