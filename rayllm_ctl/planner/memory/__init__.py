"""GPU memory of one vLLM engine: weights, activations, CUDA graphs, what lies outside torch, and the KV cache."""

from __future__ import annotations

from rayllm_ctl.planner.memory.budget import EstimateCache
from rayllm_ctl.planner.memory.drafts import Draft, Speculation, speculation
from rayllm_ctl.planner.memory.estimate import estimate
from rayllm_ctl.planner.memory.types import Formula, KVGroup, MemoryEstimate, MemorySettings

__all__ = [
    "Draft",
    "EstimateCache",
    "Formula",
    "KVGroup",
    "MemoryEstimate",
    "MemorySettings",
    "Speculation",
    "estimate",
    "speculation",
]
