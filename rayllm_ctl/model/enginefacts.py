"""What changes with the vLLM version, as data that the catalog fills and the planner reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineFacts:
    """One vLLM version.

    version: as released (0.29.0); release: its first three numbers.
    gpu_memory_utilization: the default. cuda_graphs_in_budget: their estimate is taken off the KV cache.
    """

    version: str
    release: tuple[int, int, int]
    gpu_memory_utilization: float = 0.92
    cuda_graphs_in_budget: bool = True
