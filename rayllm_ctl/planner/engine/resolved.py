"""The engine's settings of one candidate, all of them resolved: the one form in which every part of the planner reads
them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class ResolvedSettings:
    """Names are vLLM's. Lengths in tokens; tensor and pipeline in GPUs, data in ranks of tensor x pipeline GPUs.

    dtype: bfloat16, float16, float32 or None (the model's). quantization: an online method (fp8, ...) or None.
    kv_cache_dtype: auto, fp8, fp8_e4m3, bfloat16, ... args: further engine arguments by vLLM's name; env: the engine's
    environment variables.
    """

    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization: float
    dtype: str | None = None
    kv_cache_dtype: str = "auto"
    quantization: str | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def eager(self) -> bool:
        """Whether no CUDA graphs are captured."""
        return self.args.get("enforce_eager") is True

    @property
    def block_size(self) -> int | None:
        """Tokens per block of the KV cache as the user sets it; None: vLLM's choice."""
        size = self.args.get("block_size")
        return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None
