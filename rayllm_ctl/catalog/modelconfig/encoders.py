"""Vision encoders with their projectors, by kind (vLLM: siglip.py, clip.py, pixtral.py, qwen*_vl.py, moonvit.py, ...).

`tokens` and `patches` are of the largest item that vLLM profiles; `pixels` its input values.
"""

from __future__ import annotations

from collections.abc import Callable

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS, Builder, Pieces
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import Layer, Part, Tower

Reader = Callable[[Fields, Fields, int, Builder], Tower]
"""(whole config, vision config, hidden size of the decoder, builder) -> the tower."""


def _block(
    builder: Builder,
    hidden: int,
    heads: int,
    width: int,
    *,
    gated: bool = False,
    bias: bool = True,
    mlp_bias: bool | None = None,
    out_bias: bool | None = None,
    norm_bias: bool = True,
    norms: int = 2,
    split: bool = True,
    inner: int = 0,
) -> Layer:
    """One transformer block of an encoder. `inner`: width of the attention where it is not the hidden size."""
    pieces = builder.single("vision_tower.")
    inner = inner or hidden
    heads = heads if inner % heads == 0 else 1
    parts = tuple(Part(heads, inner // heads) for _ in range(3))
    mlp_bias = bias if mlp_bias is None else mlp_bias
    pieces.linear("attn.qkv", hidden, parts, "column" if split else "none", bias=bias, quantizable=False)
    pieces.linear(
        "attn.proj",
        inner,
        hidden,
        "row" if split else "none",
        bias=bias if out_bias is None else out_bias,
        input_units=heads,
        quantizable=False,
    )
    pieces.mlp(hidden, width, gated=gated, bias=mlp_bias, split=split, quantizable=False, prefix="mlp.")
    pieces.norm(hidden, norms, bias=norm_bias)
    return pieces.layer()


def _stem(builder: Builder) -> Pieces:
    return builder.single("vision_tower.")


def _plain(pieces: Pieces, name: str, inputs: int, outputs: int, *, bias: bool = False, split: bool = False) -> None:
    """A projection that no format quantizes; `split`: column-parallel."""
    pieces.linear(name, inputs, outputs, "column" if split else "none", bias=bias, quantizable=False)


def _pair(pieces: Pieces, inputs: int, middle: int, outputs: int, *, bias: bool, split: bool = True) -> None:
    """A projector of two layers, the first split by outputs and the second by inputs."""
    pieces.linear("linear_1", inputs, middle, "column" if split else "none", bias=bias, quantizable=False)
    pieces.linear("linear_2", middle, outputs, "row" if split else "none", bias=bias, quantizable=False)


def _depth(vision: Fields, *names: str, default: int | None = None) -> int:
    return vision.integer(*(names or ("num_hidden_layers",)), default=default, high=MOST_LAYERS)


def _clip_like(config: Fields, vision: Fields, builder: Builder) -> tuple[list[tuple[Layer, int]], int, int, int]:
    """CLIP and SigLIP: (blocks, hidden, patches of an image, pixels). Layers above the chosen feature are not built."""
    clip = "clip" in vision.text("model_type", default="clip_vision_model")
    hidden = vision.integer("hidden_size", "width", default=1024 if clip else 768)
    width = vision.integer("intermediate_size", default=hidden * 4)
    heads = vision.integer("num_attention_heads", default=16 if clip else 12, high=MOST_HEADS)
    depth = _depth(vision, "num_hidden_layers", "layers", default=24 if clip else 12)
    size = vision.integer("image_size", default=336 if clip else 224, high=2**14)
    patch = vision.integer("patch_size", default=14 if clip else 16, high=256)
    patches = (size // patch) ** 2
    stem = _stem(builder)
    _plain(stem, "patch_embedding", 3 * patch * patch, hidden, bias=not clip)
    _plain(stem, "position_embedding", patches + (1 if clip else 0), hidden)
    built = feature_depth(config, depth)
    if clip:
        stem.norm(hidden)
        stem.norm(hidden, bias=True)
    if built == depth:
        stem.norm(hidden, bias=True)
    return [(_block(builder, hidden, heads, width), built), (stem.layer(), 1)], hidden, patches, 3 * size * size


def feature_depth(config: Fields, depth: int) -> int:
    """Layers up to the deepest feature that the projector takes (vision_feature_layer)."""
    raw = config.raw("vision_feature_layer", "mm_vision_select_layer")
    if isinstance(raw, list):
        chosen = list(config.integers("vision_feature_layer", low=-depth)) or [depth]
    else:
        chosen = [config.integer("vision_feature_layer", "mm_vision_select_layer", default=-1, low=-depth)]
    return max(1, max(layer + depth + 1 if layer < 0 else layer for layer in chosen))


def read_llava(config: Fields, vision: Fields, hidden: int, builder: Builder) -> Tower:
    """LLaVA 1.5 and its kin: CLIP or SigLIP and a projector of two layers. LLaVA-NeXT cuts an image into crops."""
    if vision.text("model_type") == "pixtral":
        return read_pixtral(config, vision, hidden, builder)
    blocks, width, patches, pixels = _clip_like(config, vision, builder)
    features = config.raw("vision_feature_layer")
    taken = len(features) if isinstance(features, list) and features else 1
    ends = _stem(builder)
    _pair(ends, width * taken, hidden, hidden, bias=config.flag("multimodal_projector_bias", default=True))
    crops = 1
    if config.has("image_grid_pinpoints"):
        ends.norm(hidden)
        crops = 5
    return Tower("image", (*blocks, (ends.layer(), 1)), width, crops * patches, crops * patches, crops * pixels)


def read_gemma3(config: Fields, vision: Fields, hidden: int, builder: Builder) -> Tower:
    """Gemma 3, PaliGemma: SigLIP, pooled to a fixed number of tokens."""
    blocks, width, patches, pixels = _clip_like(config, vision, builder)
    ends = _stem(builder)
    _plain(ends, "mm_input_projection", width, hidden)
    ends.norm(width)
    tokens = config.integer("mm_tokens_per_image", default=256)
    return Tower("image", (*blocks, (ends.layer(), 1)), width, tokens, patches, pixels)


def read_idefics3(config: Fields, vision: Fields, hidden: int, builder: Builder) -> Tower:
    """Idefics 3, SmolVLM: SigLIP with pixel shuffle."""
    blocks, width, patches, pixels = _clip_like(config, vision, builder)
    scale = config.integer("scale_factor", default=2, high=64)
    ends = _stem(builder)
    _plain(ends, "modality_projection", width * scale * scale, hidden)
    crops = 17
    tokens = crops * patches // (scale * scale)
    return Tower("image", (*blocks, (ends.layer(), 1)), width, tokens, crops * patches, crops * pixels)


def read_cohere_vision(config: Fields, vision: Fields, hidden: int, builder: Builder) -> Tower:
    """Aya Vision and Command A Vision: SigLIP with a gated projector."""
    blocks, width, patches, pixels = _clip_like(config, vision, builder)
    factor = config.integer("downsample_factor", default=2, high=64)
    middle = config.integer("alignment_intermediate_size", "adapter_layer_intermediate_size", default=hidden * 2)
    ends = _stem(builder)
    _plain(ends, "linear_1", width * factor * factor, middle, bias=True, split=True)
    ends.linear("linear_2", middle // 2, hidden, "row", bias=True, quantizable=False)
    crops = 13
    tokens = crops * patches // (factor * factor)
    return Tower("image", (*blocks, (ends.layer(), 1)), width, tokens, crops * patches, crops * pixels)


def read_pixtral(config: Fields, vision: Fields, hidden: int, builder: Builder) -> Tower:
    """Pixtral's encoder (Mistral Small 3.1, Pixtral): gated blocks with RMS norms, patches merged two by two."""
    width = vision.integer("hidden_size", default=1024)
    heads = vision.integer("num_attention_heads", default=16, high=MOST_HEADS)
    middle = vision.integer("intermediate_size", default=4096)
    size = vision.integer("image_size", default=1024, high=2**14)
    patch = vision.integer("patch_size", default=16, high=256)
    block = _block(builder, width, heads, middle, gated=True, bias=False, norm_bias=False)
    stem = _stem(builder)
    _plain(stem, "patch_conv", 3 * patch * patch, width)
    stem.norm(width)
    merge = config.integer("spatial_merge_size", default=1, high=64)
    if merge > 1 or config.has("multimodal_projector_bias"):
        merge = max(merge, 2)
        stem.norm(width)
        _plain(stem, "patch_merger", width * merge * merge, width)
    _pair(stem, width, hidden, hidden, bias=config.flag("multimodal_projector_bias"))
    side = size // patch
    rows = side // merge
    return Tower(
        "image",
        ((block, _depth(vision, default=24)), (stem.layer(), 1)),
        width,
        rows * rows + rows,
        side * side,
        3 * size * size,
    )


def read_qwen2_vl(config: Fields, vision: Fields, hidden: int, builder: Builder) -> Tower:
    """Qwen2-VL and Qwen2.5-VL. The largest image is 12845056 pixels (preprocessor_config.json): 16384 tokens."""
    newer = vision.has("out_hidden_size") or vision.has("fullatt_block_indexes")
    width = vision.integer("hidden_size" if newer else "embed_dim", default=1280)
    heads = vision.integer("num_heads", default=16, high=MOST_HEADS)
    middle = (
        vision.integer("intermediate_size", default=3420)
        if newer
        else int(width * vision.number("mlp_ratio", default=4))
    )
    patch = vision.integer("patch_size", default=14, high=256)
    merge = vision.integer("spatial_merge_size", default=2, high=64)
    block = _block(builder, width, heads, middle, gated=newer, norm_bias=not newer)
    stem = _stem(builder)
    frames = vision.integer("temporal_patch_size", default=2, high=64)
    _plain(stem, "patch_embed", 3 * frames * patch * patch, width)
    merged = width * merge * merge
    stem.norm(width, bias=not newer)
    stem.linear("merger.mlp.0", merged, merged, "column", bias=True, quantizable=False)
    stem.linear(
        "merger.mlp.2", merged, vision.integer("out_hidden_size", default=hidden), "row", bias=True, quantizable=False
    )
    patches = 16384 * merge * merge
    pixels = patches * 3 * frames * patch * patch
    return Tower(
        "image", ((block, _depth(vision, "depth", default=32)), (stem.layer(), 1)), width, 16384, patches, pixels
    )


def read_qwen3_vl(config: Fields, vision: Fields, hidden: int, builder: Builder) -> Tower:
    """Qwen3-VL and Qwen3.5: a merger for the last layer and one for each deepstack layer. Largest image: 16384 tokens."""
    width = vision.integer("hidden_size", default=1152)
    heads = vision.integer("num_heads", default=16, high=MOST_HEADS)
    patch = vision.integer("patch_size", default=16, high=256)
    merge = vision.integer("spatial_merge_size", default=2, high=64)
    out = vision.integer("out_hidden_size", default=hidden)
    block = _block(builder, width, heads, vision.integer("intermediate_size", default=4304))
    stem = _stem(builder)
    frames = vision.integer("temporal_patch_size", default=2, high=64)
    _plain(stem, "patch_embed", 3 * frames * patch * patch, width, bias=True)
    _plain(stem, "pos_embed", vision.integer("num_position_embeddings", default=2304), width)
    merged = width * merge * merge
    deep = len(vision.integers("deepstack_visual_indexes", longest=64))
    for index in range(1 + deep):
        stem.norm(width if index == 0 else merged, bias=True)
        stem.linear("merger.linear_fc1", merged, merged, "column", bias=True, quantizable=False)
        stem.linear("merger.linear_fc2", merged, out, "row", bias=True, quantizable=False)
    patches = 16384 * merge * merge
    pixels = patches * 3 * frames * patch * patch
    return Tower(
        "image", ((block, _depth(vision, "depth", default=27)), (stem.layer(), 1)), width, 16384, patches, pixels
    )


def read_llama4(config: Fields, vision: Fields, hidden: int, builder: Builder) -> Tower:
    """Llama 4: tiles of 336 pixels, shuffled down to 144 tokens; at most 16 tiles and an overview."""
    width = vision.integer("hidden_size", default=768)
    heads = vision.integer("num_attention_heads", default=16, high=MOST_HEADS)
    middle = vision.integer("intermediate_size", default=5632)
    size, patch = (
        vision.integer("image_size", default=448, high=2**14),
        vision.integer("patch_size", default=14, high=256),
    )
    patches = (size // patch) ** 2
    ratio = vision.number("pixel_shuffle_ratio", default=0.5)
    block = _block(builder, width, heads, middle)
    stem = _stem(builder)
    _plain(stem, "patch_embedding", 3 * patch * patch, width, split=True)
    _plain(stem, "positional_embedding", patches + 1, width)
    stem.norm(width)
    stem.norm(width, 2, bias=True)
    inner, out = (
        vision.integer("projector_input_dim", default=4096),
        vision.integer("projector_output_dim", default=4096),
    )
    _pair(stem, middle, inner, out, bias=vision.flag("multi_modal_projector_bias"))
    _plain(stem, "projector", vision.integer("vision_output_dim", default=7680), hidden, split=True)
    tiles = 17
    tokens = int(patches * ratio * ratio) * tiles
    return Tower(
        "image",
        ((block, _depth(vision, default=34)), (stem.layer(), 1)),
        width,
        tokens,
        patches * tiles,
        3 * size * size * tiles,
    )


def read_gemma4(config: Fields, vision: Fields, hidden: int, builder: Builder) -> Tower:
    """Gemma 4: an encoder that vLLM takes from transformers, not divided by tensor parallelism."""
    width = vision.integer("hidden_size", default=1152)
    heads = vision.integer("num_attention_heads", default=16, high=MOST_HEADS)
    patch = vision.integer("patch_size", default=16, high=256)
    block = _block(
        builder,
        width,
        heads,
        vision.integer("intermediate_size", default=4304),
        gated=True,
        bias=False,
        norm_bias=False,
        norms=4,
        split=False,
    )
    head_norms = _stem(builder)
    head_norms.norm(vision.integer("head_dim", default=max(1, width // heads)), 2)
    stem = _stem(builder)
    _plain(stem, "position_embedding_table", 2 * vision.integer("position_embedding_size", default=10240), width)
    _plain(stem, "input_proj", 3 * patch * patch, width)
    _plain(stem, "embedding_projection", width, hidden)
    stem.norm(width, 2)
    depth = _depth(vision, default=27)
    tokens = config.integer("vision_soft_tokens_per_image", default=280)
    pool = vision.integer("pooling_kernel_size", default=3, high=64)
    patches = tokens * pool * pool
    return Tower(
        "image",
        ((block, depth), (head_norms.layer(), depth), (stem.layer(), 1)),
        width,
        tokens,
        patches,
        patches * 3 * patch * patch,
        sharded=False,
    )


def read_moonvit(config: Fields, vision: Fields, hidden: int, builder: Builder) -> Tower:
    """MoonViT (Kimi-VL, Kimi K2.5 and K3): at most 4096 patches an image in Kimi-VL, 16384 later."""
    newer = vision.has("vt_hidden_size")
    width = vision.integer("vt_hidden_size", "hidden_size", default=1152)
    heads = vision.integer("vt_num_attention_heads", "num_attention_heads", default=16, high=MOST_HEADS)
    middle = vision.integer("vt_intermediate_size", "intermediate_size", default=4304)
    patch = vision.integer("patch_size", default=14, high=256)
    merge = vision.integers("merge_kernel_size", low=1, longest=4) or (2, 2)
    rms = vision.text("norm_type") == "rmsnorm"
    block = _block(
        builder,
        width,
        heads,
        middle,
        bias=vision.flag("attn_bias", default=True),
        mlp_bias=vision.flag("linear_bias", default=True),
        norm_bias=not rms,
        inner=vision.integer("qkv_hidden_size", default=width),
    )
    stem = _stem(builder)
    _plain(stem, "patch_embed", 3 * patch * patch, width, bias=vision.flag("patch_embed_proj_bias", default=True))
    rows = vision.integer("init_pos_emb_height", default=64) * vision.integer("init_pos_emb_width", default=64)
    _plain(stem, "pos_emb", rows, width)
    stem.norm(width, bias=not rms)
    merged = width * merge[0] * merge[-1]
    second = vision.text("mm_projector_type").endswith("v2")
    if second:
        stem.norm(hidden)
    else:
        stem.norm(width, bias=True)
    _pair(stem, merged, merged, hidden, bias=not second, split=False)
    patches = 16384 if newer else 4096
    depth = _depth(vision, "vt_num_hidden_layers", "num_hidden_layers", default=27)
    return Tower(
        "image",
        ((block, depth), (stem.layer(), 1)),
        width,
        patches // (merge[0] * merge[-1]),
        patches,
        patches * 3 * patch * patch,
    )


def read_intern(config: Fields, vision: Fields, hidden: int, builder: Builder) -> Tower:
    """InternViT (InternVL 2 to 3.5): tiles of 448 pixels, at most 12 and an overview, shuffled to 256 tokens each."""
    width = vision.integer("hidden_size", default=1024)
    heads = vision.integer("num_attention_heads", default=16, high=MOST_HEADS)
    middle = vision.integer("intermediate_size", default=4096)
    size, patch = (
        vision.integer("image_size", default=448, high=2**14),
        vision.integer("patch_size", default=14, high=256),
    )
    patches = (size // patch) ** 2
    rms = vision.text("norm_type", default="layer_norm").startswith("rms")
    bias = vision.flag("qkv_bias", "attention_bias", default=True)
    block = _block(builder, width, heads, middle, bias=bias, mlp_bias=True, out_bias=True, norm_bias=not rms)
    scales = _stem(builder)
    scales.norm(width, 2)
    stem = _stem(builder)
    _plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    _plain(stem, "position_embedding", patches + 2, width)
    shuffle = config.number("downsample_ratio", default=0.5)
    merged = int(width / max(shuffle, 0.05) ** 2)
    stem.norm(merged, bias=True)
    _pair(stem, merged, hidden, hidden, bias=True, split=False)
    depth = feature_depth(Fields({"vision_feature_layer": config.raw("select_layer")}), _depth(vision, default=24))
    tiles = config.integer("max_dynamic_patch", default=12, high=256) + 1
    tokens = int(patches * shuffle * shuffle) * tiles
    return Tower(
        "image",
        ((block, depth), (scales.layer(), depth), (stem.layer(), 1)),
        width,
        tokens,
        patches * tiles,
        3 * size * size * tiles,
    )


def read_glm4v(config: Fields, vision: Fields, hidden: int, builder: Builder) -> Tower:
    """GLM-4.1V and GLM-4.5V/4.6V: gated blocks without biases, a convolution and a gated merger."""
    width = vision.integer("hidden_size", default=1536)
    heads = vision.integer("num_heads", "num_attention_heads", default=12, high=MOST_HEADS)
    out = vision.integer("out_hidden_size", default=hidden)
    middle = vision.integer("intermediate_size", default=13696)
    patch = vision.integer("patch_size", default=14, high=256)
    merge = vision.integer("spatial_merge_size", default=2, high=64)
    size = vision.integer("image_size", default=336, high=2**14)
    frames = vision.integer("temporal_patch_size", default=2, high=64)
    block = _block(builder, width, heads, out, gated=True, bias=False, norm_bias=False)
    stem = _stem(builder)
    _plain(stem, "patch_embed", 3 * frames * patch * patch, width, bias=True)
    _plain(stem, "position_embedding", (size // patch) ** 2, width)
    stem.norm(width, 2)
    _plain(stem, "downsample", width * merge * merge, out, bias=True)
    _plain(stem, "merger.proj", out, out, split=True)
    stem.norm(out, bias=True)
    stem.mlp(out, middle, prefix="merger.", quantizable=False)
    patches = 6144 * merge * merge
    return Tower(
        "image",
        ((block, _depth(vision, "depth", "num_hidden_layers", default=24)), (stem.layer(), 1)),
        width,
        6144,
        patches,
        patches * 3 * frames * patch * patch,
    )


def read_deepseek_vl2(config: Fields, vision: Fields, hidden: int, builder: Builder) -> Tower:
    """DeepSeek-VL2 and DeepSeek-OCR: SigLIP from timm, not divided, and a projector of two layers."""
    width = vision.integer("width", "hidden_size", default=1152)
    depth = _depth(vision, "layers", "num_hidden_layers", default=27)
    middle = int(width * vision.number("mlp_ratio", default=3.7362))
    size, patch = (
        vision.integer("image_size", default=384, high=2**14),
        vision.integer("patch_size", default=14, high=256),
    )
    patches = (size // patch) ** 2
    block = _block(builder, width, 16, middle, split=False)
    stem = _stem(builder)
    _plain(stem, "patch_embed", 3 * patch * patch, width, bias=True)
    _plain(stem, "pos_embed", patches, width)
    stem.norm(width, bias=True)
    _pair(stem, width * 4, hidden, hidden, bias=True, split=False)
    stem.norm(hidden, 2)
    tiles = 10
    tokens = patches // 4 * tiles
    return Tower(
        "image",
        ((block, depth), (stem.layer(), 1)),
        width,
        tokens,
        patches * tiles,
        3 * size * size * tiles,
        sharded=False,
    )


def read_phi3v(config: Fields, vision: Fields, hidden: int, builder: Builder) -> Tower:
    """Phi-3 and 3.5 Vision: CLIP ViT-L/14 at 336 pixels, whose sizes the config leaves out, up to 16 crops."""
    sizes = Fields({"model_type": "clip_vision_model", "hidden_size": 1024, "num_hidden_layers": 24})
    blocks, width, patches, pixels = _clip_like(Fields({"vision_feature_layer": -2}), sizes, builder)
    stem = _stem(builder)
    _pair(stem, width * 4, hidden, hidden, bias=True, split=False)
    stem.norm(width * 4, 2)
    crops = 17
    return Tower("image", (*blocks, (stem.layer(), 1)), width, 1921, patches * crops, pixels * crops)


def read_mllama(config: Fields, vision: Fields, hidden: int, builder: Builder) -> Tower:
    """Llama 3.2 Vision: four tiles of 560 pixels through local and global blocks."""
    width = vision.integer("hidden_size", default=1280)
    heads = vision.integer("attention_heads", "num_attention_heads", default=16, high=MOST_HEADS)
    middle = vision.integer("intermediate_size", default=5120)
    size, patch = (
        vision.integer("image_size", default=560, high=2**14),
        vision.integer("patch_size", default=14, high=256),
    )
    tiles = vision.integer("max_num_tiles", default=4, high=64)
    ratios = (
        len(vision.raw("supported_aspect_ratios") or [])
        if isinstance(vision.raw("supported_aspect_ratios"), list)
        else 8
    )
    patches = (size // patch) ** 2 + 1
    block = _block(builder, width, heads, middle, bias=False, mlp_bias=True)
    stem = _stem(builder)
    _plain(stem, "patch_embedding", 3 * patch * patch, width)
    _plain(stem, "positions", patches * (1 + tiles * (ratios + 1)) + 2 * tiles * (ratios + 1), width)
    stem.norm(width, 2, bias=True)
    out = vision.integer("vision_output_dim", default=7680)
    _plain(stem, "multi_modal_projector", out, hidden, bias=True)
    depth = _depth(vision, default=32) + _depth(vision, "num_global_layers", default=8)
    return Tower(
        "image", ((block, depth), (stem.layer(), 1)), width, patches * tiles, patches * tiles, 3 * size * size * tiles
    )
