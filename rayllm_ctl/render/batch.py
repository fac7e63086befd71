"""From the plan of a batch job to its manifests: a RayJob, and ConfigMaps with the driver's code and settings."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.labels import batch_labels
from rayllm_ctl.model.plan.batch import BatchDeployment
from rayllm_ctl.model.plan.deployment import CodeVolume
from rayllm_ctl.model.spec.batch import SETTINGS_PATH, SETTINGS_VOLUME
from rayllm_ctl.model.spec.service import Volume
from rayllm_ctl.render.manifests import Manifest
from rayllm_ctl.render.modelfiles import named_jobs, storage_objects
from rayllm_ctl.render.patches import patched, with_pod_templates
from rayllm_ctl.render.servingcode import batch_code
from rayllm_ctl.render.templating import fill
from rayllm_ctl.render.values import Pods, Software

MAX_CONFIG_MAP_BYTES = 1024 * 1024
"""What etcd, and with it the API server, accepts of one ConfigMap."""


@dataclass(frozen=True)
class _Job:
    """What of the RayJob differs between jobs. code and settings: what the submitter mounts on an existing cluster."""

    cluster: str | None
    retries: int
    deadline: int | None
    keep_after: int
    suspend: bool
    code: CodeVolume
    settings: CodeVolume


def render_batch(deployment: BatchDeployment) -> list[Manifest]:
    """The objects of a batch job. A pure function of the deployment and the driver's code.

    Raises UsageError if there is no image, the settings are too large for a ConfigMap, or a pod template or patch of
    the spec cannot be applied.
    """
    runtime = deployment.runtime
    if runtime.image is None:
        raise UsageError(runtime.image_note, hint="--image REGISTRY/IMAGE:TAG, or spec.engine.image")
    code, settings = batch_code(deployment.name), _settings(deployment)
    needs_code = deployment.mounted_code or deployment.cluster is not None
    values: dict[str, Any] = {
        "name": deployment.name,
        "namespace": deployment.namespace,
        "labels": batch_labels(deployment.name, runtime.vllm_version),
        "runtime": Software(runtime.image, runtime.ray_version),
        "mode": "rayjob",
        "model_id": deployment.model_id,
        "pods": Pods(deployment.head_cpu, deployment.head_memory),
        "autoscaler": deployment.autoscaler,
        "ray": deployment.ray,
        "head": deployment.head,
        "submitter": deployment.head,
        "worker_groups": (deployment.worker,),
        "storage": (*deployment.volumes, Volume(SETTINGS_VOLUME, SETTINGS_PATH, config_map=settings.config_map)),
        "code": None,
        "serving": code if needs_code else None,
        "ingress_code": None,
        "job": _Job(
            deployment.cluster,
            deployment.retries,
            deployment.deadline,
            deployment.keep_after,
            deployment.suspend,
            code,
            settings,
        ),
    }
    code_map = [fill("serving.yaml.j2", values)] if needs_code else []
    storage = storage_objects(deployment.storage, values)
    return [
        *code_map,
        fill("code.yaml.j2", {**values, "code": settings}),
        *_changed([*storage, fill("batch/rayjob.yaml.j2", values)], deployment),
    ]


def _settings(deployment: BatchDeployment) -> CodeVolume:
    text = json.dumps(deployment.settings, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    size = len(text.encode())
    if size > MAX_CONFIG_MAP_BYTES - 16 * 1024:  # the rest of the object
        raise UsageError(
            f"the settings of the job take {size // 1024:,} KiB, more than a ConfigMap can hold",
            hint="put the prompts into a file: --input s3://bucket/prompts.txt",
        )
    digest = hashlib.sha256(text.encode()).hexdigest()
    return CodeVolume(f"{deployment.name}-settings-{digest[:8]}", SETTINGS_PATH, {"settings.json": text}, {})


def _changed(manifests: list[Manifest], deployment: BatchDeployment) -> list[Manifest]:
    """`manifests` with the changes that the spec makes to the objects themselves; most specs make none."""
    pods, patches = deployment.pod_options, deployment.patches
    if pods.head.pod_template or pods.worker.pod_template or patches:
        manifests = patched(with_pod_templates(manifests, pods), patches)
    return named_jobs(manifests)
