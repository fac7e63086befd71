"""What the templates lay out: one tree of plain data.

A field has an effect: what no template reads does not belong here. Descriptions are in docs/how-to/templates.md; a
field without one says enough by its name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.labels import service_labels
from rayllm_ctl.model.plan.deployment import (
    Autoscaler,
    CodeVolume,
    IngressApplication,
    OtherApplication,
    ServeApplication,
    WorkerGroup,
)
from rayllm_ctl.model.plan.pods import PodTemplate
from rayllm_ctl.model.plan.surroundings import Backend, Entrance, NetworkRules, RedisServer, Scraping
from rayllm_ctl.model.spec.operations import PodDisruptionBudget
from rayllm_ctl.model.spec.ray_options import RayOptions, Upgrade
from rayllm_ctl.model.spec.serve_options import ServeProxies
from rayllm_ctl.model.spec.service import Mode, Volume
from rayllm_ctl.render.servingcode import ingress_code, models_code

if TYPE_CHECKING:
    from rayllm_ctl.model.plan.plan import Plan

T = TypeVar("T")


@dataclass(frozen=True)
class Software:
    """The software in the pods of head and workers."""

    image: Annotated[str, "Container image with Ray and vLLM."]
    ray_version: Annotated[str, "Ray version in the image."]


@dataclass(frozen=True)
class Parallelism:
    """How one replica is spread over GPUs."""

    tensor: Annotated[int, "Tensor parallel size."]
    pipeline: Annotated[int, "Pipeline parallel size."]


@dataclass(frozen=True)
class Engine:
    """Settings of vLLM. Those that are null are left to it."""

    max_model_len: Annotated[int, "Context length of a request, in tokens."]
    max_num_seqs: Annotated[int, "Maximum number of requests that a replica runs at once."]
    max_num_batched_tokens: Annotated[int, "Maximum number of tokens per engine step."]
    dtype: Annotated[str, "Data type of weights and activations."]
    gpu_memory_utilization: Annotated[float | None, "Fraction of GPU memory that vLLM may use."]
    quantization: Annotated[str | None, "Quantization method."]
    kv_cache_dtype: Annotated[str | None, "Data type of the KV cache."]
    args: Annotated[Mapping[str, Any], "Further engine arguments by their vLLM name."]


@dataclass(frozen=True)
class Transformers:
    """Settings of the Transformers engine."""

    dtype: Annotated[str, "Data type of weights and activations."]
    max_model_len: Annotated[int, "Context length of a request, in tokens."]
    max_num_seqs: Annotated[int, "Maximum number of requests that a replica generates at once."]
    gpus: Annotated[int, "GPUs of a replica's pod over which the layers are spread; 0 on CPUs."]
    cpus: Annotated[int, "Ray's logical CPUs of a replica."]
    max_memory: Annotated[Mapping[str, str], "Most memory for weights by device, as accelerate takes it; empty: free."]
    quantization: Annotated[str | None, "bitsandbytes-8bit or bitsandbytes-4bit; null for none."]
    trust_remote_code: Annotated[bool, "Run Python code of the model's repository."]


@dataclass(frozen=True)
class ServedModel:
    """A model that has a Serve application of its own, behind the ingress of the service."""

    name: Annotated[str, "Name of the model's application, after that of the service."]
    serve: ServeApplication
    parallelism: Parallelism
    engine: Annotated[Engine | None, "Settings of vLLM; null with the Transformers engine."]
    transformers: Annotated[Transformers | None, "Settings of the Transformers engine; null with vLLM."]


@dataclass(frozen=True)
class Pods:
    """CPU request of the head, and its memory request and limit, as Kubernetes quantities."""

    head_cpu: Annotated[str, "CPU request of the head."]
    head_memory: Annotated[str, "Memory request and limit of the head."]


@dataclass(frozen=True)
class Values:
    """All values of the templates."""

    name: Annotated[str, "Name of the service and of its objects."]
    namespace: Annotated[str | None, "Namespace in the manifests; null: none is written."]
    labels: Annotated[Mapping[str, str], "Labels of every object."]
    runtime: Software
    mode: Annotated[Mode, "Ray Serve LLM on a RayService, or vLLM's own server on a RayCluster."]
    model_id: Annotated[str, "Name of the model in the API."]
    serve: Annotated[ServeApplication | None, "The Ray Serve LLM application with the model and its ingress."]
    ingress: Annotated[IngressApplication | None, "The ingress, where every model has an application of its own."]
    gateway: Annotated[Mapping[str, Any] | None, "Settings of the gateway in the ingress; null: there is none."]
    models: Annotated[tuple[ServedModel, ...], "The models behind the ingress; empty without one."]
    applications: Annotated[tuple[OtherApplication, ...], "Serve applications of the user's own, next to the models."]
    parallelism: Parallelism | None
    engine: Engine | None
    pods: Pods
    autoscaler: Annotated[Autoscaler | None, "Ray's autoscaler, in mode rayservice."]
    ray: RayOptions
    upgrade: Upgrade
    head: PodTemplate
    worker_groups: tuple[WorkerGroup, ...]
    head_serves: Annotated[bool, "Whether the head is among the addresses of the service."]
    proxies: ServeProxies
    serve_options: Annotated[Mapping[str, Any], "Other settings of the Serve configuration."]
    storage: tuple[Volume, ...]
    serving: Annotated[CodeVolume | None, "ConfigMap with the code of models and proxies; null: none is needed."]
    ingress_code: Annotated[CodeVolume | None, "ConfigMap with the code of ingress and gateway; null: none is needed."]
    redis: Annotated[RedisServer | None, "A Redis in which the gateway counts limits; null for none."]
    code: Annotated[CodeVolume | None, "ConfigMap with Python files, mounted on the Python path."]
    exposure: Entrance
    backend: Backend
    network: Annotated[NetworkRules | None, "Permitted connections to the pods; null: all."]
    pod_disruption_budget: Annotated[PodDisruptionBudget | None, "Limits evictions of workers; null for none."]
    pod_monitor: Annotated[Scraping | None, "A PodMonitor of the Prometheus operator; null for none."]
    service_monitor: Annotated[Scraping | None, "A ServiceMonitor of the Prometheus operator; null for none."]


def values_of(plan: Plan) -> Values:
    """The values of a plan. Raises UserError if the plan does not run, UsageError if it has no image."""
    deployment = plan.deployment
    if deployment is None:
        why = "; ".join(reason.message for reason in plan.reasons) or "the planner gave no reason"
        raise UserError(f"{plan.model} cannot be rendered: its plan is {plan.verdict}: {why}", hint="rayllm-ctl plan")
    runtime = deployment.runtime
    if runtime.image is None:
        raise UsageError(runtime.image_note, hint="--image REGISTRY/IMAGE:TAG, or spec.engine.image")
    each = plan.each
    alone = None if deployment.ingress is not None else plan
    first = next(iter(each.values()))
    on_vllm = any(one.engine is not None for one in each.values())
    by_transformers = any(one.transformers is not None for one in each.values())
    return Values(
        name=deployment.name,
        namespace=deployment.namespace,
        labels=service_labels(deployment.name, runtime.vllm_version if on_vllm else runtime.ray_version),
        runtime=_part(Software, runtime),
        mode=deployment.mode,
        model_id=deployment.model_id,
        serve=deployment.serve if alone else None,
        ingress=deployment.ingress,
        gateway=deployment.gateway,
        models=() if alone else tuple(_served(name, one) for name, one in each.items()),
        applications=deployment.applications or (),
        parallelism=_part(Parallelism, alone.parallelism) if alone else None,
        engine=_part(Engine, alone.engine) if alone else None,
        pods=_part(Pods, first.pods),
        autoscaler=deployment.autoscaler,
        ray=deployment.ray,
        upgrade=deployment.upgrade,
        head=deployment.head,
        worker_groups=deployment.worker_groups,
        head_serves=deployment.head_serves,
        serving=models_code(deployment.name, transformers=by_transformers) if deployment.serving_code else None,
        ingress_code=ingress_code(deployment.name) if deployment.serving_code else None,
        redis=deployment.redis,
        code=deployment.code,
        proxies=deployment.proxies,
        serve_options=deployment.serve_options,
        storage=deployment.volumes,
        exposure=deployment.exposure,
        backend=deployment.backend,
        network=deployment.network,
        pod_disruption_budget=deployment.pod_disruption_budget,
        pod_monitor=deployment.pod_monitor,
        service_monitor=deployment.service_monitor,
    )


def _served(name: str, plan: Plan) -> ServedModel:
    assert plan.deployment is not None
    assert plan.deployment.serve is not None  # or it would have no ingress in front of it
    return ServedModel(
        name,
        plan.deployment.serve,
        _part(Parallelism, plan.parallelism),
        None if plan.engine is None else _part(Engine, plan.engine),
        None if plan.transformers is None else _part(Transformers, plan.transformers),
    )


def _part(kind: type[T], whole: Any) -> T:
    """The fields of `kind`, taken from a larger section of the plan."""
    return kind(**{field.name: getattr(whole, field.name) for field in dataclasses.fields(kind)})  # type: ignore[arg-type]
