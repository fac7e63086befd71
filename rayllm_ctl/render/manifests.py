"""From a plan to manifests: the templates laid out, nothing decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.model import kuberay
from rayllm_ctl.model.deployment import Deployment
from rayllm_ctl.model.labels import service_labels
from rayllm_ctl.model.plan import Plan
from rayllm_ctl.model.yamltext import dump as yaml_text
from rayllm_ctl.render.templating import fill

Manifest = dict[str, Any]

_OBJECTS: tuple[tuple[str, Callable[[Deployment], bool]], ...] = (
    ("rayservice.yaml.j2", lambda deployment: deployment.mode == "rayservice"),
    ("raycluster.yaml.j2", lambda deployment: deployment.mode == "raycluster"),
    ("service.yaml.j2", lambda deployment: deployment.mode == "raycluster"),
)
"""The template of each object, in the order of the output, and the deployments that have it."""


def render(plan: Plan) -> list[Manifest]:
    """The Kubernetes objects that serve the model as planned.

    A pure function of the plan. Raises UserError where the plan does not run, UsageError where it has no image.
    """
    deployment = plan.deployment
    if deployment is None:
        why = "; ".join(reason.message for reason in plan.reasons) or "the planner gave no reason"
        raise UserError(f"{plan.model} cannot be rendered: its plan is {plan.verdict}: {why}", hint="rayllm-ctl plan")
    runtime = deployment.runtime
    if runtime.image is None:
        raise UsageError(runtime.image_note, hint="--image REGISTRY/IMAGE:TAG, or spec.engine.image")
    values: dict[str, Any] = {
        "name": deployment.name,
        "namespace": deployment.namespace,
        "labels": service_labels(deployment.name, runtime.vllm_version),
        "runtime": runtime,
        "model_id": deployment.model_id,
        "serve": deployment.serve,
        "parallelism": plan.parallelism,
        "engine": plan.engine,
        "pods": plan.pods,
        "autoscaler": deployment.autoscaler,
        "head_placement": deployment.head_placement,
        "worker": deployment.worker,
        "worker_groups": [deployment.worker, *filter(None, (deployment.further_workers,))],
        "openai_service": kuberay.openai_service(deployment.name),
        "env": deployment.env,
        "storage": deployment.volumes,
    }
    if deployment.serve is not None:
        values["serve_config"] = yaml_text(fill("serve-config.yaml.j2", values))
    return [fill(template, values) for template, wanted in _OBJECTS if wanted(deployment)]
