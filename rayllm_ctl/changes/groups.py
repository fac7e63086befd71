"""Pods of a RayCluster that a change stops: all if it is suspended, or those of a worker group without replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rayllm_ctl.changes.fields import mappings
from rayllm_ctl.model.observed.changes import Consequence


def suspension(suspended: bool, clusters: Sequence[str] = ()) -> Consequence:
    """The effect of a changed `suspend`. clusters: the live ones, if known."""
    if suspended:
        of = clusters[0] if clusters else "the RayCluster"
        message = f"KubeRay deletes all pods of {of}; the service is unavailable until it is resumed"
        return Consequence("in-place", message, outage=True)
    return Consequence("in-place", "KubeRay starts the pods of the RayCluster again")


def stopped_groups(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The worker groups of a RayCluster's spec that are scaled to no workers.

    For an autoscaled cluster those with a maximum of 0: Ray's autoscaler lowers others only while they are idle.
    """
    before = {str(group.get("groupName")): group for group in mappings(old, "workerGroupSpecs")}
    autoscaled = new.get("enableInTreeAutoscaling") is True
    return [
        name
        for group in mappings(new, "workerGroupSpecs")
        if (name := str(group.get("groupName"))) in before
        and _runs(before[name], autoscaled)
        and not _runs(group, autoscaled)
    ]


def _runs(group: Mapping[str, Any], autoscaled: bool) -> bool:
    """Whether KubeRay keeps a worker of the group (utils.GetWorkerGroupDesiredReplicas)."""
    low, high = _count(group.get("minReplicas"), 0), _count(group.get("maxReplicas"), 1)
    if group.get("suspend") is True or high == 0:
        return False
    return autoscaled or max(_count(group.get("replicas"), low), low) > 0


def _count(value: Any, default: int) -> int:
    return value if isinstance(value, int) else default
