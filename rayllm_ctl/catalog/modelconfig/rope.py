"""How long a context a model allows, and the rotary tables vLLM keeps on the GPU (counted in "Model loading took")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import RotaryCache

_LENGTHS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len", "max_context",
)  # fmt: skip
"""Where vLLM looks for the context length; the smallest counts (config/model.py, 0.8 to 0.32). The last is Moondream's:
its config class hands it on."""

_UNSCALED = ("default", "su", "longrope", "llama3", "mrope", "proportional")
"""Kinds of rope scaling whose factor is already in max_position_embeddings."""

_DEFAULT_LENGTH = 2048


def rope_parameters(fields: Fields) -> Iterator[Fields]:
    """Each set of rope parameters: one, or one per layer type (transformers 5), or the older rope_scaling."""
    nested = fields.child("rope_parameters")
    entries = nested.entries()
    sets = [key for key, value in entries.items() if isinstance(value, Mapping)]
    if sets:
        for key in sets:
            yield nested.child(key)
    elif entries:
        yield nested
    elif fields.has("rope_scaling"):
        yield fields.child("rope_scaling")


def rope_kind(parameters: Fields) -> str:
    return parameters.text("rope_type", "type", default="default")


def max_model_len(fields: Fields, model_type: str) -> int:
    """The longest context vLLM allows without an override (rope scaling applied)."""
    lengths = [fields.integer(name) for name in _LENGTHS if fields.has(name)]
    length = float(min(lengths, default=_DEFAULT_LENGTH))
    if fields.has("model_max_length"):
        length = fields.integer("model_max_length")
    if "gemma3" not in model_type:
        factor = 1.0
        for parameters in rope_parameters(fields):
            kind = rope_kind(parameters)
            if kind in _UNSCALED:
                continue
            factor = parameters.number("factor", default=factor)
            if factor <= 0:
                raise parameters.wrong("factor", factor, "greater than 0")
            if kind == "yarn" and parameters.has("original_max_position_embeddings"):
                length = parameters.integer("original_max_position_embeddings")
        length *= factor
    return max(1, int(length))


def rotary_width(fields: Fields, parameters: Fields | None, head_dim: int) -> int:
    """Rotated features of a head: a part of the head size for some architectures."""
    width = parameters.integer("rope_dim", default=0, low=0) if parameters else 0
    if width:
        return width
    width = fields.integer("rotary_dim", default=0, low=0)
    if width:
        return width
    factor = fields.number("partial_rotary_factor", "rotary_pct", "rope_pct", default=1.0)
    if parameters:
        factor = parameters.number("partial_rotary_factor", default=factor)
    return max(0, int(head_dim * min(max(factor, 0.0), 1.0)))


def rotary_caches(
    fields: Fields, head_dim: int, *, positions: int = 0, width: int = 0, float32: bool = False
) -> tuple[RotaryCache, ...]:
    """The tables of a decoder. One per set of rope parameters: vLLM shares a table between equal layers."""
    positions = positions or fields.integer("max_position_embeddings", "n_positions", "seq_length", default=8192)
    found = [_cache(fields, parameters, head_dim, positions, width) for parameters in rope_parameters(fields)]
    if not found:
        found = [RotaryCache(positions, width or rotary_width(fields, None, head_dim))]
    if fields.has("rope_local_base_freq", "rope_local_theta") and len(found) == 1:
        found.append(RotaryCache(positions, found[0].width, count=1))
        if found[0] == found[1]:
            found = [replace(found[0], count=2)]
    return tuple(replace(table, float32=float32) for table in dict.fromkeys(found))


def _cache(fields: Fields, parameters: Fields, head_dim: int, positions: int, width: int) -> RotaryCache:
    width = width or rotary_width(fields, parameters, head_dim)
    kind = rope_kind(parameters)
    factor = max(parameters.number("factor", default=1.0), 0.0)
    original = parameters.integer(
        "original_max_position_embeddings",
        default=fields.integer("original_max_position_embeddings", default=positions),
    )
    sections = parameters.has("mrope_section")
    if kind in ("yarn", "deepseek_yarn"):
        return RotaryCache(int(original * factor), width, sections=sections)
    if kind in ("linear", "dynamic", "ntk"):
        return RotaryCache(int(positions * (factor or 1.0)), width, sections=sections)
    if kind in ("longrope", "su"):
        return RotaryCache(original + positions, width)
    return RotaryCache(positions, width, sections=sections)
