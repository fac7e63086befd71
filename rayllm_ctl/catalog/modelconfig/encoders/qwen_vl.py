"""Qwen-VL and encoders of its kind, which take an image in its own shape and merge patches: Qwen2-VL to Qwen3.5,
HyperCLOVA X, ERNIE 4.5 VL, openPangu VL, LLaVA-OneVision 2, Kanana-V, dots.ocr, GLM-V, HunYuanOCR.

Files of vLLM 0.29 by the models' names; qwen2_vl.py, qwen2_5_vl.py, qwen3_vl.py, ernie45_vl.py, openpangu_vl.py,
llava_onevision2.py, kanana_v.py, glm4_1v.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.catalog.modelconfig.encoders.registry import TEXT_PARTS
from rayllm_ctl.catalog.modelconfig.encoders.sizes import Default, EncoderScope, SizeEntry, flag, ratio, size, vit
from rayllm_ctl.catalog.modelconfig.encoders.source import EncoderSource
from rayllm_ctl.catalog.modelconfig.encoders.spec import (
    Block,
    Dense,
    EncoderSpec,
    Mlp,
    Norm,
    Step,
    Steps,
    of_patches,
    of_tokens,
    pair,
    patches_in,
)
from rayllm_ctl.model.plan.facts import VideoProfile


def _qwen(width: int, middle: Default, depth: int, patch: int = 14) -> dict[str, SizeEntry]:
    sizes = {"width": width, "heads": 16, "middle": middle, "depth": depth, "patch": patch, "frames": 2, "merge": 2}
    return vit({"heads": "num_heads", "depth": "depth"}, **sizes, out="text")


# The largest image is 12845056 pixels (preprocessor_config.json): 16384 tokens. EXAONE 4.5 has fewer KV heads.
_QWEN25_VL = EncoderSpec(
    {**_qwen(1280, 3420, 32), "kv_heads": size("num_key_value_heads", 0, low=0)}, of_tokens(16384),
    (patches_in(bias=False), Norm("width")), pair("merged", "merged", "out"),
    (Block(gated=True, norm_bias=False, kv_heads="kv_heads"),),
)  # fmt: skip
_QWEN2_VL = _QWEN25_VL._replace(
    sizes={**_QWEN25_VL.sizes, "width": size("embed_dim", 1280), "middle": ratio(4.0)},
    stem=(patches_in(bias=False), Norm("width", bias=True)), block=(Block(kv_heads="kv_heads"),),
)  # fmt: skip


def qwen2_vl(source: EncoderSource) -> EncoderSpec:
    """Qwen2-VL and Qwen2.5-VL."""
    newer = source.vision.has("out_hidden_size") or source.vision.has("fullatt_block_indexes")
    return _QWEN25_VL if newer else _QWEN2_VL


def hyperclova(source: EncoderSource) -> EncoderSpec:
    """HyperCLOVA X Vision 2: Qwen2.5-VL's, and one projection into the decoder."""
    spec, out = qwen2_vl(source), size("out_hidden_size", source.vision.integer("hidden_size", default=1280))
    return spec._replace(sizes={**spec.sizes, "out": out}, projector=(*spec.projector, Dense("out", "text", True)))


# Qwen3-VL and Qwen3.5: a merger for the last layer and for each deepstack layer
QWEN3_VL = EncoderSpec(
    {
        **_qwen(1152, 4304, 27, 16), "positions": size("num_position_embeddings", 2304),
        "deep": lambda scope: len(scope.source.vision.integers("deepstack_visual_indexes", longest=64)),
    },
    of_tokens(16384), (patches_in(), Dense("positions", "width")),
    (
        Norm("width", bias=True), *pair("merged", "merged", "out"), Norm("merged", "deep", True),
        *pair("merged", "merged", "out", times="deep"),
    ),
    levels="deep",
)  # fmt: skip


