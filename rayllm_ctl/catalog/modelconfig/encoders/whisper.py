"""Whisper and encoders of its kind with their projectors: Qwen2-Audio, Ultravox, Voxtral, Audio Flamingo 3, GLM-ASR,
Kimi-Audio, Qwen2.5-Omni and Qwen3-Omni (vLLM: qwen*_omni*_thinker.py and the models' own files).

Two convolutions thin mel frames out to 50 positions a second; a clip is 30 seconds.
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source
from rayllm_ctl.catalog.modelconfig.encoders.sizes import Entry, Scope, flag, size
from rayllm_ctl.catalog.modelconfig.encoders.spec import (
    Block,
    Dense,
    EncoderSpec,
    Limit,
    Norm,
    Step,
    pair,
    read_encoder,
)
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import MultiModalEncoder

WHISPER_SIZES: dict[str, Entry] = {
    "width": size("d_model hidden_size", 1280), "heads": size("encoder_attention_heads num_attention_heads", 20),
    "middle": size("encoder_ffn_dim intermediate_size", 5120), "depth": size("encoder_layers num_hidden_layers", 32),
    "bins": size("num_mel_bins", 128), "positions": size("max_source_positions", 1500),
}  # fmt: skip
_CONVOLUTIONS: tuple[Step, ...] = (Dense("bins*3", "width", True), Dense("width*3", "width", True))
WHISPER_STEM: tuple[Step, ...] = (*_CONVOLUTIONS, Dense("positions", "width"), Norm("width", bias=True))

_TINY: dict[str, Entry] = {
    "width": size("d_model hidden_size", 384), "heads": size("encoder_attention_heads num_attention_heads", 6),
    "middle": size("encoder_ffn_dim intermediate_size", 1536), "depth": size("encoder_layers num_hidden_layers", 4),
    "bins": size("num_mel_bins", 80), "positions": size("max_source_positions", 1500),
}  # fmt: skip
"""What transformers' WhisperConfig assumes where a nested config is silent."""


def whisper_block(*, split: bool = True) -> Block:
    """`split`: vLLM's own, which tensor parallelism divides and whose keys have a bias; else that of transformers."""
    return Block(split=split, key_bias=split)


