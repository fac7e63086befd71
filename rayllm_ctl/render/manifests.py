"""From a plan to manifests: the templates laid out, nothing decided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rayllm_ctl.model.kube.api_kinds import other_kinds
from rayllm_ctl.model.kube.labels import OTHER_KINDS
from rayllm_ctl.model.plan.deployment import Deployment
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.plan.storage import ModelStoragePlan
from rayllm_ctl.render.modelfiles import named_jobs, storage_objects
from rayllm_ctl.render.owntemplates import added, explained
from rayllm_ctl.render.patches import patched, with_pod_templates
from rayllm_ctl.render.templating import fill, template_text
from rayllm_ctl.render.values import values_of

Manifest = dict[str, Any]

OBJECTS = (
    "code.yaml.j2",
    "rayservice.yaml.j2",
    "raycluster.yaml.j2",
    "ingress-code.yaml.j2",
    "serving.yaml.j2",
    "service.yaml.j2",
    "ingress.yaml.j2",
    "httproute.yaml.j2",
    "networkpolicy.yaml.j2",
    "redis.yaml.j2",
    "redis-service.yaml.j2",
    "redis-networkpolicy.yaml.j2",
    "poddisruptionbudget.yaml.j2",
    "podmonitor.yaml.j2",
    "metrics-service.yaml.j2",
    "servicemonitor.yaml.j2",
)
"""The template of each object, in the order of the output. One that comes out empty is not an object."""


def render(plan: Plan, template_dir: Path | None = None) -> list[Manifest]:
    """The Kubernetes objects that serve the model as planned.

    template_dir: a folder of the user's own templates, which replace those of the same name or add objects.
    A pure function of the plan and these templates. Raises UserError if the plan does not run or a template of the
    user's fails, UsageError if the plan has no image, or a pod template or patch of the spec cannot be applied.
    """
    values = dict(vars(values_of(plan)))
    assert plan.deployment is not None  # or there would be no values
    storage = plan.deployment.storage
    if template_dir is None:
        rendered = _objects(values, storage, None)
    else:
        with explained(template_dir):
            rendered = [*_objects(values, storage, template_dir), *added(template_dir, values)]
    return _with_other_kinds(_changed(rendered, plan.deployment))


def _objects(values: dict[str, Any], storage: ModelStoragePlan | None, own: Path | None) -> list[Manifest]:
    values["serve_config"] = template_text("serve-config.yaml.j2", values, own)
    found = storage_objects(storage, values, own)
    return [*found, *(manifest for template in OBJECTS if (manifest := fill(template, values, own)) is not None)]


def _changed(manifests: list[Manifest], deployment: Deployment) -> list[Manifest]:
    """`manifests` with the changes that the spec makes to the objects themselves; most specs make none."""
    pods, patches = deployment.pod_options, deployment.patches
    if pods.head.pod_template or pods.worker.pod_template:
        manifests = with_pod_templates(manifests, pods)
    if patches:
        manifests = patched(manifests, patches)
    return manifests if deployment.storage is None else named_jobs(manifests)


def _with_other_kinds(manifests: list[Manifest]) -> list[Manifest]:
    """`manifests` of which the service names the kinds that only the user's templates have: `delete` looks for them."""
    others = other_kinds(manifests)
    if not others:
        return manifests
    value = ",".join(f"{version}/{name}" for version, name in sorted(others))
    return [
        _annotated(item, OTHER_KINDS, value) if item["kind"] in ("RayService", "RayCluster") else item
        for item in manifests
    ]


def _annotated(manifest: Manifest, key: str, value: str) -> Manifest:
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), key: value}}}
