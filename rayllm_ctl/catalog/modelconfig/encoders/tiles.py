"""Encoders that cut an image into tiles of one size, or pool it: Llama 4, InternVL, DeepSeek-VL2, Gemma 4, MoonViT,
Ovis."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source
from rayllm_ctl.catalog.modelconfig.encoders.clip import CLIP_SIZES, CLIP_STEM_AND_NORM, feature_depth
from rayllm_ctl.catalog.modelconfig.encoders.sizes import Entry, Scope, flag, size, vit
from rayllm_ctl.catalog.modelconfig.encoders.spec import (
    Block,
    Dense,
    EncoderSpec,
    Norm,
    Step,
    of_crops,
    of_patches,
    of_tokens,
    pair,
    patches_in,
    read_encoder,
)
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import MultiModalEncoder


def _shuffled(scope: Scope, share: float, tiles: int) -> tuple[int, int, int]:
    """`share`: of the positions along a side that pixel shuffle leaves."""
    return int(scope["grid"] * share * share) * tiles, scope["grid"] * tiles, scope["pixels"] * tiles


# Llama 4: tiles of 336 pixels, shuffled down to 144 tokens; at most 16 tiles and an overview
LLAMA4 = EncoderSpec(
    {
        **vit(width=768, heads=16, middle=5632, depth=34, patch=14, image=448),
        "positions": lambda scope: scope["grid"] + 1, "inner": size("projector_input_dim", 4096),
        "out": size("projector_output_dim", 4096), "features": size("vision_output_dim", 7680),
    },
    lambda scope: _shuffled(scope, scope.source.vision.number("pixel_shuffle_ratio", default=0.5), 17),
    (Dense("values", "width", split="column"), Dense("positions", "width"), Norm("width"), Norm("width", 2, True)),
    (
        *pair("middle", "inner", "out", bias=flag("multi_modal_projector_bias")),
        Dense("features", "text", split="column"),
    ),
)  # fmt: skip

# Gemma 4: vLLM takes it from transformers; tensor parallelism does not divide it
GEMMA4 = EncoderSpec(
    {
        **vit(width=1152, heads=16, middle=4304, depth=27, patch=16),
        "head": size("head_dim", lambda scope: max(1, scope["width"] // scope["heads"])),
        "positions": size("position_embedding_size", 10240), "merge": size("pooling_kernel_size", 3),
        "tokens": size("vision_soft_tokens_per_image", 280, "config"),
    },
    of_tokens("tokens"), (Dense("positions*2", "width"), patches_in(bias=False)),
    (Dense("width", "text"), Norm("width", 2)),
    Block(gated=True, bias=False, norm_bias=False, norms=4, split=False, beside=(Norm("head", 2),)), sharded=False,
)  # fmt: skip

_GEMMA4_UNIFIED = EncoderSpec(
    {
        "width": size("mm_embed_dim", 3840), "patch": size("patch_size", 16), "pool": size("pooling_kernel_size", 3),
        "values": lambda scope: 3 * (scope["patch"] * scope["pool"]) ** 2, "positions": size("mm_posemb_size", 1120),
        "out": size("output_proj_dims", 3840), "tokens": size("num_soft_tokens", 280),
        "sound": size("audio_embed_dim", 640, "audio_config"),
    },
    of_patches("tokens"),
    (
        Norm("values", bias=True), Dense("values", "width", True, "column"), Norm("width", 2, True),
        Dense("positions*2", "width"), Dense("out", "text"),
        Dense("sound", "text", when=lambda scope: scope.source.config.has("audio_config")),
    ),
)  # fmt: skip


def read_gemma4_unified(source: Source) -> MultiModalEncoder:
    """Gemma 4 12B: no encoder; patches go through one layer into the decoder, which sees them itself."""
    if not source.config.has("vision_config"):
        raise source.config.missing("vision_config")
    return read_encoder(_GEMMA4_UNIFIED, source)


def _intern_shuffle(scope: Scope) -> float:
    return scope.source.config.number("downsample_ratio", default=0.5)


def _intern_depth(scope: Scope) -> int:
    chosen = Fields({"vision_feature_layer": scope.source.config.raw("select_layer")})
    return feature_depth(chosen, scope["layers"])


# InternViT (InternVL 2 to 3.5): tiles of 448 pixels, at most 12 and an overview, shuffled to 256 tokens each
_INTERN_BLOCK = Block(
    bias=flag("qkv_bias attention_bias", default=True), mlp_bias=True, out_bias=True,
    norm_bias=lambda scope: not scope.source.vision.text("norm_type", default="layer_norm").startswith("rms"),
    beside=(Norm("width", 2),),
)  # fmt: skip
QIANFAN = EncoderSpec(
    {
        **vit(width=1024, heads=16, middle=4096), "layers": size("num_hidden_layers", 24), "depth": _intern_depth,
        "image": lambda scope: scope.source.vision.integer_at(0, "image_size", default=448),
        "patch": lambda scope: scope.source.vision.integer_at(0, "patch_size", default=14),
        "positions": lambda scope: scope["grid"] + 2,
        "merged": lambda scope: int(scope["width"] / max(_intern_shuffle(scope), 0.05)**2),
        "tiles": size("max_dynamic_patch", 12, "config"),
    },
    lambda scope: _shuffled(scope, _intern_shuffle(scope), scope["tiles"] + 1),
    (patches_in(), Dense("positions", "width")),
    (Norm("merged", bias=True), *pair("merged", "text", "text", split=False)),
    _INTERN_BLOCK,
)  # fmt: skip
# In transformers' form (text_config) vLLM does not divide its attention.
INTERN = QIANFAN._replace(
    block=_INTERN_BLOCK._replace(split_attention=lambda scope: not scope.source.config.has("text_config"))
)

# DeepSeek-VL2: SigLIP from timm, not divided, and a projector of two layers
DEEPSEEK_VL2 = EncoderSpec(
    {
        **vit(patch=14, image=384), "width": size("width hidden_size", 1152), "heads": 16,
        "middle": lambda scope: int(scope["width"] * scope.source.vision.number("mlp_ratio", default=3.7362)),
        "depth": size("layers num_hidden_layers", 27),
    },
    lambda scope: (scope["grid"] // 4 * 10, scope["grid"] * 10, scope["pixels"] * 10),
    (patches_in(), Dense("grid", "width"), Norm("width", bias=True)),
    (*pair("width*4", "text", "text", split=False), Norm("text", 2)), Block(split=False), sharded=False,
)  # fmt: skip

# MoonViT (Kimi-VL, Kimi K2.5 and K3): at most 4096 patches an image in Kimi-VL, 16384 later


def _kernel(scope: Scope) -> int:
    kernel = scope.source.vision.integers("merge_kernel_size", low=1, longest=4) or (2, 2)
    return kernel[0] * kernel[-1]


def _has_bias(scope: Scope) -> bool:
    return scope.source.vision.text("norm_type") != "rmsnorm"


def _is_second(scope: Scope) -> bool:
    return scope.source.vision.text("mm_projector_type").endswith("v2")


def _is_first(scope: Scope) -> bool:
    return not _is_second(scope)


def _moonvit_image(scope: Scope) -> tuple[int, int, int]:
    patches = 16384 if scope.source.vision.has("vt_hidden_size") else 4096
    return patches // _kernel(scope), patches, patches * scope["values"]


MOONVIT = EncoderSpec(
    {
        "width": size("vt_hidden_size hidden_size", 1152),
        "heads": size("vt_num_attention_heads num_attention_heads", 16),
        "middle": size("vt_intermediate_size intermediate_size", 4304),
        "depth": size("vt_num_hidden_layers num_hidden_layers", 27), "patch": size("patch_size", 14),
        "inner": size("qkv_hidden_size", "width"), "rows": size("init_pos_emb_height", 64),
        "columns": size("init_pos_emb_width", 64), "positions": lambda scope: scope["rows"] * scope["columns"],
        "merged": lambda scope: scope["width"] * _kernel(scope),
    },
    _moonvit_image,
    (
        patches_in(bias=flag("patch_embed_proj_bias", default=True)), Dense("positions", "width"),
        Norm("width", bias=_has_bias),
    ),
    (
        Norm("text", when=_is_second), Norm("width", bias=True, when=_is_first),
        *pair("merged", "merged", "text", bias=_is_first, split=False),
    ),
    Block(
        bias=flag("attn_bias", default=True), mlp_bias=flag("linear_bias", default=True), norm_bias=_has_bias,
        inner="inner",
    ),
)  # fmt: skip

# Ovis (vLLM: ovis.py, ovis2_5.py): features choose from a visual vocabulary, which has embeddings of its own. Some of
# its rows mark where images begin and end: the head does not choose them.
_OVIS_PROJECTOR: tuple[Step, ...] = (Dense("merged", "chosen"), Norm("chosen", bias=True), Dense("words", "text"))


def _words(names: str, default: int, part: str, marks: int) -> dict[str, Entry]:
    return {"words": size(names, default, part, low=marks + 1), "chosen": lambda scope: scope["words"] - marks}


_OVIS = "visual_tokenizer_config"
_OVIS_SIZES: dict[str, Entry] = {"merge": size("hidden_stride", 1, _OVIS), **_words("vocab_size", 16384, _OVIS, 5)}
_OVIS_SIGLIP = EncoderSpec({**CLIP_SIZES, **_OVIS_SIZES}, of_crops(10), CLIP_STEM_AND_NORM, _OVIS_PROJECTOR)
_OVIS_AIMV2 = EncoderSpec(
    {**vit(width=1024, heads=8, middle=2816, depth=24, patch=14, image=224), **_OVIS_SIZES}, of_crops(10),
    (patches_in(), Dense("grid", "width"), Norm("width")), _OVIS_PROJECTOR,
    Block(gated=True, bias=flag("qkv_bias"), mlp_bias=flag("use_bias"), out_bias=flag("use_bias"), norm_bias=False),
)  # fmt: skip


def read_ovis(source: Source) -> MultiModalEncoder:
    """Ovis 1.6 and 2: SigLIP or AIMv2 over up to nine crops and an overview."""
    vision = source.config.child(_OVIS).child("backbone_config")
    spec = _OVIS_AIMV2 if vision.text("model_type") == "aimv2" else _OVIS_SIGLIP
    return read_encoder(spec, source._replace(vision=vision))


def _keeps_positions(scope: Scope) -> bool:
    return scope.source.vision.flag("preserve_original_pe", default=True)


def _ovis25_positions(scope: Scope) -> int:
    given = scope.source.vision.integer("num_patches", default=-1, low=-1)
    return given if given > 0 else scope["grid"]


# Ovis 2.5 and 2.6: SigLIP 2 over an image in its own shape, up to 1792 x 1792
_OVIS25 = EncoderSpec(
    {
        **vit(width=1152, heads=16, middle=4304, depth=27, patch=16, image=512), "merge": size("hidden_stride", 2),
        "positions": _ovis25_positions, "patches": lambda scope: (1792 // scope["patch"])**2,
        **_words("visual_vocab_size", 65536, "config", 4),
    },
    lambda scope: (scope["patches"] // scope["merge"]**2, scope["patches"], 3 * 1792 * 1792),
    (patches_in(), Dense("positions", "width", when=_keeps_positions), Norm("width", bias=True)), _OVIS_PROJECTOR,
)  # fmt: skip


def read_ovis25(source: Source) -> MultiModalEncoder:
    return read_encoder(_OVIS25, source._replace(vision=source.config.child("vit_config")))
