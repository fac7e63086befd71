"""Encoders of sound: those of Qwen2.5-Omni and Qwen3-Omni (vLLM: qwen*_omni*_thinker.py)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, depth_of, encoder_block, plain, stem_of
from rayllm_ctl.model.facts import MultiModalEncoder, Vector

_SECONDS = 30
_FRAMES = 100
"""Mel frames of a second."""


def read_qwen_audio(source: Source) -> MultiModalEncoder:
    """Transformer blocks over mel frames that convolutions thin out: two over time, or three over time and pitch.

    The older one comes from transformers and is not divided; its keys have no bias.
    """
    sound = source.vision
    width = sound.integer("d_model", default=1280)
    heads = sound.integer("encoder_attention_heads", default=20, high=MOST_HEADS)
    middle = sound.integer("encoder_ffn_dim", default=5120)
    bins = sound.integer("num_mel_bins", default=128, high=2**12)
    out = sound.integer("output_dim", default=source.hidden)
    newer = sound.has("downsample_hidden_size")
    block = encoder_block(source.builder, width, heads, middle, split=newer, key_bias=newer)
    stem = stem_of(source)
    stem.norm(width, bias=True)
    if newer:
        channels = sound.integer("downsample_hidden_size")
        plain(stem, "conv2d1", 9, channels, bias=True)
        plain(stem, "conv2d2", 9 * channels, channels, bias=True)
        plain(stem, "conv2d3", 9 * channels, channels, bias=True)
        plain(stem, "conv_out", channels * -(-bins // 8), width)
        plain(stem, "proj1", width, width, bias=True)
        plain(stem, "proj2", width, out, bias=True)
    else:
        plain(stem, "conv1", 3 * bins, width, bias=True)
        plain(stem, "conv2", 3 * width, width, bias=True)
        plain(stem, "proj", width, out, bias=True)
        stem.vectors.append(Vector(2 * out))
    frames = _SECONDS * _FRAMES
    return MultiModalEncoder(
        "audio",
        ((block, depth_of(sound, "encoder_layers", "num_hidden_layers", default=32)), (stem.layer(), 1)),
        width,
        tokens=frames // (8 if newer else 4),
        patches=frames // (8 if newer else 2),
        pixels=frames * bins,
        sharded=newer,
    )
