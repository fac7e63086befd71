"""A RayService as rendered, and small changes to it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import yaml

MODEL = "LLMServer:Qwen--Qwen3-32B"


def serve_config() -> dict[str, Any]:
    scaling = {"min_replicas": 1, "max_replicas": 2, "target_ongoing_requests": 81}
    config = {
        "model_loading_config": {"model_id": "Qwen/Qwen3-32B", "model_source": "Qwen/Qwen3-32B"},
        "engine_kwargs": {"max_num_seqs": 256, "tensor_parallel_size": 4},
    }
    return {
        "applications": [
            {
                "name": "qwen",
                "route_prefix": "/",
                "import_path": "ray.serve.llm:build_openai_app",
                "args": {"llm_configs": [config]},
                "deployments": [
                    {"name": MODEL, "max_ongoing_requests": 256, "autoscaling_config": dict(scaling)},
                    {"name": "OpenAiIngress", "autoscaling_config": dict(scaling)},
                ],
            }
        ]
    }


def pod(name: str, image: str = "ray:1") -> dict[str, Any]:
    box = {
        "name": name, "image": image, "env": [{"name": "A", "value": "1"}],
        "resources": {"limits": {"memory": "8Gi"}, "requests": {"cpu": "2", "memory": "8Gi"}},
    }  # fmt: skip
    return {"metadata": {}, "spec": {"containers": [box]}}


def group(name: str = "gpu", low: int = 1, high: int = 2) -> dict[str, Any]:
    template = pod("ray-worker")
    resources = template["spec"]["containers"][0]["resources"]
    resources["limits"]["nvidia.com/gpu"] = resources["requests"]["nvidia.com/gpu"] = "4"
    return {"groupName": name, "minReplicas": low, "maxReplicas": high, "rayStartParams": {}, "template": template}


def cluster_spec() -> dict[str, Any]:
    return {
        "rayVersion": "2.60.0",
        "enableInTreeAutoscaling": True,
        "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": pod("ray-head")},
        "workerGroupSpecs": [group()],
    }


def ray_service(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": "qwen", "namespace": "llm", "labels": {"a": "b"}},
        "spec": {"serveConfigV2": yaml.safe_dump(serve_config()), "rayClusterConfig": cluster_spec(), **spec},
    }


def ray_cluster(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "qwen", "namespace": "llm"},
        "spec": {**cluster_spec(), **spec},
    }


def changed(item: dict[str, Any], change: Callable[[Any], object]) -> dict[str, Any]:
    """A copy of `item` after `change`, which gets its spec."""
    result = copy.deepcopy(item)
    change(result["spec"])
    return result


def with_file(item: dict[str, Any], change: Callable[[Any], object]) -> dict[str, Any]:
    """A copy of a RayService whose Serve configuration file is changed."""
    result = copy.deepcopy(item)
    config = yaml.safe_load(result["spec"]["serveConfigV2"])
    change(config)
    result["spec"]["serveConfigV2"] = yaml.safe_dump(config)
    return result


def set_at(*path: str | int, value: Any) -> Callable[[Any], object]:
    """A change that sets the value at a path; None removes it."""

    def change(root: Any) -> None:
        *parents, last = path
        for part in parents:
            root = root[part]
        if value is None:
            del root[last]
        else:
            root[last] = value

    return change