def _frame_pairs(scope: EncoderScope) -> VideoProfile:
    """vLLM profiles as many pairs of frames of the largest size as fit into a request beside an image, but the
    processor shrinks each to 34 x 34 tokens (1196 x 28 x 28 pixels)."""
    patches = 2 * 34 * 34 * scope["merge"] ** 2
    return VideoProfile(78 * 78, patches, patches * scope["values"], beside=78 * 78)


_MERGES_FRAMES = flag("use_temporal_conv", "config", default=True)

# ERNIE 4.5 VL: merges two by two patches, then pairs of frames. Images of up to 78 x 78 tokens (6177 x 28 x 28 pixels
# in transformers' processor).
ERNIE_VL = EncoderSpec(
    {
        "width": size("embed_dim hidden_size", 1280), "heads": size("num_heads", 16), "middle": ratio(4.0),
        "depth": size("depth", 32), "patch": size("patch_size", 14),
        "features": size("pixel_hidden_size", "width", "config"), "merge": size("spatial_conv_size", 2, "config"),
        "merged": "features*merge*merge", "joined": size("temporal_conv_size", 2, "config", high=64),
    },
    of_tokens(78 * 78), (patches_in(bias=False), Norm("width", bias=True)),
    (
        *(Dense("merged", "merged", True, "column"),) * 2, Norm("merged", bias=True),
        Dense("merged*joined", "merged", True, "column", when=_MERGES_FRAMES),
        Dense("merged", "merged", True, "column", when=_MERGES_FRAMES), Norm("merged", bias=True, when=_MERGES_FRAMES),
        Dense("merged", "text", True, "column"), Norm("text"),
    ),
    video=_frame_pairs,
)  # fmt: skip


def _taken(scope: EncoderScope) -> int:
    return len(scope.source.vision.integers("mm_unit_vision_select_layer", low=-1024, high=-1, longest=64)) or 2


# openPangu VL: a merger for each layer that is taken, their outputs added and projected
PANGU_VL = EncoderSpec(
    {
        **_qwen(1536, 4608, 26), "taken": _taken,
    },
    of_tokens(16384), (patches_in(bias=False), Norm("width")),
    (Norm("width", "taken"), *pair("merged", "merged", "out", times="taken"), Dense("out", "text", True)),
    (Block(gated=lambda scope: scope.source.vision.text("hidden_act", default="gelu") == "silu", norm_bias=False),),
)  # fmt: skip

# LLaVA-OneVision 2: vLLM profiles images of 1800 x 1800 pixels; videos are not counted.
LLAVA_ONEVISION2 = EncoderSpec(
    {
        **vit(width=1024, heads=16, middle=4096, depth=24, patch=14, merge=2),
        "tokens": lambda scope: max(1, round(1800 / (scope["patch"] * scope["merge"])))**2,
    },
    of_tokens("tokens"), (patches_in(bias=False), Norm("width", 2, bias=True)), pair("merged", "merged", "text"),
)  # fmt: skip

_KANANA = "projector_config"
_KANANA_VL = EncoderSpec(
    {
        "width": size("embed_dim", 1280), "heads": size("num_heads", 16), "middle": ratio(4.0),
        "depth": size("depth", 32), "patch": size("patch_size", 14), "frames": size("temporal_patch_size", 2),
        "merge": size("merge_size", 2, _KANANA), "features": size("encoder_hidden_size", 1280, _KANANA),
        "inner": size("hidden_size", 1024, _KANANA), "out": size("output_hidden_size", 2048, _KANANA),
        "positions": size("pos_emb_size", 576, _KANANA),
    },
    of_tokens(35 * 35),
    (patches_in(bias=False), Dense("positions", "features", when=flag("pos_emb", _KANANA, default=True))),
    kept="depth+1",
)  # fmt: skip


def kanana(source: EncoderSource) -> EncoderSpec:
    """Kanana-V: Qwen2-VL's encoder, whose layers' outputs are all kept, then convolutions around a merger, which are
    not divided. Images of up to 1003520 pixels (the default of its image processor)."""
    fields = source.config.child(_KANANA)
    depth = fields.integer("depth", default=2, low=0, high=256)
    steps: list[Step] = []
    for given in ("features", "inner*merge*merge"):
        for index in range(depth):
            steps += _convolutions("inner" if index else given, source)
    for index in range(fields.integer("mlp_depth", default=2, high=256)):
        steps.append(Dense("out" if index else "inner" if depth else "features", "out", True))
    return _KANANA_VL._replace(projector=tuple(steps))


