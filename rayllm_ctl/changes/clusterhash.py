"""The fields of a RayCluster's spec that are part of the hash by which KubeRay detects changes.

Source: KubeRay 1.6.2, ray-operator/controllers/ray/utils/util.go (GenerateHashWithoutReplicasAndWorkersToDelete) and
rayservice_controller.go (isClusterSpecHashEqual: groups appended at the end, modifyRayCluster: how they get in).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from rayllm_ctl.changes.fields import Difference, FieldPath, mappings
from rayllm_ctl.model.kube.quantities import parse_quantity

HashPart = Literal["hash", "bounds", "placement", "appended", "suspend", "ignored"]
"""hash: counts. bounds: limits of a worker group. placement: tolerations and scheduling gates. appended: a worker group
at the end. suspend: taken up at once. ignored: nothing reads it."""

_BOUNDS = frozenset({"replicas", "minReplicas", "maxReplicas"})
_PLACEMENT = frozenset({"tolerations", "schedulingGates"})

_WITHOUT_PLACEMENT = (1, 6)
"""The version of KubeRay that leaves tolerations and scheduling gates out of the hash; 1.5.1 does not."""


def part_of(found: Difference, old: Mapping[str, Any], new: Mapping[str, Any], kuberay: str) -> HashPart:
    """The meaning of a difference between two specs for KubeRay of version `kuberay` (empty: 1.6)."""
    path = found.path
    if path[0] == "suspend":
        # The hash tells an explicit false from none (shouldUpdateCluster).
        return "suspend" if bool(found.old) != bool(found.new) else "hash"
    if path[0] == "upgradeStrategy":
        return "ignored"
    if path[0] == "workerGroupSpecs":
        if len(path) == 3 and path[2] in _BOUNDS:
            return "bounds"
        if path[2:3] == ("scaleStrategy",):
            return "ignored"
        if len(path) <= 2 and found.path[1:] != ("order",) and _appends(old, new):
            return "appended"
    if _same_quantity(found):
        return "ignored"
    if _is_placement(path) and version(kuberay) >= _WITHOUT_PLACEMENT:
        return "placement"
    return "hash"


def _appends(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    before, after = ([group.get("groupName") for group in mappings(side, "workerGroupSpecs")] for side in (old, new))
    return after[: len(before)] == before


def _same_quantity(found: Difference) -> bool:
    """Whether both sides are the same quantity, spelled differently: Go normalizes it before hashing."""
    if found.path[-2:-1] not in (("limits",), ("requests",)):
        return False
    try:
        return parse_quantity(str(found.old)) == parse_quantity(str(found.new))
    except ValueError:
        return False


def _is_placement(path: FieldPath) -> bool:
    """Whether a path leads into the tolerations or scheduling gates of a pod template."""
    below = path[2:] if path[0] == "workerGroupSpecs" else path[1:]
    return below[:2] == ("template", "spec") and len(below) > 2 and below[2] in _PLACEMENT


def version(text: str) -> tuple[int, ...]:
    """Major and minor version of KubeRay; if unknown, the one that these rules are from."""
    numbers = re.findall(r"\d+", text)
    return tuple(int(number) for number in numbers[:2]) if len(numbers) > 1 else _WITHOUT_PLACEMENT
