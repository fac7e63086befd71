"""What a RayCluster asks for: its groups, their bounds, and what Ray can place on one of their nodes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.objects.pod import is_accelerator
from rayllm_ctl.health.objects.quantity import amounts
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object

DEFAULT_MAX = 2**31 - 1
"""maxReplicas of a worker group that sets none (KubeRay's CRD)."""


@dataclass(frozen=True)
class GroupSpec:
    """A worker group. `capacity`: what Ray can place on one of its nodes (CPU, GPU, custom resources)."""

    name: str
    replicas: int
    low: int
    high: int
    hosts: int
    capacity: Mapping[str, float]

    @property
    def bounds(self) -> str:
        return f"{self.low}..{self.high}"

    @property
    def wanted(self) -> int:
        """Replicas as KubeRay counts them: `replicas` within the bounds (utils.GetWorkerGroupDesiredReplicas)."""
        return min(max(self.replicas, self.low), self.high)


@dataclass(frozen=True)
class ClusterSpec:
    """The spec of a RayCluster, or the rayClusterConfig of a RayService. `fault_tolerant`: the head's state is kept
    in a Redis, so that workers continue without the head (GCS fault tolerance)."""

    groups: tuple[GroupSpec, ...]
    head: Mapping[str, float]
    autoscaled: bool
    fault_tolerant: bool


def read_cluster_spec(spec: Any) -> ClusterSpec:
    """Groups and capacities of a RayCluster spec."""
    return ClusterSpec(
        groups=tuple(_group(group) for group in fields.items(spec, "workerGroupSpecs")),
        head=_capacity(fields.mapping(spec, "headGroupSpec")),
        autoscaled=fields.flag(spec, "enableInTreeAutoscaling"),
        fault_tolerant=bool(fields.mapping(spec, "gcsFaultToleranceOptions")),
    )


def suspended(cluster: Object) -> bool:
    """Whether a RayCluster is suspended or about to be."""
    return fields.flag(cluster, "spec", "suspend") or any(
        fields.condition(cluster, type_).get("status") == "True"
        for type_ in ("RayClusterSuspended", "RayClusterSuspending")
    )


def _group(group: Mapping[str, Any]) -> GroupSpec:
    low = fields.integer(group, "minReplicas")
    return GroupSpec(
        name=fields.text(group, "groupName"),
        replicas=fields.integer(group, "replicas", default=low),
        low=low,
        high=fields.integer(group, "maxReplicas", default=DEFAULT_MAX),
        hosts=max(1, fields.integer(group, "numOfHosts", default=1)),
        capacity=_capacity(group),
    )


def _capacity(group: Mapping[str, Any]) -> dict[str, float]:
    """What `ray start` announces for a node of the group: rayStartParams first, else the limits of the first container.

    As KubeRay 1.6 derives it (ray-operator/controllers/ray/common/pod.go): CPU from limit, else request, rounded up;
    GPU from the first limit that names one.
    """
    params = fields.mapping(group, "rayStartParams")
    container = next(iter(fields.items(group, "template", "spec", "containers")), {})
    limits = amounts(fields.mapping(container, "resources", "limits"))
    requests = amounts(fields.mapping(container, "resources", "requests"))
    gpus = next((amount for resource, amount in limits.items() if is_accelerator(resource)), 0.0)
    cpus = limits.get("cpu", requests.get("cpu", 0.0))
    capacity = {"CPU": float(math.ceil(cpus)), "GPU": gpus, **_custom(params)}
    for key, resource in (("num-cpus", "CPU"), ("num-gpus", "GPU")):
        given = amounts({resource: params.get(key)})
        capacity.update(given)
    return capacity


def _custom(params: Mapping[str, Any]) -> dict[str, float]:
    """rayStartParams.resources: JSON, often within another pair of quotes."""
    written = fields.text(params, "resources").strip("\"'").replace('\\"', '"')
    try:
        found = json.loads(written) if written else {}
    except ValueError:
        return {}
    return amounts(found)
