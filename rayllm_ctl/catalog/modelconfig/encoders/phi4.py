"""Phi-4-multimodal: SigLIP over crops, and a Conformer over mel frames (vLLM: phi4mm.py, phi4mm_audio.py)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, depth_of, encoder_block, pair, plain, stem_of
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import Layer, MultiModalEncoder, Vector

_CROPS = 37
"""36 crops and an overview (preprocessor_config.json: dynamic_hd)."""

_FRAMES = 1506
"""Mel frames of the longest sound that vLLM profiles: 241000 samples."""


def read_phi4_image(source: Source) -> MultiModalEncoder:
    """The encoder that vLLM builds whatever the config says, up to the layer that it takes; features pooled by four."""
    width, size, patch, depth = 1152, 448, 14, 27
    chosen = source.config.child("img_processor").integer("layer_idx", default=-2, low=-depth, high=depth - 1)
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    plain(stem, "position_embedding", (size // patch) ** 2, width)
    stem.norm(width, 2)
    pair(stem, width, source.hidden, source.hidden, bias=True, split=False)
    patches = _CROPS * (size // patch) ** 2
    return MultiModalEncoder(
        "image",
        (
            (encoder_block(source.builder, width, 16, 4304), chosen + 1 + (depth if chosen < 0 else 0)),
            (stem.layer(), 1),
        ),
        width,
        patches // 4,
        patches,
        _CROPS * 3 * size * size,
    )


def read_phi4_audio(source: Source) -> MultiModalEncoder:
    """A Conformer that is not divided, behind convolutions that thin frames out; one projector for sound alone and one
    for sound beside images."""
    processor = source.config.child("audio_processor")
    if processor.text("name") != "cascades":
        raise processor.wrong("name", processor.raw("name"), "cascades")
    sound = processor.child("config")
    width = sound.integer("attention_dim")
    heads = sound.integer("attention_heads", high=MOST_HEADS)
    bins = sound.integer("input_size", high=2**12)
    thinning = sound.integer("time_reduction", high=64)
    channels = sound.child("nemo_conv_settings").integer("conv_channels", default=256)
    reach = sound.child("relative_attention_bias_args").integer("t5_bias_max_distance", default=1000)
    stem = stem_of(source)
    plain(stem, "embed.conv.0", 9, channels, bias=True)
    for _ in range(thinning.bit_length() - 2):
        plain(stem, "embed.conv.depthwise", 9, channels, bias=True)
        plain(stem, "embed.conv.pointwise", channels, channels, bias=True)
    plain(stem, "embed.out", channels * -(-bins // thinning), width, bias=True)
    stem.vectors += [Vector(2 * reach * heads), Vector(bins), Vector(bins)]
    wide = width * _stacked(source.config)
    pair(stem, wide, source.hidden, source.hidden, bias=True, split=False)
    pair(stem, wide, source.hidden, source.hidden, bias=True, split=False)
    return MultiModalEncoder(
        "audio",
        ((_conformer(source, sound, width), depth_of(sound, "num_blocks")), (stem.layer(), 1)),
        width,
        -(-_FRAMES // thinning),
        -(-_FRAMES // thinning),
        _FRAMES * bins,
        sharded=False,
    )


def _stacked(config: Fields) -> int:
    """Positions that the projector takes together."""
    embedding = config.child("embd_layer").child("audio_embd_layer")
    if embedding.text("projection_cls", default="linear") != "mlp":
        raise embedding.wrong("projection_cls", embedding.raw("projection_cls"), "mlp")
    for name in ("use_qformer", "use_conv_downsample"):
        if embedding.flag(name):
            raise embedding.wrong(name, True, "false")
    return embedding.integer("downsample_rate", default=1, high=64)


def _conformer(source: Source, sound: Fields, width: int) -> Layer:
    """Attention between two gated feed-forward blocks, then convolutions of `width` channels."""
    for name in ("ext_pw_out_channel", "depthwise_seperable_out_channel"):
        if sound.integer(name) != width:
            raise sound.wrong(name, sound.raw(name), f"attention_dim, {width}")
    middle = sound.integer("linear_units")
    layer = stem_of(source)
    for name in ("feed_forward_in", "feed_forward_out"):
        plain(layer, name + ".up", width, 2 * middle, bias=True)
        plain(layer, name + ".down", middle, width, bias=True)
    for name in ("linear_q", "linear_k", "linear_v", "linear_out"):
        plain(layer, "self_attn." + name, width, width, bias=True)
    plain(layer, "conv.glu", width, 2 * width, bias=True)
    plain(layer, "conv.ext_pw_conv_1d", width, width, bias=True)
    plain(layer, "conv.dw_conv", sound.integer("kernel_size", high=2**10), width, bias=True)
    plain(layer, "conv.pw_conv", width, width, bias=True)
    layer.norm(width, 2)
    layer.norm(width, 5, bias=True)
    return layer.layer()
