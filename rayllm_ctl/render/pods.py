"""What the pods are: the values of rayservice.yaml.j2 for head and workers.

Read against KubeRay 1.6.2 (ray-operator/controllers/ray/common/pod.go). Whatever stands in rayClusterConfig counts for
the hash by which KubeRay decides whether a change needs a second cluster (only replica bounds do not), so nothing here
may depend on what changes often.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.plan import GPUChoice, ParallelismPlan, PodSizes, StartupPlan
from rayllm_ctl.model.service import LLMService, Toleration, Volume
from rayllm_ctl.render.sizing import replica_bounds, worker_bounds, worker_cpus

ENGINE_START_SECONDS = 3600
"""Ray Serve LLM's limit for the start of an engine, unless the variable below says otherwise."""

_START_LIMIT = "RAYLLM_ENGINE_START_TIMEOUT_S"

IDLE_TIMEOUT_SECONDS = 60
"""How long a worker without a replica is kept; Ray's default, written so that it does not change with Ray's version."""

AUTOSCALER_RESOURCES: Mapping[str, Any] = {
    # KubeRay's default limits it to half a core, with which autoscaler v2 stalls (kuberay#3794); without a CPU limit
    # a small request will do.
    "requests": {"cpu": "100m", "memory": "512Mi"},
    "limits": {"memory": "1Gi"},
}

READINESS_PROBE: Mapping[str, Any] = {
    # KubeRay would run `wget` in the container, which not every image has (kuberay#2063); it asks the Serve proxy for
    # the same answer. A worker without a Serve replica has no proxy and stays NotReady: that is by design.
    "httpGet": {"path": "/-/healthz", "port": 8000},
    "initialDelaySeconds": 10,
    "periodSeconds": 5,
    "timeoutSeconds": 5,
    "failureThreshold": 2,
}


def pod_values(
    service: LLMService,
    parallelism: ParallelismPlan,
    pods: PodSizes,
    gpu: GPUChoice | None,
    startup: StartupPlan | None,
) -> dict[str, Any]:
    """The values of rayservice.yaml.j2 that describe pods. `gpu` is None for a service on CPUs."""
    resources = service.resources
    worker_cpu = resources.worker.cpu or pods.worker_cpu
    workers = worker_bounds(replica_bounds(service, parallelism), pods)
    gpus = {gpu.resource: str(pods.gpus_per_worker)} if gpu is not None else {}
    params = {"num-cpus": str(worker_cpus(service, parallelism, pods, worker_cpu))}
    if gpu is not None and gpu.ray_accelerator_type:
        # Ray finds the type on a running GPU node by itself. The autoscaler decides about workers that do not exist yet
        # and knows of them only what stands here: without it a scale-up is "infeasible".
        params["resources"] = "'" + json.dumps({f"accelerator_type:{gpu.ray_accelerator_type}": 1}) + "'"
    tolerations = [_toleration(toleration) for toleration in service.scheduling.tolerations]
    return {
        # Always there, even for a fixed number: to switch it on later would start a second Ray cluster beside this one,
        # with as many GPUs again, where changed bounds reach the one that runs.
        "autoscaler": {"idle_timeout": IDLE_TIMEOUT_SECONDS, "resources": AUTOSCALER_RESOURCES},
        "env": _environment(service, startup),
        "volumes": [_volume(volume) for volume in service.storage.volumes],
        "volume_mounts": [_mount(volume) for volume in service.storage.volumes],
        "head": {
            # No replica on the head: it would compete with the GCS, and a GPU there breaks pipeline parallelism.
            "ray_start_params": {"num-cpus": "0", "num-gpus": "0"},
            "resources": _requests(resources.head.cpu or pods.head_cpu, resources.head.memory or pods.head_memory, {}),
            # The head needs no GPU: a selector for GPU nodes is not for it.
            "node_selector": {} if gpu is not None else dict(service.scheduling.node_selector),
            "tolerations": tolerations,
        },
        "worker": {
            "group": service.accelerator.kind,
            "min": workers[0],
            "max": workers[1],
            "ray_start_params": params,
            "resources": _requests(worker_cpu, resources.worker.memory or pods.worker_memory, gpus),
            "readiness_probe": READINESS_PROBE,
            "node_selector": dict(service.scheduling.node_selector),
            "affinity": _gpu_affinity(gpu) if gpu is not None and not service.scheduling.node_selector else {},
            "tolerations": tolerations + (_gpu_tolerations(gpu) if gpu is not None else []),
        },
    }


def _requests(cpu: str, memory: str, extended: Mapping[str, str]) -> dict[str, Any]:
    # No CPU limit: the kernel would stop the engine's threads in the middle of a step while cores are idle.
    return {"requests": {"cpu": cpu, "memory": memory, **extended}, "limits": {"memory": memory, **extended}}


def _environment(service: LLMService, startup: StartupPlan | None) -> list[dict[str, Any]]:
    variables: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in service.engine.env.items()]
    if startup is not None and startup.wait_seconds > ENGINE_START_SECONDS and _START_LIMIT not in service.engine.env:
        # Only ever raised: a shorter limit would turn a slow download into a restart from the beginning. Whole hours,
        # so that a slightly different estimate does not ask for a second cluster.
        hours = math.ceil(startup.wait_seconds / ENGINE_START_SECONDS)
        variables.append({"name": _START_LIMIT, "value": str(hours * ENGINE_START_SECONDS)})
    token = service.model.token_secret
    if token is not None:
        # On the head as well: it reads the model's configuration when it builds the application.
        reference = {"name": token.name, "key": token.key}
        variables.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}})
    return sorted(variables, key=lambda variable: str(variable["name"]))


def _volume(volume: Volume) -> dict[str, Any]:
    source: dict[str, Any]
    if volume.persistent_volume_claim is not None:
        claim = {"claimName": volume.persistent_volume_claim}
        source = {"persistentVolumeClaim": {**claim, "readOnly": True} if volume.read_only else claim}
    elif volume.host_path is not None:
        # Without a type a missing folder would be mounted as an empty one, and fail much later and less clearly.
        source = {"hostPath": {"path": volume.host_path, "type": "Directory"}}
    elif volume.config_map is not None:
        source = {"configMap": {"name": volume.config_map}}
    else:
        source = {"secret": {"secretName": volume.secret}}
    return {"name": volume.name, **source}


def _mount(volume: Volume) -> dict[str, Any]:
    # Not `readOnly: false`: KubeRay writes the object back from Go types, which leave that out.
    mount: dict[str, Any] = {"name": volume.name, "mountPath": volume.mount_path}
    return {**mount, "readOnly": True} if volume.read_only else mount


def _toleration(toleration: Toleration) -> dict[str, Any]:
    entry: dict[str, Any] = {"key": toleration.key, "operator": "Exists" if toleration.value is None else "Equal"}
    if toleration.value is not None:
        entry["value"] = toleration.value
    if toleration.effect is not None:
        entry["effect"] = toleration.effect
    return entry


def _gpu_tolerations(gpu: GPUChoice) -> list[dict[str, Any]]:
    """GPU nodes are tainted with the resource's name (GKE, EKS, the GPU operator) or with sku=gpu (AKS)."""
    return [
        {"key": gpu.resource, "operator": "Exists"},
        {"key": "sku", "operator": "Equal", "value": "gpu"},
    ]


def _gpu_affinity(gpu: GPUChoice) -> dict[str, Any]:
    """Nodes that any one of the GPU's labels marks: the terms of a node selector are alternatives."""
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
        for key, values in sorted(gpu.node_labels.items())
    ]
    if not terms:
        return {}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
