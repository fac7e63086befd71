"""Encoders whose features a querying transformer condenses: BLIP-2 and Granite 4 Vision (vLLM: blip2.py,
granite4_vision.py). The querying transformer is not divided."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS
from rayllm_ctl.catalog.modelconfig.encoders.sizes import EncoderScope, SizeEntry, flag, size, vit
from rayllm_ctl.catalog.modelconfig.encoders.spec import Block, Dense, EncoderSpec, Norm, Steps, of_queries, patches_in
from rayllm_ctl.catalog.modelconfig.fields import Fields

QUERY_LAYER: Steps = (
    Dense("inner", "inner*3", True), Dense("inner", "inner", True), Dense("inner", "wide", True),
    Dense("wide", "inner", True), Norm("inner", 2, True),
)  # fmt: skip
"""A layer of the querying transformer, but for its attention to the features."""

CROSSING: Steps = (
    Dense("inner", "inner", True), Dense("features", "inner*2", True), Dense("inner", "inner", True),
    Norm("inner", bias=True),
)  # fmt: skip
"""Attention of the queries to the features."""


def querying(part: str) -> dict[str, SizeEntry]:
    """Queries attend to the features in every so-many-th layer."""
    return {
        "inner": size("hidden_size", 768, part), "wide": size("intermediate_size", 3072, part),
        "features": size("encoder_hidden_size", 1408, part), "layers": size("num_hidden_layers", 12, part),
        "every": size("cross_attention_frequency", 2, part),
        "crossings": lambda scope: -(-scope["layers"] // scope["every"]),
    }  # fmt: skip


BLIP2 = EncoderSpec(
    {
        **vit(width=1408, heads=16, middle=6144, depth=39, patch=14, image=224), **querying("qformer_config"),
        "queries": size("num_query_tokens", 32, "config"),
    },
    of_queries("queries"), (patches_in(), Dense("grid+2", "width"), Norm("width", bias=True)),
    (Dense("queries", "inner"), Norm("inner", bias=True), Dense("inner", "text", True)),
    (Block(bias=flag("qkv_bias", default=True), mlp_bias=True, out_bias=True),),
    ((QUERY_LAYER, "layers"), (CROSSING, "crossings")),
)  # fmt: skip


def _rate(config: Fields) -> tuple[int, int]:
    """(queries, patches) along the side of a window."""
    rate = config.text("downsample_rate")
    query, _, window = rate.partition("/")
    if not (query.isdecimal() and window.isdecimal()) or not 0 < int(query) <= int(window) <= 256:
        raise config.wrong("downsample_rate", rate, "two numbers such as 4/8")
    return int(query), int(window)


def _projectors(scope: EncoderScope) -> int:
    """One for each layer of the decoder that takes features."""
    config, names = scope.source.config, ("deepstack_layer_map", "vision_layer_to_llm_layer")
    listed = config.raw(*names)
    if not isinstance(listed, list) or not 0 < len(listed) <= MOST_LAYERS:
        raise config.wrong(names[0], listed, "a list of pairs of layers")
    return len(listed) + (4 if config.flag("use_checkerboard_sampling", "use_spatial_sampling") else 0)


# Granite 4 Vision: SigLIP without its last norm, and a one-layer querying transformer over windows; crops as in
# LLaVA-NeXT
GRANITE4_VISION = EncoderSpec(
    {
        **vit(width=768, heads=12, middle=3072, depth=12, patch=16, image=224), "inner": "width", "features": "width",
        "wide": 3072, "queries": lambda scope: _rate(scope.source.config)[0] ** 2,
        "window": lambda scope: _rate(scope.source.config)[1] ** 2, "projectors": _projectors,
    },
    ("grid*5*queries/window", "grid*5", "pixels*5"),
    (
        patches_in(), Dense("grid", "width"),
        Norm("text", when=flag("use_image_newline_parameter", "config", default=True)),
    ),
    others=(
        (QUERY_LAYER, "projectors"), (CROSSING, "projectors"),
        (
            (Dense("queries", "width"), Dense("window", "width"), Norm("width", 2, True), Dense("width", "text", True)),
            "projectors",
        ),
    ),
)  # fmt: skip
