"""MiniCPM-V and MiniCPM-o: SigLIP over slices of an image, resampled to a fixed number of queries (vLLM: minicpmv.py,
minicpmo.py)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, depth_of, encoder_block, pair, plain, stem_of
from rayllm_ctl.catalog.modelconfig.encoders.sizes import vit_sizes
from rayllm_ctl.catalog.modelconfig.encoders.whisper import frames_of, of_whisper, read_whisper_blocks
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import MultiModalEncoder, Part

_SEEING = {"2.5": "LlamaForCausalLM", "2.6": "Qwen2ForCausalLM", "4.0": "LlamaForCausalLM", "4.5": "Qwen3ForCausalLM"}
_HEARING = {"2.6": "Qwen2ForCausalLM", "4.5": "Qwen3ForCausalLM"}
"""The text model of each version that vLLM has; that of MiniCPM-V 2.0 sees through timm and is not read here."""

_SECONDS = 30


def minicpmv_text(config: Fields) -> str:
    """The text architecture: the config says the version only."""
    small = config.integer("hidden_size") == 2304 and config.integer("query_num", default=64) == 64
    return _by_version(config, _SEEING, "2.0" if small else "2.5")


def minicpmo_text(config: Fields) -> str:
    return _by_version(config, _HEARING, "2.6")


def _by_version(config: Fields, known: dict[str, str], default: str) -> str:
    version = config.raw("version")
    said = default if version is None else str(float(version)) if isinstance(version, (int, float)) else version
    if not isinstance(said, str) or said not in known:
        raise config.wrong("version", said, f"one of {', '.join(sorted(known))}")
    return known[said]


def read_minicpmv(source: Source) -> MultiModalEncoder:
    """The encoder and its resampler, which tensor parallelism does not divide."""
    vision, config, hidden = source.vision, source.config, source.hidden
    width, heads, middle, patch = vit_sizes(vision, width=1152, heads=16, middle=4304, patch=14)
    size = vision.integer("image_size", default=980, high=2**14)
    depth = depth_of(vision, default=27) - config.flag("drop_vision_last_layer", default=True)
    queries = config.integer("query_num", default=64, high=2**16)
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    plain(stem, "position_embedding", (size // patch) ** 2, width)
    stem.norm(width, bias=True)
    plain(stem, "resampler.query", queries, hidden)
    if width != hidden:
        plain(stem, "resampler.kv_proj", width, hidden)
    plain(stem, "resampler.attn.in_proj", hidden, 3 * hidden, bias=True)
    plain(stem, "resampler.attn.out_proj", hidden, hidden, bias=True)
    plain(stem, "resampler.proj", hidden, hidden)
    stem.norm(hidden, 3, bias=True)
    slices = config.child("slice_config")
    views = slices.integer("max_slice_nums", default=9, high=256) + 1
    side = slices.integer("scale_resolution", default=448, high=2**14)
    return MultiModalEncoder(
        "image",
        ((encoder_block(source.builder, width, heads, middle), max(1, depth)), (stem.layer(), 1)),
        width,
        views * queries,
        views * (side // patch) ** 2,
        views * 3 * side * side,
    )


def read_minicpmo_audio(source: Source) -> MultiModalEncoder:
    """Whisper's encoder as transformers has it, pooled; a projector that reads a quarter of its feed-forward width."""
    source = of_whisper(source)
    sound = source.vision
    blocks, width = read_whisper_blocks(source, split=False)
    stem = stem_of(source)
    plain(stem, "linear1", max(1, sound.integer("encoder_ffn_dim") // 4), source.hidden, bias=True)
    plain(stem, "linear2", source.hidden, source.hidden, bias=True)
    pool = source.config.integer("audio_pool_step", default=2, high=50)
    tokens = _SECONDS * (50 // pool)
    return MultiModalEncoder("audio", (*blocks, (stem.layer(), 1)), width, tokens, frames_of(sound), sharded=False)


def read_minicpmv46(source: Source) -> MultiModalEncoder:
    """MiniCPM-V 4.6: no resampler; attention in windows of two by two merges them, and an MLP merges again."""
    vision, config = source.vision, source.config
    width, heads, middle, patch = vit_sizes(vision, width=768, heads=12, middle=3072, patch=16)
    size = vision.integer("image_size", default=224, high=2**14)
    depth = depth_of(vision, default=12) - config.flag("drop_vision_last_layer")
    stem = stem_of(source)
    plain(stem, "patch_embedding", 3 * patch * patch, width, bias=True)
    plain(stem, "position_embedding", (size // patch) ** 2, width)
    stem.norm(width, 2, bias=True)
    heads_of = (Part(heads, max(1, width // heads)),) * 3
    stem.linear("vit_merger.self_attn.qkv_proj", width, heads_of, bias=True, quantizable=False)
    stem.linear("vit_merger.self_attn.out_proj", width, width, "row", bias=True, input_units=heads, quantizable=False)
    plain(stem, "vit_merger.linear_1", 4 * width, 4 * middle, bias=True)
    plain(stem, "vit_merger.linear_2", 4 * middle, width, bias=True)
    pair(stem, 4 * width, 4 * width, source.hidden, bias=True, split=False)
    stem.norm(4 * width, 2, bias=True)
    side = config.integer("image_size", default=448, high=2**14)
    views = 10
    patches = views * (side // patch) ** 2
    return MultiModalEncoder(
        "image",
        ((encoder_block(source.builder, width, heads, middle), max(1, depth)), (stem.layer(), 1)),
        width,
        patches // 16,
        patches,
        views * 3 * side * side,
    )
