"""The service that has the model, hardware and pods of a batch job: what is planned, and checked, of both alike."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.security import Security
from rayllm_ctl.model.spec.service import LLMService, Load, Model, Replicas, Resources, Storage


def service_of(batch: BatchJob) -> LLMService:
    """The service: its replicas are the job's engines. What both have stands at the same paths of the spec."""
    model, load = batch.model, batch.load
    low, high = max(1, batch.concurrency.min), max(1, batch.concurrency.max)
    return LLMService(
        name=batch.name,
        namespace=batch.namespace,
        model=Model(model.id, model.revision, model.path, model.token_secret),
        # Where the driver's code is found is none of the engine's business.
        engine=replace(batch.engine, serving_code="mounted", args={**batch.engine.args, **_adapters(batch)}),
        accelerator=batch.accelerator,
        parallelism=batch.parallelism,
        replicas=Replicas(min=min(low, high), max=high),
        storage=Storage(batch.storage.volumes, batch.storage.model, batch.storage.caches),
        scheduling=batch.scheduling,
        resources=Resources(head=batch.resources.head, worker=batch.resources.worker),
        pods=batch.pods,
        security=Security(pod_security=batch.security.pod_security),
        load=Load(input_tokens=load.input_tokens, output_tokens=load.output_tokens or batch.sampling.max_tokens),
        ray=batch.ray,
        patches=batch.patches,
    )


def _adapters(batch: BatchJob) -> dict[str, bool]:
    return {} if batch.model.lora_path is None else {"enable_lora": True}
