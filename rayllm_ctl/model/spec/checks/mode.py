"""Options that each mode supports: Ray Serve LLM on a RayService, or vLLM's own server on a RayCluster.

A RayCluster has no autoscaler here: nothing on it knows how many requests are waiting, so replicas are a fixed number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from rayllm_ctl.model.spec.ray_options import INCREMENTAL, Upgrade
from rayllm_ctl.model.spec.serve_options import Serve
from rayllm_ctl.model.spec.service import LLMService, Replicas
from rayllm_ctl.model.text.json_form import camel
from rayllm_ctl.model.text.problems import Problem

_NO_AUTOSCALER = "which has no autoscaler"

_OTHER_MODE = "spec.mode rayservice (--kind rayservice) scales with the load"


def mode_problems(service: LLMService) -> Iterator[Problem]:
    """Options that the mode of `service` does not support."""
    if service.mode == "raycluster":
        yield from _fixed(service.replicas)
        yield from _upgrade(service.upgrade)
        if service.rollout not in ("auto", "in-place"):
            yield Problem(
                ("spec", "rollout"),
                f"{service.rollout} requires mode rayservice: KubeRay replaces the pods of a RayCluster all at once",
                "auto, or in-place",
            )
        if service.ray.idle_timeout is not None:
            yield Problem(("spec", "ray", "idleTimeout"), f"does not apply to mode raycluster, {_NO_AUTOSCALER}")
        if service.worker_groups:
            yield Problem(("spec", "workerGroups"), f"does not apply to mode raycluster, {_NO_AUTOSCALER}")
        if service.scheduling.ray_resources:
            yield Problem(
                ("spec", "scheduling", "rayResources"),
                "does not apply to mode raycluster: vLLM asks Ray for GPUs only",
                "spec.scheduling.nodeSelector (--node-selector) chooses nodes in every mode",
            )
        if service.serve != Serve():
            yield Problem(("spec", "serve"), "does not apply to mode raycluster, which runs without Ray Serve")
        if service.gateway is not None:
            yield Problem(
                ("spec", "gateway"),
                "does not apply to mode raycluster, which runs without Ray Serve, whose ingress the gateway is",
                _OTHER_MODE,
            )
        tensor = service.parallelism.tensor
        if service.accelerator.kind == "cpu" and tensor is not None and tensor > 1:
            yield Problem(
                ("spec", "parallelism", "tensor"),
                f"must be 1 for CPU services in mode raycluster, not {tensor}: "
                "vLLM's Ray executor does not support CPUs",
            )


def _fixed(replicas: Replicas) -> Iterator[Problem]:
    at = ("spec", "replicas")
    if replicas.min == 0:
        yield Problem(
            (*at, "min"),
            "must be at least 1 in mode raycluster: nothing would start a replica when a request arrives",
            _OTHER_MODE,
        )
    elif replicas.autoscaled:
        yield Problem(
            (*at, "max"),
            f"must equal spec.replicas.min ({replicas.min}) in mode raycluster, not {replicas.max}: "
            "no autoscaler knows its load",
            f"--replicas {replicas.max}; {_OTHER_MODE}",
        )
    for field in dataclasses.fields(replicas):
        if field.name not in ("min", "max", "count") and getattr(replicas, field.name) is not None:
            yield Problem((*at, camel(field.name)), f"does not apply to mode raycluster, {_NO_AUTOSCALER}", _OTHER_MODE)


def _upgrade(upgrade: Upgrade) -> Iterator[Problem]:
    at = ("spec", "upgrade")
    if upgrade.strategy == INCREMENTAL:
        yield Problem(
            (*at, "strategy"),
            "requires mode rayservice: KubeRay replaces the pods of a RayCluster all at once",
            "NewCluster, or None to leave the pods as they are",
        )
    elif upgrade.deletion_delay is not None:
        yield Problem((*at, "deletionDelay"), "does not apply to mode raycluster: there is no second cluster")
