"""A service with what its plan decided written into it: it is planned the same by every later release."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.model.plan import Plan
from rayllm_ctl.model.service import LLMService, PodResources, Resources


def pinned(service: LLMService, plan: Plan) -> LLMService:
    """`service` with the values of `plan` in every field that the user left to the planner.

    ValueError if the plan does not run.
    """
    engine, parallelism, pods, deployment = plan.engine, plan.parallelism, plan.pods, plan.deployment
    if engine is None or parallelism is None or pods is None or deployment is None:
        raise ValueError(f"the plan is {plan.verdict}")
    runtime = deployment.runtime
    return replace(
        service,
        engine=replace(
            service.engine,
            image=service.engine.image or runtime.image,
            vllm_version=service.engine.vllm_version or runtime.vllm_version,
            ray_version=service.engine.ray_version or runtime.ray_version,
            max_model_len=engine.max_model_len,
            dtype=engine.dtype,
            quantization=engine.quantization,
            kv_cache_dtype=engine.kv_cache_dtype,
            gpu_memory_utilization=engine.gpu_memory_utilization,
            max_num_seqs=engine.max_num_seqs,
            max_num_batched_tokens=engine.max_num_batched_tokens,
        ),
        accelerator=replace(service.accelerator, gpu=plan.gpu.name if plan.gpu else None),
        parallelism=replace(service.parallelism, tensor=parallelism.tensor, pipeline=parallelism.pipeline),
        replicas=replace(
            service.replicas,
            min=parallelism.replicas,
            max=parallelism.max_replicas,
            target_ongoing_requests=deployment.serve.autoscaling.target_ongoing_requests,
        ),
        resources=Resources(
            PodResources(pods.head_cpu, pods.head_memory), PodResources(pods.worker_cpu, pods.worker_memory)
        ),
    )