def _convolutions(given: str, source: EncoderSource) -> Iterator[Step]:
    """A block of RegNet: into `inner` channels, each with its neighbours, weighted by their means, and across again."""
    scope = EncoderScope(source, _KANANA_VL.sizes)
    squeezed = max(1, round(scope[given] / 4))
    yield Dense(given, "inner")
    yield Dense(9, "inner")
    yield Dense("inner", squeezed, True)
    yield Dense(squeezed, "inner", True)
    yield Dense("inner", "inner")
    yield Norm("inner", 3, bias=True)
    if scope[given] != scope["inner"]:
        yield Dense(given, "inner")
        yield Norm("inner", bias=True)


# dots.ocr: gated blocks with RMS norms. Images of up to 11289600 pixels (preprocessor_config.json).
DOTS_OCR = EncoderSpec(
    {
        **vit({"width": "embed_dim"}, width=1536, heads=12, middle=4224, depth=42, patch=14, merge=2),
        "out": size("hidden_size", 1536), "most": "11289600/patch/patch",
    },
    of_patches("most"),
    (patches_in(), Norm("width"), Norm("width", when=flag("post_norm", default=True)), Norm("width", bias=True)),
    pair("merged", "merged", "out"), (Block(gated=True, bias=flag("use_bias"), norm_bias=False),),
)  # fmt: skip


_GLM = {"heads": "num_heads num_attention_heads", "depth": "depth num_hidden_layers"}
_GLM_PROJECTOR: Steps = (
    patches_in(), Norm("width"), Dense("merged", "out", True), Dense("out", "out", split="column"),
    Norm("out", bias=True), Mlp("out", "merger", "out"),
)  # fmt: skip
# GLM-4.1V and GLM-4.5V/4.6V: gated blocks without biases, a convolution, a gated merger. Images of up to 6144 tokens.
GLM4V = EncoderSpec(
    {
        **vit(_GLM, width=1536, heads=12, depth=24, patch=14, image=336, frames=2, merge=2, out="text"),
        "middle": "out", "merger": size("intermediate_size", 13696),
    },
    of_tokens(6144), (Dense("grid", "width"), Norm("width")), _GLM_PROJECTOR,
    (Block(gated=True, bias=False, norm_bias=False),),
)  # fmt: skip
# GLM-OCR: with biases and norms of heads, no position table, a merger as wide as the decoder's MLP
GLM_OCR = EncoderSpec(
    {
        **vit(_GLM, width=1024, heads=16, middle=4096, depth=24, patch=14, frames=2, merge=2, out=1536),
        "merger": lambda scope: scope.source.config.child(*TEXT_PARTS).integer("intermediate_size", default=4096),
    },
    of_tokens(6144), (), _GLM_PROJECTOR, (Block(gated=True, norm_bias=False, head_norms=True),),
)  # fmt: skip


# HunYuanOCR: a table of positions for the largest image, and convolutions that widen what they merge. Each row of
# tokens ends with one more. As in vLLM's own model (0.20); 0.29 runs it through transformers, which may leave the
# encoder undivided.
HUNYUAN = EncoderSpec(
    {
        **vit(width=1152, heads=16, middle=4304, depth=27, patch=16, merge=2, out=4096),
        "image": size("max_image_size", 2048), "rows": "image/patch/merge",
    },
    ("rows*rows+rows+2", "grid", "grid*values"), (patches_in(), Dense("grid+1", "width")),
    (
        Dense("merged", "width*2", True), Dense("width*2", "width*4", True), Dense("width*4", "out", True),
        Norm("width*4"), Norm("out", 4), Norm("width"),
    ),
)  # fmt: skip
