"""From a Serve configuration of the user's own to manifests: the same templates as for a model."""

from __future__ import annotations

from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.labels import service_labels
from rayllm_ctl.model.plan.applications import Applications
from rayllm_ctl.render.templating import fill


def render_applications(applications: Applications) -> list[dict[str, Any]]:
    """The ConfigMap with the code and the PodDisruptionBudget, where there are such, and the RayService.

    UsageError if there is no image.
    """
    runtime = applications.runtime
    if runtime.image is None:
        raise UsageError(runtime.image_note, hint="--image REGISTRY/IMAGE:TAG")
    values = {
        "name": applications.name,
        "namespace": applications.namespace,
        "labels": service_labels(applications.name, applications.version),
        "runtime": runtime,
        "mode": "rayservice",
        "model_id": applications.model_id,
        "serve_config": applications.serve_config,
        "pods": {"head_cpu": applications.head_cpu, "head_memory": applications.head_memory},
        "autoscaler": applications.autoscaler,
        "ray": applications.ray,
        "upgrade": applications.upgrade,
        "head": applications.head,
        "worker_groups": applications.worker_groups,
        "head_serves": applications.head_serves,
        "proxies": applications.proxies,
        "storage": applications.volumes,
        "exposure": applications.exposure,
        "code": applications.code,
        "serving": None,
        "ingress_code": None,
        "pod_disruption_budget": applications.pod_disruption_budget,
    }
    code = [fill("code.yaml.j2", values)] if applications.code is not None else []
    limits = [fill("poddisruptionbudget.yaml.j2", values)] if applications.pod_disruption_budget is not None else []
    return [*code, fill("rayservice.yaml.j2", values), *limits]
