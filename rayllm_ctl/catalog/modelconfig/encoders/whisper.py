"""Whisper and encoders of its kind with their projectors: Qwen2-Audio, Ultravox, Voxtral, Audio Flamingo 3, GLM-ASR,
Kimi-Audio, Qwen2.5-Omni and Qwen3-Omni (vLLM: qwen*_omni*_thinker.py and the models' own files).

Two convolutions thin mel frames out to 50 positions a second; a clip is 30 seconds.
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.sizes import EncoderScope, SizeEntry, flag, size, stated, vit
from rayllm_ctl.catalog.modelconfig.encoders.source import EncoderSource
from rayllm_ctl.catalog.modelconfig.encoders.spec import (
    WHOLE,
    Block,
    Dense,
    EncoderSpec,
    Limit,
    Norm,
    Step,
    Steps,
    pair,
)

_NAMES = {
    "width": "d_model hidden_size", "heads": "encoder_attention_heads num_attention_heads",
    "middle": "encoder_ffn_dim intermediate_size", "depth": "encoder_layers num_hidden_layers",
    "positions": "max_source_positions",
}  # fmt: skip
_LARGE = vit(_NAMES, width=1280, heads=20, middle=5120, depth=32, bins=128, positions=1500)
_TINY = vit(_NAMES, width=384, heads=6, middle=1536, depth=4, bins=80, positions=1500)
"""What transformers' WhisperConfig assumes where a nested config is silent."""

_CONVOLUTIONS: Steps = (Dense("bins*3", "width", True), Dense("width*3", "width", True))
_STEM: Steps = (*_CONVOLUTIONS, Dense("positions", "width"), Norm("width", bias=True))
_OF_TRANSFORMERS: Steps = (WHOLE._replace(key_bias=False),)
"""Blocks that come from transformers: tensor parallelism does not divide them. Those of vLLM's own have key biases."""


