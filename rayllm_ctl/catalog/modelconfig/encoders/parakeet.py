"""Parakeet, the audio encoder of Nemotron Omni (vLLM: parakeet.py; it is transformers' own and not divided)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, depth_of, plain, stem_of
from rayllm_ctl.model.facts import MultiModalEncoder, Vector

_SECONDS = 600
"""The longest sound that vLLM profiles (nano_nemotron_vl.py)."""
_FRAMES = 100
"""Mel frames of a second: the usual hop of 160 samples at 16 kHz."""


def read_parakeet(source: Source) -> MultiModalEncoder | None:
    """Convolutions that thin out mel frames, conformer blocks, a projector of two layers. None where the model
    takes no sound."""
    if not source.config.has("sound_config"):
        return None
    sound = source.config.child("sound_config")
    width = sound.integer("hidden_size", default=1024)
    sound.integer("num_attention_heads", default=8, high=MOST_HEADS)
    middle = sound.integer("intermediate_size", default=4096)
    kernel = sound.integer("conv_kernel_size", default=9, high=1024)
    bias = sound.flag("convolution_bias", default=True)
    block = stem_of(source)
    for half in ("feed_forward1.", "feed_forward2."):
        block.mlp(width, middle, gated=False, split=False, prefix=half, quantizable=False)
    for name in ("q_proj", "k_proj", "v_proj", "o_proj", "relative_k_proj"):
        plain(block, "self_attn." + name, width, width)
    block.vectors += [Vector(width)] * 2
    plain(block, "conv.pointwise_conv1", width, 2 * width, bias=bias)
    plain(block, "conv.depthwise_conv", kernel, width, bias=bias)
    plain(block, "conv.pointwise_conv2", width, width, bias=bias)
    block.norm(width, 6, bias=True)

    bins = sound.integer("num_mel_bins", default=80, high=2**12)
    factor = sound.integer("subsampling_factor", default=8, low=2, high=256)
    steps = factor.bit_length() - 1
    channels = sound.integer("subsampling_conv_channels", default=256, high=2**14)
    taps = sound.integer("subsampling_conv_kernel_size", default=3, high=64) ** 2
    stride = sound.integer("subsampling_conv_stride", default=2, high=64)
    stem = stem_of(source)
    plain(stem, "subsampling.0", taps, channels, bias=True)
    for _ in range(steps - 1):
        plain(stem, "subsampling.depthwise", taps, channels, bias=True)
        plain(stem, "subsampling.pointwise", channels, channels, bias=True)
    plain(stem, "subsampling.linear", channels * (bins // stride**steps), width, bias=True)
    projected, projector_bias = sound.integer("projection_hidden_size"), sound.flag("projection_bias")
    stem.norm(width)
    plain(stem, "projection.linear1", width, projected, bias=projector_bias)
    plain(stem, "projection.linear2", projected, source.hidden, bias=projector_bias)
    frames = _SECONDS * _FRAMES
    return MultiModalEncoder(
        "audio",
        ((block.layer(), depth_of(sound, default=24)), (stem.layer(), 1)),
        width,
        tokens=max(1, frames // factor),
        patches=max(1, frames // factor),
        pixels=frames * bins,
        sharded=False,
    )
