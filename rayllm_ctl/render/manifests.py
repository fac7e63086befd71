"""From what is wanted and what was planned to the manifests."""

from __future__ import annotations

from typing import Any

from rayllm_ctl.errors import UserError
from rayllm_ctl.model.labels import MODEL, service_labels
from rayllm_ctl.model.plan import Band, Plan
from rayllm_ctl.model.service import LLMService
from rayllm_ctl.model.yamltext import dump as yaml_text
from rayllm_ctl.model.yamltext import dump_all
from rayllm_ctl.render.images import image, ray_version
from rayllm_ctl.render.pods import pod_values
from rayllm_ctl.render.schema import check
from rayllm_ctl.render.serve import serve_values
from rayllm_ctl.render.templating import fill

Manifest = dict[str, Any]


def render(service: LLMService, plan: Plan) -> list[Manifest]:
    """The Kubernetes objects that serve `service` as planned: today one RayService.

    A pure function of its arguments. Raises UserError where the plan does not run, UsageError where no image fits.
    """
    engine, parallelism, pods = plan.engine, plan.parallelism, plan.pods
    if not plan.runs or engine is None or parallelism is None or pods is None:
        why = "; ".join(reason.message for reason in plan.reasons) or "the planner gave no reason"
        raise UserError(f"{service.name} cannot be rendered: its plan is {plan.verdict}: {why}", hint="rayllm-ctl plan")
    gpu = plan.gpu if service.accelerator.kind == "gpu" else None
    serve_config = fill(
        "serve-config.yaml.j2",
        serve_values(service, parallelism, engine, pods, gpu.ray_accelerator_type if gpu else None, _capacity(plan)),
    )
    manifest = fill(
        "rayservice.yaml.j2",
        {
            "name": service.name,
            "namespace": service.namespace,
            "labels": service_labels(service.name, engine.vllm_version),
            # Only here: what changes in rayClusterConfig, labels of pods included, starts a second cluster.
            "annotations": {MODEL: service.model.id},
            "serve_config": yaml_text(serve_config),
            "ray_version": ray_version(service),
            "image": image(service, gpu),
            **pod_values(service, parallelism, pods, gpu, plan.startup),
        },
    )
    manifest = _without_empty(manifest)
    check(manifest)
    return [manifest]


def _capacity(plan: Plan) -> float | None:
    """Requests at the load of the plan that a replica surely holds, where the plan knows."""
    held = (plan.throughput or {}).get("concurrencyAtLoad")
    return held.low if isinstance(held, Band) else None


def dump(manifests: list[Manifest]) -> str:
    """The manifests as one canonical YAML text: equal manifests give equal bytes."""
    return dump_all(manifests)


def _without_empty(value: Any) -> Any:
    """`value` without empty lists and mappings: applying one would own a field that says nothing."""
    if isinstance(value, dict):
        pruned = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in pruned.items() if item not in ({}, [])}
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    return value
