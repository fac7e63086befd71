"""The replica bounds of a service in its manifest, and the same manifest with others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube import kuberay


@dataclass(frozen=True)
class Bounds:
    """Replicas that a model has at least and at most."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}..{self.high}" if self.low != self.high else str(self.low)


@dataclass(frozen=True)
class Scaled:
    """A manifest with new bounds; `before` and `after` of the model, and of the pods of its worker groups by name."""

    manifest: dict[str, Any]
    before: Bounds
    after: Bounds
    pods: Mapping[str, tuple[Bounds, Bounds]]


def group_bounds(group: Mapping[str, Any]) -> Bounds:
    """The bounds of a worker group."""
    return Bounds(int(group.get("minReplicas") or 0), int(group.get("maxReplicas") or 0))


def with_group_bounds(groups: list[Mapping[str, Any]], wanted: Mapping[str, Bounds]) -> list[dict[str, Any]]:
    """Worker groups with other bounds, by name."""
    return [
        {**group, "minReplicas": bounds.low, "maxReplicas": bounds.high}
        if (bounds := wanted.get(str(group.get("groupName"))))
        else dict(group)
        for group in groups
    ]


def scaled_cluster(manifest: Mapping[str, Any], replicas: int) -> Scaled:
    """A RayCluster with vLLM's own servers with another number of them.

    Raises ValueError if it has no group of servers.
    """
    spec = manifest["spec"]
    groups = {str(group.get("groupName")): group_bounds(group) for group in spec.get("workerGroupSpecs") or ()}
    servers = groups.get(kuberay.SERVERS)
    if servers is None or not servers.high:
        raise ValueError(f"it has no worker group {kuberay.SERVERS} with replicas")
    pods = {}
    for name in (kuberay.SERVERS, kuberay.MEMBERS):
        if name in groups:
            count = groups[name].high * replicas // servers.high
            pods[name] = (groups[name], Bounds(count, count))
    changed = with_group_bounds(spec["workerGroupSpecs"], {name: after for name, (_, after) in pods.items()})
    return Scaled(
        {**manifest, "spec": {**spec, "workerGroupSpecs": changed}}, servers, Bounds(replicas, replicas), pods
    )
