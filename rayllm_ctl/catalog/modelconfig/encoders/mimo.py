"""MiMo V2 Omni: Qwen2.5-VL's encoder with grouped queries and sinks, and one of sound (vLLM: mimo_v2_omni.py).

The tokenizer of sound that some checkpoints keep in a folder of its own is not counted: config.json does not say how
large it is, and vLLM loads it only from a local directory (mimo_audio.py).
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.sizes import EncoderScope, size, vit
from rayllm_ctl.catalog.modelconfig.encoders.source import EncoderSource
from rayllm_ctl.catalog.modelconfig.encoders.spec import (
    Attention,
    Block,
    Dense,
    EncoderSpec,
    Mlp,
    Norm,
    Steps,
    pair,
    patches_in,
)
from rayllm_ctl.catalog.modelconfig.fields import COMPLETE_CONFIG, Fields
from rayllm_ctl.errors import UserError

_FULL = (7, 15, 23, 31)
"""Blocks that see the whole image where the config does not list them."""

_UNUSED_ROWS = 151936
"""Of a table of words that the transformer over codes is made with and never reads (transformers' Qwen2 default)."""


def _windows(scope: EncoderScope) -> int:
    """Blocks of windows, which have a sink per head; those that see the whole image have none."""
    vision, depth = scope.source.vision, scope["depth"]
    whole = vision.integers("fullatt_block_indexes") if vision.has("fullatt_block_indexes") else _FULL
    return depth - len({index for index in whole if index < depth}) if vision.flag("use_sink") else 0


# The sinks are not divided.
MIMO_IMAGE = EncoderSpec(
    {
        **vit(
            {"heads": "num_heads", "depth": "depth", "key": "qk_channels", "value": "kv_channels"}, width=1280,
            heads=32, kv_heads=8, key=64, value=64, middle=4608, depth=28, patch=16, frames=2, merge=2, out=2048,
        ),
        "windows": _windows, "most": size("image_max_pixels", 8388608, "processor_config"),
        "patches": "most/patch/patch", "tokens": lambda scope: max(1, scope["patches/merge/merge"]),
    },
    ("tokens", "patches", "most*frames*3"), (patches_in(bias=False), Norm("width")),
    pair("merged", "merged", "out", bias=False),
    (
        Attention("width", "width", "heads", "kv_heads", "key", "value"), Mlp("width", "middle", "width", True),
        Norm("width", 2),
    ),
    (((Norm("heads"),), "windows"),),
)  # fmt: skip

# Tables of codes, a small transformer over groups of them, and a projection; none of it divided
_SOUND = EncoderSpec(
    {
        "width": size("input_local_dim", 1024), "heads": size("input_local_attn_heads", 64),
        "middle": size("input_local_intermediate_size", 4096), "depth": size("input_local_layers", 6),
        "group": size("group_size", 4, high=1024), "out": size("out_hidden_size", 4096),
        "channels": size("audio_channels", 8, high=256), "codes": size("audio_segment_size", 6000),
        "tokens": lambda scope: max(1, scope["codes"] // scope["group"]),
    },
    ("tokens", "tokens*group", "tokens*group*channels"), (),
    (Dense("width*group", "out"),),
    (Block(gated=True, mlp_bias=False, out_bias=False, norm_bias=False),),
    modality="audio", sharded=False, present=lambda scope: scope.source.config.has("audio_config"),
)  # fmt: skip


def mimo_sound(source: EncoderSource) -> EncoderSpec:
    sound = source.vision
    rows = _vocabularies(sound, sound.integer("audio_channels", default=8, high=256))
    normed: Steps = (Norm("width"),) if sound.flag("add_post_norm") else ()
    once = sound.integer("projection_layers", default=1, high=2) == 1
    return _SOUND._replace(
        stem=(Dense(_UNUSED_ROWS, "width"), *(Dense(count, "width") for count in rows), *normed),
        projector=_SOUND.projector if once else pair("width*group", "width*group*4", "out", bias=False),
    )


def _vocabularies(sound: Fields, channels: int) -> tuple[int, ...]:
    """Rows of each channel's table: one number for all, or one each with dashes between them."""
    raw = sound.raw("speech_vocab_size")
    text = "1025-1025-129-129-129-129-129-129" if raw is None else str(raw)
    parts = text[:4096].split("-")
    if not all(part.isascii() and part.isdigit() and 0 < int(part) < 2**24 for part in parts):
        raise sound.wrong("speech_vocab_size", raw, "numbers with dashes between them")
    sizes = tuple(int(part) for part in parts)
    if len(sizes) == 1:
        return sizes * channels
    if len(sizes) < channels:
        raise UserError(
            f"config.json: {sound.where}speech_vocab_size has {len(sizes)} numbers for {channels} audio_channels",
            hint=COMPLETE_CONFIG,
        )
    return sizes[:channels]
