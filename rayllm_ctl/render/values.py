"""What the templates lay out: one tree of plain data, which as a file is the values of the Helm chart.

A field has an effect: what no template reads does not belong here. Descriptions are those of the chart's README and of
its schema; a field without one says enough by its name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.applications import CodeVolume
from rayllm_ctl.model.deployment import (
    Autoscaler,
    Backend,
    Entrance,
    NetworkRules,
    PodTemplate,
    Scraping,
    ServeApplication,
    WorkerGroup,
)
from rayllm_ctl.model.labels import service_labels
from rayllm_ctl.model.operations import PodDisruptionBudget
from rayllm_ctl.model.rayoptions import RayOptions, Upgrade
from rayllm_ctl.model.serveoptions import ServeProxies
from rayllm_ctl.model.service import Volume

if TYPE_CHECKING:
    from rayllm_ctl.model.plan import Plan

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
class Pods:
    """CPU request of the head, and its memory request and limit, as Kubernetes quantities."""

    head_cpu: str
    head_memory: str


@dataclass(frozen=True)
class Values:
    """All that the templates read."""

    name: Annotated[str, "Name of the service and of its objects."]
    namespace: Annotated[str | None, "Namespace in the manifests; with null, Helm's."]
    labels: Annotated[Mapping[str, str], "Labels of every object."]
    runtime: Software
    serve: ServeApplication
    parallelism: Parallelism
    engine: Engine
    pods: Pods
    autoscaler: Autoscaler
    ray: RayOptions
    upgrade: Upgrade
    head: PodTemplate
    worker_groups: tuple[WorkerGroup, ...]
    proxies: ServeProxies
    serve_options: Annotated[Mapping[str, Any], "What the Serve configuration says beside its applications."]
    storage: tuple[Volume, ...]
    code: Annotated[CodeVolume | None, "ConfigMap with Python files, mounted on the Python path."]
    exposure: Entrance
    backend: Backend
    network: Annotated[NetworkRules | None, "Limits who may connect to the pods; null: nobody is limited."]
    pod_disruption_budget: Annotated[PodDisruptionBudget | None, "Limits evictions of workers; null for none."]
    pod_monitor: Annotated[Scraping | None, "A PodMonitor of the Prometheus operator; null for none."]
    service_monitor: Annotated[Scraping | None, "A ServiceMonitor of the Prometheus operator; null for none."]


def values_of(plan: Plan) -> Values:
    """The values of a plan. Raises UserError where the plan does not run, UsageError where it has no image."""
    deployment = plan.deployment
    if deployment is None:
        why = "; ".join(reason.message for reason in plan.reasons) or "the planner gave no reason"
        raise UserError(f"{plan.model} cannot be rendered: its plan is {plan.verdict}: {why}", hint="rayllm-ctl plan")
    runtime = deployment.runtime
    if runtime.image is None:
        raise UsageError(runtime.image_note, hint="--image REGISTRY/IMAGE:TAG, or spec.engine.image")
    return Values(
        name=deployment.name,
        namespace=deployment.namespace,
        labels=service_labels(deployment.name, runtime.vllm_version),
        runtime=_part(Software, runtime),
        serve=deployment.serve,
        parallelism=_part(Parallelism, plan.parallelism),
        engine=_part(Engine, plan.engine),
        pods=_part(Pods, plan.pods),
        autoscaler=deployment.autoscaler,
        ray=deployment.ray,
        upgrade=deployment.upgrade,
        head=deployment.head,
        worker_groups=(deployment.worker,),
        code=None,
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


def _part(kind: type[T], whole: Any) -> T:
    """The fields of `kind`, taken from a larger section of the plan."""
    return kind(**{field.name: getattr(whole, field.name) for field in dataclasses.fields(kind)})  # type: ignore[arg-type]
