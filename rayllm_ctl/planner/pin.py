"""A service with what its plan decided written into it: it is planned the same by every later release."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace

from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.batch import BatchJob, BatchResources
from rayllm_ctl.model.spec.batch_service import service_of
from rayllm_ctl.model.spec.service import Engine, LLMService, ModelEngine, PodResources, WorkerResources
from rayllm_ctl.model.spec.several_models import each_model, short_name
from rayllm_ctl.model.spec.transformers import TransformersOptions


def pinned(service: LLMService, plan: Plan) -> LLMService:
    """`service` with the values of `plan` in every field that the user left to the planner.

    ValueError if the plan does not run.
    """
    deployment = plan.deployment
    if deployment is None:
        raise ValueError(f"the plan is {plan.verdict}")
    service = _pinned(service, plan) if plan.models is None else _each_pinned(service, plan.models)
    runtime, resources = deployment.runtime, service.resources
    on_vllm = any(one.engine is not None for one in plan.each.values())
    if deployment.ingress is not None:
        workers = deployment.worker_groups[0]
        resources = replace(resources, ingress=PodResources(workers.pod_cpu, workers.pod_memory))
    return replace(
        service,
        engine=replace(
            service.engine,
            image=service.engine.image or runtime.image,
            vllm_version=service.engine.vllm_version or (runtime.vllm_version if on_vllm else None),
            ray_version=service.engine.ray_version or runtime.ray_version,
        ),
        resources=resources,
    )


def pinned_batch(batch: BatchJob, plan: Plan) -> BatchJob:
    """`batch` with the values of `plan` in every field that the user left to the planner, as `pinned`."""
    service = pinned(service_of(batch), plan)
    pods = BatchResources(service.resources.head, service.resources.worker)
    return replace(
        batch,
        engine=replace(service.engine, serving_code=batch.engine.serving_code, args=batch.engine.args),
        accelerator=service.accelerator,
        parallelism=service.parallelism,
        resources=pods if batch.cluster is None else batch.resources,
    )


def _each_pinned(service: LLMService, plans: Mapping[str, Plan]) -> LLMService:
    alone = each_model(service)
    models = []
    for entry in service.models:
        name = short_name(entry)
        one = _pinned(alone[name], plans[name])
        planned = {field.name: getattr(one.engine, field.name) for field in dataclasses.fields(ModelEngine)}
        models.append(
            replace(
                entry,
                engine=ModelEngine(**{**planned, "args": entry.engine.args}),
                accelerator=one.accelerator,
                parallelism=one.parallelism,
                replicas=one.replicas,
                resources=WorkerResources(one.resources.worker),
            )
        )
    return replace(service, models=tuple(models), resources=replace(service.resources, head=one.resources.head))


def _pinned(service: LLMService, plan: Plan) -> LLMService:
    parallelism, pods, deployment = plan.parallelism, plan.pods, plan.deployment
    if parallelism is None or pods is None or deployment is None:
        raise ValueError(f"the plan is {plan.verdict}")
    serve = deployment.serve
    layout = service.parallelism
    if plan.transformers is None:
        layout = replace(layout, tensor=parallelism.tensor, pipeline=parallelism.pipeline)
    return replace(
        service,
        engine=_engine(service.engine, plan),
        accelerator=replace(service.accelerator, gpu=plan.gpu.name if plan.gpu else None),
        parallelism=layout,
        replicas=replace(
            service.replicas,
            min=parallelism.replicas,
            max=parallelism.max_replicas,
            target_ongoing_requests=serve.autoscaling.target_ongoing_requests if serve else None,
        ),
        resources=replace(
            service.resources,
            head=PodResources(pods.head_cpu, pods.head_memory),
            worker=PodResources(pods.worker_cpu, pods.worker_memory),
        ),
    )


def _engine(wanted: Engine, plan: Plan) -> Engine:
    """The settings of the engine as they were planned."""
    if plan.transformers is not None:
        found = plan.transformers
        options = wanted.transformers or TransformersOptions()
        return replace(
            wanted,
            max_model_len=found.max_model_len,
            dtype=found.dtype,
            max_num_seqs=found.max_num_seqs,
            transformers=replace(options, gpus=found.gpus or None),
        )
    engine = plan.engine
    if engine is None:
        raise ValueError(f"the plan is {plan.verdict}")
    return replace(
        wanted,
        max_model_len=engine.max_model_len,
        dtype=engine.dtype,
        quantization=engine.quantization,
        kv_cache_dtype=engine.kv_cache_dtype,
        gpu_memory_utilization=engine.gpu_memory_utilization,
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
    )
