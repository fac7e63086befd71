"""The objects of a download without a service: the claim, if it is created, settings and code, and the Job."""

from __future__ import annotations

from rayllm_ctl.model.kube.labels import service_labels
from rayllm_ctl.model.kube.model_downloads import DOWNLOAD_COMPONENT
from rayllm_ctl.model.plan.deployment import Runtime
from rayllm_ctl.model.plan.storage import ModelStoragePlan
from rayllm_ctl.render.manifests import Manifest
from rayllm_ctl.render.modelfiles import named_jobs, storage_objects
from rayllm_ctl.render.values import Software


def render_fetch(name: str, namespace: str | None, runtime: Runtime, storage: ModelStoragePlan) -> list[Manifest]:
    """The objects, in the order in which they are needed. runtime: with an image."""
    assert runtime.image is not None
    values = {
        "name": name,
        "namespace": namespace,
        "labels": service_labels(name, runtime.vllm_version, DOWNLOAD_COMPONENT),
        "runtime": Software(runtime.image, runtime.ray_version),
    }
    return named_jobs(storage_objects(storage, values))