def of_clips(stacked: str | int, clips: int = 1) -> Limit:
    """So many clips at once; `stacked` positions make one token."""

    def limit(scope: Scope) -> tuple[int, int, int]:
        patches = clips * scope["positions"]
        return -(-patches // scope[stacked]), patches, 2 * patches * scope["bins"]

    return limit


def _of_transformers(*projector: Step) -> EncoderSpec:
    """The encoder that transformers has, pooled by two."""
    return EncoderSpec(
        WHISPER_SIZES, of_clips(2), WHISPER_STEM, projector, whisper_block(split=False), modality="audio", sharded=False
    )


QWEN2_AUDIO = _of_transformers(Dense("width", "text", True))
AUDIO_FLAMINGO = _of_transformers(
    *pair("width", "text", "text", bias=flag("projector_bias", "config", default=True), split=False)
)
MINICPM_O = EncoderSpec(
    {
        **_TINY, "quarter": lambda scope: max(1, scope.source.vision.integer("encoder_ffn_dim", default=1536) // 4),
        "pool": size("audio_pool_step", 2, "config"),
    },
    lambda scope: (30 * (50 // scope["pool"]), scope["positions"], 0), WHISPER_STEM,
    pair("quarter", "text", "text", split=False), whisper_block(split=False), modality="audio", sharded=False,
)  # fmt: skip


def _stacked_features(scope: Scope) -> int:
    return scope["width"] * scope["stacked"]


# Voxtral: four positions to a token; its position table is in float32
VOXTRAL = EncoderSpec(
    {**WHISPER_SIZES, "stacked": size("downsample_factor", 4), "features": _stacked_features}, of_clips("stacked"),
    (*_CONVOLUTIONS, Dense("positions", "width", float32=True), Norm("width", bias=True)),
    pair("features", "text", "text", bias=False, split=False), modality="audio",
)  # fmt: skip


def _has_layers(scope: Scope) -> bool:
    return scope["blocks"] > 0


def _is_plain(scope: Scope) -> bool:
    return not _has_layers(scope)


def _half(scope: Scope) -> int:
    gated = scope.source.config.text("projector_act", default="swiglu") == "swiglu"
    return scope["inner"] // 2 if gated else scope["inner"]


def _normed(scope: Scope) -> int:
    return scope["half"] if scope.source.config.flag("projector_ln_mid") else scope["text"]


# vLLM's own Whisper encoder, frames stacked, and a projector that is not divided: two layers, or blocks of the
# encoder's own kind. vLLM profiles 16 clips at once.
_ULTRAVOX = EncoderSpec(
    {
        "layers": size("encoder_layers num_hidden_layers", 4), **_TINY,
        "blocks": size("num_projector_layers", 0, "config", low=0),
        "depth": lambda scope: scope["layers"] + scope["blocks"], "stacked": size("stack_factor", 8, "config"),
        "features": _stacked_features, "inner": size("hidden_size", 4096, "config"), "half": _half, "normed": _normed,
    },
    of_clips("stacked", 16), WHISPER_STEM,
    (
        Norm("features"), Dense("features", "width", True, when=_has_layers),
        Dense("positions", "width", when=_has_layers), Norm("width", when=_has_layers),
        Dense("width", "text", True, when=_has_layers), Dense("features", "inner", when=_is_plain),
        Dense("half", "text", when=_is_plain), Norm("normed", when=_is_plain),
    ),
    modality="audio",
)  # fmt: skip


def read_ultravox(source: Source) -> MultiModalEncoder:
    if not source.config.has("audio_config"):
        raise source.config.missing("audio_config")
    return read_encoder(_ULTRAVOX, source)


# GLM-ASR: rotary positions, no table; a projector over as many positions as fill the feed-forward width
GLM_ASR = EncoderSpec(
    {
        "width": size("hidden_size", 1280), "heads": size("num_attention_heads", 20),
        "kv_heads": size("num_key_value_heads", "heads"), "middle": size("intermediate_size", 5120),
        "depth": size("num_hidden_layers", 32), "bins": size("num_mel_bins", 128),
        "positions": size("max_source_positions", 1500),
        "stacked": lambda scope: max(1, scope["middle"] // scope["width"]),
    },
    of_clips("stacked"), (*_CONVOLUTIONS, Norm("width", bias=True)), pair("middle", "text*2", "text"),
    Block(kv_heads="kv_heads"), modality="audio",
)  # fmt: skip

_KIMI_AUDIO = EncoderSpec(
    {**WHISPER_SIZES, "inputs": size("kimia_adaptor_input_dim", "width*4", "config")}, of_clips(4), WHISPER_STEM,
    (*pair("inputs", "text", "text", split=False), Norm("text", bias=True)), modality="audio",
)  # fmt: skip


def read_kimi_audio(source: Source) -> MultiModalEncoder:
    """Kimi-Audio: Whisper large-v3, which its checkpoint keeps in a folder of its own, four positions to a token."""
    return read_encoder(_KIMI_AUDIO, source._replace(vision=Fields({})))


_OMNI_SIZES: dict[str, Entry] = {
    "width": size("d_model", 1280), "heads": size("encoder_attention_heads", 20),
    "middle": size("encoder_ffn_dim", 5120), "depth": size("encoder_layers num_hidden_layers", 32),
    "bins": size("num_mel_bins", 128), "out": size("output_dim", "text"),
}  # fmt: skip
_CLIP_FRAMES = 30 * 100
"""Mel frames of a clip."""
# Two convolutions over time; it comes from transformers and is not divided, and its keys have no bias.
_QWEN25_OMNI = EncoderSpec(
    {**_OMNI_SIZES, "ends": "out*2"},
    lambda scope: (_CLIP_FRAMES // 4, _CLIP_FRAMES // 2, _CLIP_FRAMES * scope["bins"]),
    (*_CONVOLUTIONS, Norm("width", bias=True)), (Dense("width", "out", True), Norm("ends")), whisper_block(split=False),
    modality="audio", sharded=False,
)  # fmt: skip
# Three convolutions over time and pitch
_QWEN3_OMNI = EncoderSpec(
    {
        **_OMNI_SIZES, "channels": size("downsample_hidden_size"),
        "pitches": lambda scope: scope["channels"] * -(-scope["bins"] // 8),
    },
    lambda scope: (_CLIP_FRAMES // 8, _CLIP_FRAMES // 8, _CLIP_FRAMES * scope["bins"]),
    (
        Dense(9, "channels", True), *(Dense("channels*9", "channels", True),) * 2, Dense("pitches", "width"),
        Norm("width", bias=True),
    ),
    pair("width", "width", "out", split=False), modality="audio",
)  # fmt: skip


def read_qwen_omni(source: Source) -> MultiModalEncoder:
    newer = source.vision.has("downsample_hidden_size")
    return read_encoder(_QWEN3_OMNI if newer else _QWEN25_OMNI, source)
