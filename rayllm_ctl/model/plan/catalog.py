"""A model of the catalog as it is shown: its size, its kind, and where its facts were read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class ModelSummary:
    """One name of the catalog. Parameters are counted, `context_length` in tokens, `weights` is their type in words.

    kinds: what is special about it (MoE, MLA, sliding window, recurrent, multimodal). same_as: whose config it has.
    """

    id: str
    architecture: str
    parameters: int
    active_parameters: int
    context_length: int
    weights: str
    weight_bits: int
    kinds: tuple[str, ...]
    same_as: str | None
    source: str


@dataclass(frozen=True)
class ModelDetails:
    """All of one model: `layers` counts decoder layers by what they cache; `config` is what the catalog keeps."""

    summary: ModelSummary
    layers: Mapping[str, int]
    heads: int
    kv_heads: int
    head_dim: int
    hidden_size: int
    vocab_size: int
    experts: int
    experts_per_token: int
    config: Mapping[str, Any]
