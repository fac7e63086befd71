"""Facts that depend on the vLLM version, as data that the catalog fills and the planner reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.model.plan.hardware import GPU

SecondRunner = Literal["never", "listed-unquantized", "listed", "dense", "always"]
"""Which models run on vLLM's second model runner by default: none; the dense and unquantized ones of the listed
architectures; those of the listed architectures; these and all without experts and recurrent layers; all."""


@dataclass(frozen=True)
class BatchDefault:
    """vLLM's own max_num_batched_tokens and max_num_seqs for a server on a GPU of at least `min_gib` GiB.

    excluded: parts of GPU names (lower case) to which the rule does not apply.
    """

    min_gib: int
    excluded: tuple[str, ...]
    max_num_batched_tokens: int
    max_num_seqs: int


@dataclass(frozen=True)
class EngineFacts:
    """One vLLM version.

    version: the version whose facts these are (0.29.0); release: its first three numbers. note: what a user should know
    if another version was asked for.
    gpu_memory_utilization: the default. cuda_graphs_in_budget: their estimate is taken off the KV cache.
    batch_defaults: rules by GPU memory, the first that matches counts. chunked_prefill: whether a prompt may be split
    over steps; before 0.8 it may not, and max_num_batched_tokens is at least max_model_len.
    quantization: methods with the least compute capability as (major, minor), None if vLLM states none. Schemes of
    compressed-tensors checkpoints are listed as compressed-tensors/<scheme> (w8a8_int8, w4a4_nvfp4, ...).
    architectures: those that generate text; no_pipeline: those of them that cannot be split into pipeline stages;
    removed: those that were dropped, with the last version that had them.
    arguments: engine arguments with their types ("int|null", empty if unknown). kv_cache_dtypes: values of
    --kv-cache-dtype. sampling_parameters: names that SamplingParams takes.
    """

    version: str
    release: tuple[int, int, int]
    gpu_memory_utilization: float = 0.92
    cuda_graphs_in_budget: bool = True
    note: str = ""
    batch_defaults: tuple[BatchDefault, ...] = ()
    chunked_prefill: bool = True
    second_runner: SecondRunner = "never"
    second_runner_architectures: frozenset[str] = frozenset()
    quantization: Mapping[str, tuple[int, int] | None] = field(default_factory=dict)
    architectures: frozenset[str] = frozenset()
    no_pipeline: frozenset[str] = frozenset()
    removed: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    kv_cache_dtypes: tuple[str, ...] = ()
    sampling_parameters: frozenset[str] = frozenset()

    def batch_defaults_for(self, gpu: GPU) -> tuple[int, int]:
        """(max_num_batched_tokens, max_num_seqs) that an OpenAI-compatible server of this version takes on `gpu`."""
        for rule in self.batch_defaults:
            named = any(part in gpu.name.lower() for part in rule.excluded)
            if gpu.memory_bytes >= rule.min_gib * GIB and not named:
                return rule.max_num_batched_tokens, rule.max_num_seqs
        raise ValueError(f"vLLM {self.version} has no default for a GPU of {gpu.memory_bytes} bytes")

    def uses_second_runner(self, architecture: str, *, moe: bool, hybrid: bool, quantized: bool) -> bool:
        """Whether such a model runs on vLLM's second model runner by default (hybrid: it has recurrent layers)."""
        listed = architecture in self.second_runner_architectures
        match self.second_runner:
            case "never":
                return False
            case "listed-unquantized":
                return listed and not moe and not quantized
            case "listed":
                return listed
            case "dense":
                return listed or not (moe or hybrid)
            case "always":
                return True