def _of_clips(stacked: str | int, clips: int = 1) -> Limit:
    """So many clips at once; `stacked` positions make one token."""

    def limit(scope: EncoderScope) -> tuple[int, int, int]:
        patches = clips * scope["positions"]
        return -(-patches // scope[stacked]), patches, 2 * patches * scope["bins"]

    return limit


def _of_transformers(*projector: Step) -> EncoderSpec:
    """The encoder that transformers has, pooled by two."""
    return EncoderSpec(_LARGE, _of_clips(2), _STEM, projector, _OF_TRANSFORMERS, modality="audio", sharded=False)


QWEN2_AUDIO = _of_transformers(Dense("width", "text", True))
AUDIO_FLAMINGO = _of_transformers(
    *pair("width", "text", "text", bias=flag("projector_bias", "config", default=True), split=False)
)
MINICPM_O = EncoderSpec(
    {
        **_TINY, "quarter": lambda scope: max(1, scope.source.vision.integer("encoder_ffn_dim", default=1536) // 4),
        "pool": size("audio_pool_step", 2, "config"),
    },
    ("50/pool*30", "positions", 0), _STEM,
    pair("quarter", "text", "text", split=False), _OF_TRANSFORMERS, modality="audio", sharded=False,
)  # fmt: skip


# Voxtral: four positions to a token; its position table is in float32
VOXTRAL = EncoderSpec(
    {**_LARGE, "stacked": size("downsample_factor", 4)}, _of_clips("stacked"),
    (*_CONVOLUTIONS, Dense("positions", "width", float32=True), Norm("width", bias=True)),
    pair("width*stacked", "text", "text", bias=False, split=False), modality="audio",
)  # fmt: skip


def _has_layers(scope: EncoderScope) -> bool:
    return scope["blocks"] > 0


def _is_plain(scope: EncoderScope) -> bool:
    return not _has_layers(scope)


def _half(scope: EncoderScope) -> int:
    gated = scope.source.config.text("projector_act", default="swiglu") == "swiglu"
    return scope["inner"] // 2 if gated else scope["inner"]


def _normed(scope: EncoderScope) -> int:
    return scope["half"] if scope.source.config.flag("projector_ln_mid") else scope["text"]


# vLLM's own Whisper encoder, frames stacked, and a projector that is not divided: two layers, or blocks of the
# encoder's own kind. vLLM profiles 16 clips at once.
ULTRAVOX = EncoderSpec(
    {
        "layers": size("encoder_layers num_hidden_layers", 4), **_TINY,
        "blocks": size("num_projector_layers", 0, "config", low=0),
        "depth": "layers+blocks", "stacked": size("stack_factor", 8, "config"), "features": "width*stacked",
        "inner": size("hidden_size", 4096, "config"), "half": _half, "normed": _normed,
    },
    _of_clips("stacked", 16), _STEM,
    (
        Norm("features"), Dense("features", "width", True, when=_has_layers),
        Dense("positions", "width", when=_has_layers), Norm("width", when=_has_layers),
        Dense("width", "text", True, when=_has_layers), Dense("features", "inner", when=_is_plain),
        Dense("half", "text", when=_is_plain), Norm("normed", when=_is_plain),
    ),
    modality="audio", present=stated("audio_config"),
)  # fmt: skip


# GLM-ASR: rotary positions, no table; a projector over as many positions as fill the feed-forward width
GLM_ASR = EncoderSpec(
    {
        **vit(width=1280, heads=20, kv_heads="heads", middle=5120, depth=32, bins=128),
        "positions": size("max_source_positions", 1500),
        "stacked": lambda scope: max(1, scope["middle"] // scope["width"]),
    },
    _of_clips("stacked"), (*_CONVOLUTIONS, Norm("width", bias=True)), pair("middle", "text*2", "text"),
    (Block(kv_heads="kv_heads"),), modality="audio",
)  # fmt: skip

# Kimi-Audio: Whisper large-v3, which its checkpoint keeps in a folder of its own, four positions to a token
KIMI_AUDIO = EncoderSpec(
    {
        "width": 1280, "heads": 20, "middle": 5120, "depth": 32, "bins": 128, "positions": 1500,
        "inputs": size("kimia_adaptor_input_dim", "width*4", "config"),
    },
    _of_clips(4), _STEM, (*pair("inputs", "text", "text", split=False), Norm("text", bias=True)), modality="audio",
)  # fmt: skip

_OMNI_SIZES: dict[str, SizeEntry] = {
    "width": size("d_model", 1280), "heads": size("encoder_attention_heads", 20),
    "middle": size("encoder_ffn_dim", 5120), "depth": size("encoder_layers num_hidden_layers", 32),
    "bins": size("num_mel_bins", 128), "out": size("output_dim", "text"),
}  # fmt: skip
_CLIP_FRAMES = 30 * 100
"""Mel frames of a clip."""
# Two convolutions over time; it comes from transformers and is not divided, and its keys have no bias.
_QWEN25_OMNI = EncoderSpec(
    _OMNI_SIZES, (_CLIP_FRAMES // 4, _CLIP_FRAMES // 2, f"bins*{_CLIP_FRAMES}"),
    (*_CONVOLUTIONS, Norm("width", bias=True)), (Dense("width", "out", True), Norm("out*2")), _OF_TRANSFORMERS,
    modality="audio", sharded=False,
)  # fmt: skip
# Three convolutions over time and pitch
_QWEN3_OMNI = EncoderSpec(
    {
        **_OMNI_SIZES, "channels": size("downsample_hidden_size"),
        "pitches": lambda scope: scope["channels"] * -(-scope["bins"] // 8),
    },
    (_CLIP_FRAMES // 8, _CLIP_FRAMES // 8, f"bins*{_CLIP_FRAMES}"),
    (
        Dense(9, "channels", True), *(Dense("channels*9", "channels", True),) * 2, Dense("pitches", "width"),
        Norm("width", bias=True),
    ),
    pair("width", "width", "out", split=False), modality="audio",
)  # fmt: skip


def qwen_omni(source: EncoderSource) -> EncoderSpec:
    return _QWEN3_OMNI if source.vision.has("downsample_hidden_size") else _QWEN25_OMNI
