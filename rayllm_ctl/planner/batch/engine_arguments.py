"""The arguments of vLLM's engine in a batch job, by its names: those of the plan, as Ray Data LLM takes them."""

from __future__ import annotations

from typing import Any

from rayllm_ctl.model.plan.plan import EngineSettings, ParallelismPlan
from rayllm_ctl.model.spec.batch import BatchJob


def engine_kwargs(batch: BatchJob, engine: EngineSettings, parallelism: ParallelismPlan) -> dict[str, Any]:
    """The arguments. On CPUs the processes of a replica are vLLM's own: its Ray executor does not support CPUs."""
    split_on_cpus = batch.accelerator.kind == "cpu" and parallelism.gpus_per_replica > 1
    planned = {
        "tensor_parallel_size": parallelism.tensor,
        "pipeline_parallel_size": parallelism.pipeline,
        "max_model_len": engine.max_model_len,
        "max_num_seqs": engine.max_num_seqs,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "dtype": engine.dtype,
        "gpu_memory_utilization": engine.gpu_memory_utilization,
        "quantization": engine.quantization,
        "kv_cache_dtype": engine.kv_cache_dtype,
        "revision": batch.model.revision,
        "distributed_executor_backend": "mp" if split_on_cpus else None,
    }
    return {**{name: value for name, value in planned.items() if value is not None}, **engine.args}
