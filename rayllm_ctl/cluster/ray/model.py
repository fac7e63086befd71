"""The model of a live service, from its RayService or RayCluster: engine settings, GPUs, versions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.cluster_spec import cluster_spec
from rayllm_ctl.model.kube.labels import MANAGED_BY, MANAGER, MODEL, VERSION
from rayllm_ctl.model.kube.llm_applications import described_models
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.serveconfig.applied import FIELD, applied_config_if_readable


@dataclass(frozen=True)
class LiveModel:
    """engine: arguments by vLLM's names. gpu_nodes: labels (key, value) that the nodes of its pods may have;
    accelerator_type: Ray's name of the GPU. vllm_version is None if rayllm-ctl did not apply the service."""

    id: str
    engine: Mapping[str, Any]
    vllm_version: str | None
    on_gpus: bool
    gpu_nodes: frozenset[tuple[str, str]]
    accelerator_type: str | None = None


def live_model(workload: Object, model: str) -> LiveModel | None:
    """The model called `model` of a RayService or RayCluster; None if the object does not describe how it is served."""
    described = _of_serve(workload, model) if FIELD in workload["spec"] else _of_server(workload, model)
    if described is None:
        return None
    engine, accelerator = described
    pods = [pod for pod in _worker_pods(workload) if has_gpus(pod)]
    return LiveModel(
        id=model,
        engine=engine,
        vllm_version=own_vllm(workload),
        on_gpus=bool(pods),
        gpu_nodes=frozenset(label for pod in pods for label in _node_labels(pod)),
        accelerator_type=accelerator,
    )


def own_vllm(workload: Object) -> str | None:
    """The version of vLLM of a service that rayllm-ctl applied; None for others."""
    labels = workload["metadata"].get("labels") or {}
    version = labels.get(VERSION) if labels.get(MANAGED_BY) == MANAGER else None
    return None if version is None else str(version)


def _of_serve(rayservice: Object, model: str) -> tuple[Mapping[str, Any], str | None] | None:
    """Engine arguments and Ray's name of the GPU, from the applications of a RayService."""
    config = applied_config_if_readable(rayservice) or {}
    for application in config.get("applications") or ():
        for entry in described_models(application):
            if entry.model_id == model:
                return entry.config.get("engine_kwargs") or {}, entry.config.get("accelerator_type")
    return None


def _of_server(ray_cluster: Object, model: str) -> tuple[Mapping[str, Any], None] | None:
    """The same from the command line of vLLM's own server."""
    if (ray_cluster["metadata"].get("annotations") or {}).get(MODEL) != model:
        return None
    servers = (pod["containers"][0].get("args") or () for pod in _worker_pods(ray_cluster))
    return dict(entry for arguments in servers for entry in _arguments([str(argument) for argument in arguments])), None


def _arguments(arguments: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Parse the arguments that planner writes to the command line of vLLM's server, without lists."""
    for argument, following in pairwise((*arguments, "--")):
        if not argument.startswith("--"):
            continue
        name, separator, value = argument.removeprefix("--").replace("$$", "$").partition("=")
        if separator:
            yield name.replace("-", "_"), _decoded(value)
        elif following.startswith("--"):
            yield name.removeprefix("no-").replace("-", "_"), not name.startswith("no-")


def _decoded(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _worker_pods(workload: Object) -> Iterator[Mapping[str, Any]]:
    spec = cluster_spec(workload)
    for group in spec.get("workerGroupSpecs") or ():
        yield group["template"]["spec"]


def has_gpus(pod: Mapping[str, Any]) -> bool:
    """Whether the first container of a pod's spec requests GPUs."""
    limits = (pod["containers"][0].get("resources") or {}).get("limits") or {}
    return any(name.endswith("/gpu") for name in limits)


def _node_labels(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    affinity = ((pod.get("affinity") or {}).get("nodeAffinity")) or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for expression in term.get("matchExpressions") or ():
            yield from ((str(expression.get("key")), str(value)) for value in expression.get("values") or ())
    yield from (pod.get("nodeSelector") or {}).items()
