"""An encoder by the fields that most configs share, for an architecture that has no row: a transformer and a projector
of two layers."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import HEADS, HIDDEN, LAYERS, MOST_HEADS
from rayllm_ctl.catalog.modelconfig.encoders.sizes import EncoderScope, SizeEntry, size
from rayllm_ctl.catalog.modelconfig.encoders.spec import Dense, EncoderSpec, Norm, of_patches, pair, patches_in

_WIDTH = ("encoder_hidden_size", *HIDDEN, "embed_dim", "width", "n_state")
_DEPTH = ("encoder_layers", "depth", *LAYERS, "layers")
_HEADS = ("encoder_attention_heads", *HEADS, "num_heads", "attention_heads", "heads")


def _middle(scope: EncoderScope) -> int:
    times = int(scope["width"] * max(scope.source.vision.number("mlp_ratio", default=4.0), 0.0))
    return scope.source.vision.integer_at(
        0, "encoder_ffn_dim", "intermediate_size", "ffn_dim", "mlp_dim", default=times
    )


def _side(*names: str, default: int, high: int) -> SizeEntry:
    return lambda scope: scope.source.vision.integer_at(0, *names, default=default, high=high)


def _has_sizes(scope: EncoderScope) -> bool:
    return scope.source.vision.has(*_WIDTH) and scope.source.vision.has(*_DEPTH)


_SIZES: dict[str, SizeEntry] = {
    "width": size(" ".join(_WIDTH)), "depth": size(" ".join(_DEPTH)), "middle": _middle,
    "heads": size(" ".join(_HEADS), lambda scope: max(1, scope["width"] // 64), high=MOST_HEADS),
}  # fmt: skip

USUAL_IMAGE = EncoderSpec(
    {
        **_SIZES, "image": _side("image_size", "img_size", default=1024, high=2**14),
        "patch": _side("patch_size", default=14, high=256), "frames": size("temporal_patch_size", 1),
        "merge": size("spatial_merge_size merge_size", 1),
    },
    of_patches("grid"), (patches_in(), Dense("grid", "width"), Norm("width", bias=True)),
    pair("merged", "text", "text", split=False), present=_has_sizes,
)  # fmt: skip
USUAL_SOUND = EncoderSpec(
    {**_SIZES, "bins": size("num_mel_bins", 128), "positions": size("max_source_positions", 1500)},
    ("positions", "positions", "positions*bins*2"),
    (Dense("bins*3", "width", True), Dense("width*3", "width", True), Dense("positions", "width"),
     Norm("width", bias=True)),
    pair("width", "text", "text", split=False), modality="audio", present=_has_sizes,
)  # fmt: skip
