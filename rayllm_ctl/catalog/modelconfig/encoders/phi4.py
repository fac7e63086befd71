"""Phi-4-multimodal: SigLIP over crops, and a Conformer over mel frames (vLLM: phi4mm.py, phi4mm_audio.py)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source
from rayllm_ctl.catalog.modelconfig.encoders.sizes import Scope, size
from rayllm_ctl.catalog.modelconfig.encoders.spec import (
    Dense,
    EncoderSpec,
    Norm,
    of_crops,
    pair,
    patches_in,
    read_encoder,
)
from rayllm_ctl.model.facts import MultiModalEncoder

_FRAMES = 1506
"""Mel frames of the longest sound that vLLM profiles: 241000 samples."""


def _depth(scope: Scope) -> int:
    chosen = scope.source.config.child("img_processor").integer("layer_idx", default=-2, low=-27, high=26)
    return chosen + 1 + (27 if chosen < 0 else 0)


# The encoder that vLLM builds whatever the config says, up to the layer that it takes; features pooled by four. 36
# crops and an overview (preprocessor_config.json: dynamic_hd).
PHI4_IMAGE = EncoderSpec(
    {"width": 1152, "heads": 16, "middle": 4304, "depth": _depth, "image": 448, "patch": 14, "merge": 2},
    of_crops(37), (patches_in(), Dense("grid", "width"), Norm("width", 2)), pair("width", "text", "text", split=False),
)  # fmt: skip


def _width(scope: Scope) -> int:
    sound = scope.source.vision
    width = sound.integer("attention_dim")
    for name in ("ext_pw_out_channel", "depthwise_seperable_out_channel"):
        if sound.integer(name) != width:
            raise sound.wrong(name, sound.raw(name), f"attention_dim, {width}")
    return width


def _stacked(scope: Scope) -> int:
    """Features of the positions that the projector takes together."""
    embedding = scope.source.config.child("embd_layer").child("audio_embd_layer")
    if embedding.text("projection_cls", default="linear") != "mlp":
        raise embedding.wrong("projection_cls", embedding.raw("projection_cls"), "mlp")
    for name in ("use_qformer", "use_conv_downsample"):
        if embedding.flag(name):
            raise embedding.wrong(name, True, "false")
    return scope["width"] * embedding.integer("downsample_rate", default=1, high=64)


def _reach(scope: Scope) -> int:
    """Elements of the table of relative positions."""
    reach = scope.source.vision.child("relative_attention_bias_args").integer("t5_bias_max_distance", default=1000)
    return 2 * reach * scope["heads"]


# A Conformer that is not divided, behind convolutions that thin frames out: attention between two gated feed-forward
# blocks, then convolutions. One projector for sound alone and one for sound beside images.
_PHI4_AUDIO = EncoderSpec(
    {
        "width": _width, "heads": size("attention_heads"), "middle": size("linear_units"), "depth": size("num_blocks"),
        "bins": size("input_size"), "kernel": size("kernel_size"), "stacked": _stacked, "reach": _reach,
        "thinning": lambda scope: scope.source.vision.integer("time_reduction", high=64),
        "more": lambda scope: max(0, scope["thinning"].bit_length() - 2),
        "channels": lambda scope: scope.source.vision.child("nemo_conv_settings").integer("conv_channels", default=256),
        "thinned": lambda scope: scope["channels"] * -(-scope["bins"] // scope["thinning"]),
        "tokens": lambda scope: -(-_FRAMES // scope["thinning"]),
    },
    lambda scope: (scope["tokens"], scope["tokens"], _FRAMES * scope["bins"]),
    (
        Dense(9, "channels", True), Dense(9, "channels", True, times="more"),
        Dense("channels", "channels", True, times="more"), Dense("thinned", "width", True), Norm("reach"),
        Norm("bins", 2),
    ),
    pair("stacked", "text", "text", split=False, times=2),
    (
        Dense("width", "middle*2", True, times=2), Dense("middle", "width", True, times=2),
        Dense("width", "width", True, times=4), Dense("width", "width*2", True), Dense("width", "width", True, times=2),
        Dense("kernel", "width", True), Norm("width", 2), Norm("width", 5, True),
    ),
    modality="audio", sharded=False,
)  # fmt: skip


def read_phi4_audio(source: Source) -> MultiModalEncoder:
    processor = source.config.child("audio_processor")
    if processor.text("name") != "cascades":
        raise processor.wrong("name", processor.raw("name"), "cascades")
    return read_encoder(_PHI4_AUDIO, source._replace(vision=processor.child("config")))
