"""A service with its model in a claim, as rendered."""

from __future__ import annotations

from typing import Any

from rayllm_ctl.model.kube.labels import COMPONENT
from rayllm_ctl.model.kube.model_downloads import (
    CACHE_VOLUME,
    CACHES_PATH,
    DOWNLOAD_COMPONENT,
    DOWNLOAD_CONTAINER,
    KEEP,
    MODEL_VOLUME,
)

GIB = 2**30


def pod(claim: str | None, path: str = "/models", *, read_only: bool = True, **spec: Any) -> dict[str, Any]:
    """A pod template; claim: None: it mounts none."""
    name = CACHE_VOLUME if path == CACHES_PATH else MODEL_VOLUME
    container: dict[str, Any] = {"name": "ray-worker", "image": "example.com/ray:1"}
    if claim is None:
        return {"spec": {"containers": [container], **spec}}
    container["volumeMounts"] = [{"name": name, "mountPath": path, "readOnly": read_only}]
    volume = {"name": name, "persistentVolumeClaim": {"claimName": claim}}
    return {"spec": {"containers": [container], "volumes": [volume], **spec}}


def service(template: dict[str, Any], most: int = 2, head: dict[str, Any] | None = None) -> dict[str, Any]:
    """A RayService with one group of workers."""
    group = {"groupName": "gpu", "minReplicas": 1, "maxReplicas": most, "numOfHosts": 1, "template": template}
    cluster = {"headGroupSpec": {"template": head or pod(None)}, "workerGroupSpecs": [group]}
    spec = {"serveConfigV2": "applications: []", "rayClusterConfig": cluster}
    return {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": "tiny"}, "spec": spec}


def job(claim: str = "models", **env: dict[str, str]) -> dict[str, Any]:
    """The Job that fills a claim. env: Secret and key of a variable."""
    template = pod(claim, read_only=False)
    container = template["spec"]["containers"][0]
    container["name"] = DOWNLOAD_CONTAINER
    container["env"] = [{"name": name, "valueFrom": {"secretKeyRef": key}} for name, key in env.items()]
    return {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "tiny-model-1234abcd", "labels": {COMPONENT: DOWNLOAD_COMPONENT}},
        "spec": {"template": template},
    }  # fmt: skip


def new_claim(
    size: str = "100Gi",
    modes: tuple[str, ...] = ("ReadWriteMany",),
    class_name: str | None = None,
    name: str = "models",
) -> dict[str, Any]:
    """A claim that is created with the service."""
    spec: dict[str, Any] = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}}
    if class_name is not None:
        spec["storageClassName"] = class_name
    metadata = {"name": name, "annotations": {KEEP: "true"}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def live_claim(
    phase: str = "Bound", size: str = "100Gi", modes: tuple[str, ...] = ("ReadWriteMany",), class_name: str = "shared",
    volume: str = "pv-1", **metadata: Any,
) -> dict[str, Any]:  # fmt: skip
    """A claim as the API server has it."""
    spec: dict[str, Any] = {
        "accessModes": list(modes), "resources": {"requests": {"storage": size}}, "storageClassName": class_name,
    }  # fmt: skip
    status: dict[str, Any] = {"phase": phase}
    if phase == "Bound":
        spec["volumeName"], status["capacity"] = volume, {"storage": size}
    return {
        "kind": "PersistentVolumeClaim", "metadata": {"name": "models", "namespace": "llm", **metadata}, "spec": spec,
        "status": status,
    }  # fmt: skip


def storage_class(
    name: str, provisioner: str, *, default: bool = False, binding: str = "Immediate", zones: tuple[str, ...] = (),
    expands: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """A StorageClass."""
    notes = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    key = "topology.kubernetes.io/zone"
    allowed = [{"matchLabelExpressions": [{"key": key, "values": list(zones)}]}] if zones else []
    return {
        "kind": "StorageClass", "metadata": {"name": name, "annotations": notes}, "provisioner": provisioner,
        "volumeBindingMode": binding, "allowedTopologies": allowed, "allowVolumeExpansion": expands,
    }  # fmt: skip


def volume(
    name: str = "pv-1", class_name: str = "", modes: tuple[str, ...] = ("ReadWriteMany",), size: str = "200Gi",
    phase: str = "Available", zone: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A PersistentVolume."""
    spec: dict[str, Any] = {
        "accessModes": list(modes), "capacity": {"storage": size}, "storageClassName": class_name,
    }  # fmt: skip
    if zone is not None:
        term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}


def node(name: str, zone: str, *, gpu: bool = False) -> dict[str, Any]:
    """A ready node."""
    labels = {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name}
    labels |= {"nvidia.com/gpu.product": "L4"} if gpu else {}
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110", **({"nvidia.com/gpu": "1"} if gpu else {})}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {},
        "status": {"allocatable": allocatable, "conditions": ready},
    }  # fmt: skip


GPU_NODES: dict[str, Any] = {"nodeSelector": {"nvidia.com/gpu.product": "L4"}}
