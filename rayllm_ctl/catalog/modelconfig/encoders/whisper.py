"""Encoders of the Whisper kind with their projectors: Qwen2-Audio, Ultravox, Voxtral, Audio Flamingo 3,
Kimi-Audio.

Two convolutions thin mel frames out to 50 positions a second; a clip is 30 seconds.
"""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, depth_of, encoder_block, pair, plain, stem_of
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import Layer, MultiModalEncoder

_WHISPER = {
    "d_model": 384,
    "encoder_layers": 4,
    "encoder_attention_heads": 6,
    "encoder_ffn_dim": 1536,
    "num_mel_bins": 80,
}

_ULTRAVOX_CLIPS = 16
"""Clips that vLLM's profile of Ultravox encodes at once."""


def read_qwen2_audio(source: Source) -> MultiModalEncoder:
    """Qwen2-Audio: the encoder that transformers has, pooled by two, and one projection."""
    blocks, width = read_whisper_blocks(source, split=False)
    stem = stem_of(source)
    plain(stem, "linear", width, source.hidden, bias=True)
    return _tower(source, blocks, stem.layer(), width, stacked=2, sharded=False)


def read_audio_flamingo(source: Source) -> MultiModalEncoder:
    """Audio Flamingo 3: Qwen2-Audio's encoder and a projector of two layers."""
    blocks, width = read_whisper_blocks(source, split=False)
    stem = stem_of(source)
    bias = source.config.flag("projector_bias", default=True)
    pair(stem, width, source.hidden, source.hidden, bias=bias, split=False)
    return _tower(source, blocks, stem.layer(), width, stacked=2, sharded=False)


def read_ultravox(source: Source) -> MultiModalEncoder:
    """Ultravox: vLLM's own Whisper encoder, frames stacked, and a projector that is not divided."""
    config = source.config
    if not config.has("audio_config"):
        raise config.missing("audio_config")
    source = of_whisper(source)
    sound = source.vision
    blocks, width = read_whisper_blocks(source)
    stacked = config.integer("stack_factor", default=8, high=64)
    middle = config.integer("hidden_size", default=4096)
    stem = stem_of(source)
    stem.norm(width * stacked)
    depth = config.integer("num_projector_layers", default=0, low=0, high=1024)
    if depth:
        plain(stem, "linear_in", width * stacked, width, bias=True)
        plain(stem, "embed_positions", sound.integer("max_source_positions", default=1500), width)
        stem.norm(width)
        plain(stem, "linear_out", width, source.hidden, bias=True)
        blocks = (*blocks, (blocks[0][0], depth))
    else:
        half = middle // 2 if config.text("projector_act", default="swiglu") == "swiglu" else middle
        plain(stem, "linear_1", width * stacked, middle)
        plain(stem, "linear_2", half, source.hidden)
        stem.norm(half if config.flag("projector_ln_mid") else source.hidden)
    return _tower(source, blocks, stem.layer(), width, stacked=stacked, clips=_ULTRAVOX_CLIPS)


def read_voxtral(source: Source) -> MultiModalEncoder:
    """Voxtral: Whisper's encoder, four positions to a token, with its position table in float32."""
    sound = source.vision
    blocks, width = read_whisper_blocks(source, float32=True)
    stacked = sound.integer("downsample_factor", default=4, high=64)
    stem = stem_of(source)
    pair(stem, width * stacked, source.hidden, source.hidden, bias=False, split=False)
    return _tower(source, blocks, stem.layer(), width, stacked=stacked)


def of_whisper(source: Source) -> Source:
    """The source with what transformers' WhisperConfig assumes where the file is silent."""
    return replace(source, vision=source.vision.with_defaults(_WHISPER))


def read_whisper_blocks(
    source: Source, *, split: bool = True, float32: bool = False
) -> tuple[tuple[tuple[Layer, int], ...], int]:
    """(blocks, width) of a Whisper encoder. `split`: vLLM's own, which tensor parallelism divides and whose keys have a
    bias; else that of transformers. `float32`: of its position table."""
    sound = source.vision
    width = sound.integer("d_model", "hidden_size", default=1280)
    heads = sound.integer("encoder_attention_heads", "num_attention_heads", default=20, high=MOST_HEADS)
    middle = sound.integer("encoder_ffn_dim", "intermediate_size", default=5120)
    depth = depth_of(sound, "encoder_layers", "num_hidden_layers", default=32)
    bins = sound.integer("num_mel_bins", default=128, high=2**12)
    stem = stem_of(source)
    plain(stem, "conv1", 3 * bins, width, bias=True)
    plain(stem, "conv2", 3 * width, width, bias=True)
    positions = sound.integer("max_source_positions", default=1500)
    stem.linear("embed_positions", positions, width, "none", quantizable=False, float32=float32)
    stem.norm(width, bias=True)
    block = encoder_block(source.builder, width, heads, middle, split=split, key_bias=split)
    return ((block, depth), (stem.layer(), 1)), width


def frames_of(sound: Fields) -> int:
    """Positions of a clip."""
    return sound.integer("max_source_positions", default=1500)


def _tower(
    source: Source,
    blocks: tuple[tuple[Layer, int], ...],
    ends: Layer,
    width: int,
    *,
    stacked: int,
    clips: int = 1,
    sharded: bool = True,
) -> MultiModalEncoder:
    patches = clips * frames_of(source.vision)
    bins = source.vision.integer("num_mel_bins", default=128, high=2**12)
    return MultiModalEncoder(
        "audio",
        (*blocks, (ends, 1)),
        width,
        tokens=-(-patches // stacked),
        patches=patches,
        pixels=2 * patches * bins,
        sharded=sharded,
    )


def read_glm_asr(source: Source) -> MultiModalEncoder:
    """GLM-ASR: rotary positions, no table; a projector over as many positions as fill the feed-forward width."""
    sound = source.vision
    width = sound.integer("hidden_size", default=1280)
    heads = sound.integer("num_attention_heads", default=20, high=MOST_HEADS)
    kv_heads = sound.integer("num_key_value_heads", default=heads, high=MOST_HEADS)
    middle = sound.integer("intermediate_size", default=5120)
    bins = sound.integer("num_mel_bins", default=128, high=2**12)
    block = encoder_block(source.builder, width, heads, middle, kv_heads=kv_heads)
    stem = stem_of(source)
    plain(stem, "conv1", 3 * bins, width, bias=True)
    plain(stem, "conv2", 3 * width, width, bias=True)
    stem.norm(width, bias=True)
    pair(stem, middle, 2 * source.hidden, source.hidden, bias=True)
    blocks = ((block, depth_of(sound, default=32)),)
    return _tower(source, blocks, stem.layer(), width, stacked=max(1, middle // width))


def read_kimi_audio(source: Source) -> MultiModalEncoder:
    """Kimi-Audio: Whisper large-v3, which its checkpoint keeps in a folder of its own, four positions to a token, and a
    projector that ends with a norm."""
    source = replace(source, vision=Fields({}))
    blocks, width = read_whisper_blocks(source)
    inputs = source.config.integer("kimia_adaptor_input_dim", default=4 * width)
    stem = stem_of(source)
    pair(stem, inputs, source.hidden, source.hidden, bias=True, split=False)
    stem.norm(source.hidden, bias=True)
    return _tower(source, blocks, stem.layer(), width, stacked=4)
