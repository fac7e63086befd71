"""Parakeet, the audio encoder of Nemotron Omni (vLLM: parakeet.py; it is transformers' own and not divided)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source
from rayllm_ctl.catalog.modelconfig.encoders.sizes import Scope, flag, size
from rayllm_ctl.catalog.modelconfig.encoders.spec import Dense, EncoderSpec, Norm, read_encoder
from rayllm_ctl.model.facts import MultiModalEncoder

_FRAMES = 600 * 100
"""Mel frames of the longest sound that vLLM profiles (nano_nemotron_vl.py), at the usual 160 samples of 16 kHz each."""


def _thinned(scope: Scope) -> int:
    """Features of a position after the convolutions."""
    stride = scope.source.vision.integer("subsampling_conv_stride", default=2, high=64)
    return scope["channels"] * (scope["bins"] // int(stride ** scope["steps"]))


_BIAS, _PROJECTION_BIAS = flag("convolution_bias", default=True), flag("projection_bias")

# Convolutions that thin out mel frames, conformer blocks, a projector of two layers
_PARAKEET = EncoderSpec(
    {
        "width": size("hidden_size", 1024), "heads": size("num_attention_heads", 8),
        "middle": size("intermediate_size", 4096), "depth": size("num_hidden_layers", 24),
        "kernel": size("conv_kernel_size", 9), "bins": size("num_mel_bins", 80),
        "factor": size("subsampling_factor", 8, low=2), "channels": size("subsampling_conv_channels", 256),
        "steps": lambda scope: scope["factor"].bit_length() - 1, "more": lambda scope: scope["steps"] - 1,
        "taps": lambda scope: scope.source.vision.integer("subsampling_conv_kernel_size", default=3, high=64) ** 2,
        "thinned": _thinned, "projected": size("projection_hidden_size"),
        "tokens": lambda scope: max(1, _FRAMES // scope["factor"]),
    },
    lambda scope: (scope["tokens"], scope["tokens"], _FRAMES * scope["bins"]),
    (
        Dense("taps", "channels", True), Dense("taps", "channels", True, times="more"),
        Dense("channels", "channels", True, times="more"), Dense("thinned", "width", True),
    ),
    (Norm("width"), Dense("width", "projected", _PROJECTION_BIAS), Dense("projected", "text", _PROJECTION_BIAS)),
    (
        Dense("width", "middle", times=2), Dense("middle", "width", times=2), Dense("width", "width", times=5),
        Norm("width", 2), Dense("width", "width*2", _BIAS), Dense("kernel", "width", _BIAS),
        Dense("width", "width", _BIAS), Norm("width", 6, True),
    ),
    modality="audio", sharded=False,
)  # fmt: skip


def read_parakeet(source: Source) -> MultiModalEncoder | None:
    """None where the model takes no sound."""
    if not source.config.has("sound_config"):
        return None
    return read_encoder(_PARAKEET, source._replace(vision=source.config.child("sound_config")))
