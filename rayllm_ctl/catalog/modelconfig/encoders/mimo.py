"""MiMo V2 Omni: Qwen2.5-VL's encoder with grouped queries and sinks, and one of sound (vLLM: mimo_v2_omni.py).

The tokenizer of sound that some checkpoints keep in a folder of its own is not counted: config.json does not say how
large it is, and vLLM loads it only from a local directory (mimo_audio.py).
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, depth_of, encoder_block, pair, plain, stem_of
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.facts import Layer, MultiModalEncoder, Part, Vector

_FULL = (7, 15, 23, 31)
"""Blocks that see the whole image where the config does not list them."""

_UNUSED_ROWS = 151936
"""Of a table of words that the transformer over codes is made with and never reads (transformers' Qwen2 default)."""


def read_mimo_image(source: Source) -> MultiModalEncoder:
    """Blocks of windows have a sink per head, which is not divided; those that see the whole image have none."""
    vision = source.vision
    width = vision.integer("hidden_size", default=1280)
    depth = depth_of(vision, "depth", default=28)
    patch = vision.integer("patch_size", default=16, high=256)
    merge = vision.integer("spatial_merge_size", default=2, high=64)
    frames = vision.integer("temporal_patch_size", default=2, high=64)
    heads = vision.integer("num_heads", default=32, high=MOST_HEADS)
    block = _image_block(source, width, heads)
    whole = vision.integers("fullatt_block_indexes") if vision.has("fullatt_block_indexes") else _FULL
    windows = depth - len({index for index in whole if index < depth}) if vision.flag("use_sink") else 0
    stem = stem_of(source)
    plain(stem, "patch_embed", 3 * frames * patch * patch, width)
    stem.norm(width)
    merged = width * merge * merge
    pair(stem, merged, merged, vision.integer("out_hidden_size", default=2048), bias=False)
    pixels = source.config.child("processor_config").integer("image_max_pixels", default=8388608)
    patches = pixels // (patch * patch)
    return MultiModalEncoder(
        "image",
        ((block, depth), (Layer(vectors=(Vector(heads),)), windows), (stem.layer(), 1)),
        width,
        max(1, patches // (merge * merge)),
        patches,
        3 * frames * pixels,
    )


def _image_block(source: Source, width: int, heads: int) -> Layer:
    vision = source.vision
    key, value = vision.integer("qk_channels", default=64), vision.integer("kv_channels", default=64)
    kv_heads = vision.integer("num_key_value_heads", default=8, high=MOST_HEADS)
    layer = stem_of(source)
    parts = (Part(heads, key), Part(kv_heads, key), Part(kv_heads, value))
    layer.linear("attn.qkv", width, parts, bias=True, quantizable=False)
    layer.linear("attn.proj", heads * value, width, "row", bias=True, input_units=heads, quantizable=False)
    layer.mlp(width, vision.integer("intermediate_size", default=4608), bias=True, quantizable=False)
    layer.norm(width, 2)
    return layer.layer()


def read_mimo_sound(source: Source) -> MultiModalEncoder | None:
    """Tables of codes, a small transformer over groups of them, and a projection; none of it divided. None where the
    model takes no sound."""
    sound = source.vision
    if not source.config.has("audio_config"):
        return None
    channels = sound.integer("audio_channels", default=8, high=256)
    width = sound.integer("input_local_dim", default=1024)
    group = sound.integer("group_size", default=4, high=1024)
    out = sound.integer("out_hidden_size", default=4096)
    heads = sound.integer("input_local_attn_heads", default=64, high=MOST_HEADS)
    middle = sound.integer("input_local_intermediate_size", default=4096)
    block = encoder_block(
        source.builder, width, heads, middle, gated=True, mlp_bias=False, out_bias=False, norm_bias=False
    )
    stem = stem_of(source)
    plain(stem, "embed_tokens", _UNUSED_ROWS, width)
    for rows in _vocabularies(sound, channels):
        plain(stem, "speech_embeddings", rows, width)
    if sound.flag("add_post_norm"):
        stem.norm(width)
    layers = sound.integer("projection_layers", default=1, high=2)
    if layers == 1:
        plain(stem, "projection", width * group, out)
    else:
        pair(stem, width * group, 4 * width * group, out, bias=False)
    tokens = sound.integer("audio_segment_size", default=6000) // group
    depth = depth_of(sound, "input_local_layers", default=6)
    return MultiModalEncoder(
        "audio",
        ((block, depth), (stem.layer(), 1)),
        width,
        max(1, tokens),
        max(1, tokens) * group,
        max(1, tokens) * group * channels,
        sharded=False,
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
            hint="Give the model's complete config.json with --model-config FILE.",
        )
    return sizes[:channels]
