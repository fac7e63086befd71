"""Conformers, encoders of sound: those of Granite Speech, Phi-4-multimodal and Parakeet, which Nemotron Omni has.

vLLM: granite_speech.py; phi4mm.py, phi4mm_audio.py; parakeet.py, which is transformers' own and not divided.
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.qformer import CROSSING, QUERY_LAYER, querying
from rayllm_ctl.catalog.modelconfig.encoders.sizes import EncoderScope, flag, size, vit
from rayllm_ctl.catalog.modelconfig.encoders.spec import Dense, EncoderSpec, Norm, pair

_GRANITE_FRAMES = 25000
"""Frames of the longest sound that vLLM profiles: 8 million samples, two mel frames of 160 each."""


# Granite Speech: a Conformer, in whose middle a guess at the text is fed back. Tensor parallelism divides its
# feed-forward blocks only.
GRANITE_SPEECH = EncoderSpec(
    {
        "width": size("hidden_dim", 1024), "heads": size("num_heads", 8), "depth": size("num_layers", 10),
        "words": size("output_dim", 42), "head": size("dim_head", 128), "reach": size("max_pos_emb", 512),
        "broader": size("feedforward_mult", 4, high=2**10), "expanded": size("conv_expansion_factor", 2, high=2**10),
        "middle": "width*broader", "channels": "width*expanded", "kernel": size("conv_kernel_size", 15),
        "pitches": size("input_dim", 160), "window": size("window_size", 15, "config"),
        "rate": size("downsample_rate", 5, "config"), **querying("projector_config"),
        "queries": lambda scope: max(1, scope["window"] // scope["rate"]),
        "windows": lambda scope: -(-_GRANITE_FRAMES // scope["window"]),
    },
    ("windows*queries", _GRANITE_FRAMES, f"pitches*{_GRANITE_FRAMES}"),
    (
        Dense("pitches", "width", True), Dense("width", "words", True, "column"), Dense("words", "width", True, "row"),
        Dense("queries", "inner"), Norm("inner", bias=True), Dense("inner", "text", True),
    ),
    (),
    (
        Dense("width", "middle", True, "column", times=2), Dense("middle", "width", True, "row", times=2),
        Dense("width", "heads*head"), Dense("width", "heads*head*2"), Dense("heads*head", "width", True),
        Norm("reach*head*2+head"), Dense("width", "channels*2", True), Dense("kernel", "channels"),
        Dense("channels", "width", True), Norm("channels", bias=True), Norm("width", 5, True),
    ),
    ((QUERY_LAYER, "layers"), (CROSSING, "crossings")), modality="audio", part="encoder_config",
)  # fmt: skip

_PHI4_FRAMES = 1506
"""Mel frames of the longest sound that vLLM profiles: 241000 samples."""


def _width(scope: EncoderScope) -> int:
    sound = scope.source.vision
    width = sound.integer("attention_dim")
    for name in ("ext_pw_out_channel", "depthwise_seperable_out_channel"):
        if sound.integer(name) != width:
            raise sound.wrong(name, sound.raw(name), f"attention_dim, {width}")
    return width


def _is_known(scope: EncoderScope) -> bool:
    processor = scope.fields("audio_processor")
    if processor.text("name") != "cascades":
        raise processor.wrong("name", processor.raw("name"), "cascades")
    return True


def _stacked(scope: EncoderScope) -> int:
    """Positions that the projector takes together."""
    embedding = scope.fields("embd_layer.audio_embd_layer")
    if embedding.text("projection_cls", default="linear") != "mlp":
        raise embedding.wrong("projection_cls", embedding.raw("projection_cls"), "mlp")
    for name in ("use_qformer", "use_conv_downsample"):
        if embedding.flag(name):
            raise embedding.wrong(name, True, "false")
    return embedding.integer("downsample_rate", default=1, high=64)


# A Conformer that is not divided, behind convolutions that thin frames out: attention between two gated feed-forward
# blocks, then convolutions. One projector for sound alone and one for sound beside images.
_PHI4 = "audio_processor.config"
PHI4_AUDIO = EncoderSpec(
    {
        "width": _width, "heads": size("attention_heads"), "middle": size("linear_units"), "depth": size("num_blocks"),
        "bins": size("input_size"), "kernel": size("kernel_size"), "stacked": _stacked,
        "reach": size("t5_bias_max_distance", 1000, f"{_PHI4}.relative_attention_bias_args"),
        "thinning": size("time_reduction", high=64),
        "more": lambda scope: max(0, scope["thinning"].bit_length() - 2),
        "channels": size("conv_channels", 256, f"{_PHI4}.nemo_conv_settings"),
        "thinned": lambda scope: scope["channels"] * -(-scope["bins"] // scope["thinning"]),
        "tokens": lambda scope: -(-_PHI4_FRAMES // scope["thinning"]),
    },
    ("tokens", "tokens", f"bins*{_PHI4_FRAMES}"),
    (
        Dense(9, "channels", True), Dense(9, "channels", True, times="more"),
        Dense("channels", "channels", True, times="more"), Dense("thinned", "width", True), Norm("reach*heads*2"),
        Norm("bins", 2),
    ),
    pair("width*stacked", "text", "text", split=False, times=2),
    (
        Dense("width", "middle*2", True, times=2), Dense("middle", "width", True, times=2),
        Dense("width", "width", True, times=4), Dense("width", "width*2", True), Dense("width", "width", True, times=2),
        Dense("kernel", "width", True), Norm("width", 2), Norm("width", 5, True),
    ),
    modality="audio", sharded=False, part=_PHI4, present=_is_known,
)  # fmt: skip

_PARAKEET_FRAMES = 600 * 100
"""Mel frames of the longest sound that vLLM profiles (nano_nemotron_vl.py), at the usual 160 samples of 16 kHz each."""


def _thinned(scope: EncoderScope) -> int:
    """Features of a position after the convolutions."""
    stride = scope.source.vision.integer("subsampling_conv_stride", default=2, high=64)
    return scope["channels"] * (scope["bins"] // int(stride ** scope["more+1"]))


_BIAS, _PROJECTION_BIAS = flag("convolution_bias", default=True), flag("projection_bias")

# Convolutions that thin out mel frames, conformer blocks, a projector of two layers
PARAKEET = EncoderSpec(
    {
        **vit(width=1024, heads=8, middle=4096, depth=24, bins=80), "kernel": size("conv_kernel_size", 9),
        "factor": size("subsampling_factor", 8, low=2), "channels": size("subsampling_conv_channels", 256),
        "more": lambda scope: scope["factor"].bit_length() - 2, "thinned": _thinned,
        "side": size("subsampling_conv_kernel_size", 3, high=64), "projected": size("projection_hidden_size"),
        "tokens": lambda scope: max(1, _PARAKEET_FRAMES // scope["factor"]),
    },
    ("tokens", "tokens", f"bins*{_PARAKEET_FRAMES}"),
    (
        Dense("side*side", "channels", True), Dense("side*side", "channels", True, times="more"),
        Dense("channels", "channels", True, times="more"), Dense("thinned", "width", True),
    ),
    (Norm("width"), Dense("width", "projected", _PROJECTION_BIAS), Dense("projected", "text", _PROJECTION_BIAS)),
    (
        Dense("width", "middle", times=2), Dense("middle", "width", times=2), Dense("width", "width", times=5),
        Norm("width", 2), Dense("width", "width*2", _BIAS), Dense("kernel", "width", _BIAS),
        Dense("width", "width", _BIAS), Norm("width", 6, True),
    ),
    modality="audio", sharded=False, part="sound_config",
    present=lambda scope: scope.source.config.has("sound_config"),
)  # fmt: skip
