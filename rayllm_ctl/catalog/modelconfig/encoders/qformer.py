"""Encoders whose features a querying transformer condenses: BLIP-2 and Granite 4 Vision (vLLM: blip2.py,
granite4_vision.py). The transformer is not divided."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, depth_of, encoder_block, plain, stem_of
from rayllm_ctl.catalog.modelconfig.encoders.sizes import Scope, vit
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import Layer, MultiModalEncoder


def read_blip2(source: Source) -> MultiModalEncoder:
    """BLIP-2: a ViT, and queries that attend to its features in every so-many-th layer."""
    vision, former = source.vision, source.config.child("qformer_config")
    scope = Scope(source, vit(width=1408, heads=16, middle=6144, patch=14))
    width, heads, middle, patch = scope["width"], scope["heads"], scope["middle"], scope["patch"]
    size = vision.integer("image_size", default=224, high=2**14)
    patches = (size // patch) ** 2
    biased = vision.flag("qkv_bias", default=True)
    block = encoder_block(source.builder, width, heads, middle, bias=biased, mlp_bias=True, out_bias=True)
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    plain(stem, "position_embedding", patches + 2, width)
    stem.norm(width, bias=True)
    inner = former.integer("hidden_size", default=768)
    queries = source.config.integer("num_query_tokens", default=32, high=2**16)
    plain(stem, "query_tokens", queries, inner)
    stem.norm(inner, bias=True)
    plain(stem, "language_projection", inner, source.hidden, bias=True)
    depth = depth_of(former, default=12)
    every = former.integer("cross_attention_frequency", default=2, high=1024)
    crossings = -(-depth // every)
    return MultiModalEncoder(
        "image",
        (
            (block, depth_of(vision, default=39)),
            (query_layer(source, former, inner), depth),
            (crossing(source, inner, former.integer("encoder_hidden_size", default=1408)), crossings),
            (stem.layer(), 1),
        ),
        width,
        queries,
        patches,
        3 * size * size,
    )


def query_layer(source: Source, former: Fields, inner: int) -> Layer:
    """A layer of the querying transformer, but for its attention to the features."""
    return encoder_block(source.builder, inner, 1, former.integer("intermediate_size", default=3072), split=False)


def crossing(source: Source, inner: int, features: int) -> Layer:
    """Attention of the queries to the features."""
    layer = stem_of(source)
    plain(layer, "crossattention.query", inner, inner, bias=True)
    plain(layer, "crossattention.key_value", features, 2 * inner, bias=True)
    plain(layer, "crossattention.output", inner, inner, bias=True)
    layer.norm(inner, bias=True)
    return layer.layer()


def read_granite4_vision(source: Source) -> MultiModalEncoder:
    """Granite 4 Vision: SigLIP without its last norm, and a one-layer querying transformer over windows for each place
    in the decoder that takes features. Crops as in LLaVA-NeXT."""
    vision, config, hidden = source.vision, source.config, source.hidden
    scope = Scope(source, vit(width=768, heads=12, middle=3072, patch=16))
    width, heads, middle, patch = scope["width"], scope["heads"], scope["middle"], scope["patch"]
    size = vision.integer("image_size", default=224, high=2**14)
    patches = (size // patch) ** 2
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    plain(stem, "position_embedding", patches, width)
    if config.flag("use_image_newline_parameter", default=True):
        stem.norm(hidden)
    query, window = _rate(config)
    ends = stem_of(source)
    plain(ends, "query", query * query, width)
    plain(ends, "image_positions", window * window, width)
    ends.norm(width, 2, bias=True)
    plain(ends, "out_linear", width, hidden, bias=True)
    projectors = _places(config)
    if config.flag("use_checkerboard_sampling", "use_spatial_sampling"):
        projectors += 4
    crops = 5
    return MultiModalEncoder(
        "image",
        (
            (encoder_block(source.builder, width, heads, middle), depth_of(vision, default=12)),
            (encoder_block(source.builder, width, 1, 3072, split=False), projectors),
            (crossing(source, width, width), projectors),
            (ends.layer(), projectors),
            (stem.layer(), 1),
        ),
        width,
        crops * patches * query * query // (window * window),
        crops * patches,
        crops * 3 * size * size,
    )


def _rate(config: Fields) -> tuple[int, int]:
    """(queries, patches) along the side of a window."""
    rate = config.text("downsample_rate")
    query, _, window = rate.partition("/")
    if not (query.isdecimal() and window.isdecimal()) or not 0 < int(query) <= int(window) <= 256:
        raise config.wrong("downsample_rate", rate, "two numbers such as 4/8")
    return int(query), int(window)


def _places(config: Fields) -> int:
    """Decoder layers that take features of the encoder."""
    names = ("deepstack_layer_map", "vision_layer_to_llm_layer")
    listed = config.raw(*names)
    if not isinstance(listed, list) or not 0 < len(listed) <= MOST_LAYERS:
        raise config.wrong(names[0], listed, "a list of pairs of layers")
    return len(listed)
