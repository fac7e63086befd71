"""GPU memory of one vLLM engine: weights, activations, CUDA graphs, what lies outside torch, and the KV cache."""

from __future__ import annotations

from rayllm_ctl.planner.memory.budget import EstimateCache
from rayllm_ctl.planner.memory.drafts import Draft, Speculation, speculation
from rayllm_ctl.planner.memory.estimate import estimate, online_scheme
from rayllm_ctl.planner.memory.layout import CPU_BLOCK, cache_shape, cpu_request_bytes
from rayllm_ctl.planner.memory.shards import whole_weights
from rayllm_ctl.planner.memory.types import Formula, KVGroup, MemoryEstimate

__all__ = [
    "CPU_BLOCK",
    "Draft",
    "EstimateCache",
    "Formula",
    "KVGroup",
    "MemoryEstimate",
    "Speculation",
    "cache_shape",
    "cpu_request_bytes",
    "estimate",
    "online_scheme",
    "speculation",
    "whole_weights",
]
