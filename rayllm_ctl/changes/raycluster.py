"""KubeRay's handling of a changed RayCluster that is not part of a RayService or RayJob.

Read in KubeRay 1.6.2, ray-operator/controllers/ray/raycluster_controller.go (reconcilePods,
shouldRecreatePodsForUpgrade): pods are compared with the spec in number only. A changed template reaches pods that are
created later, unless upgradeStrategy is Recreate: then all pods are deleted when the hash of the spec changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.changes.clusterhash import HashPart, part_of
from rayllm_ctl.changes.fields import Difference, field_differences, mapping
from rayllm_ctl.changes.groups import stopped_groups, suspension
from rayllm_ctl.changes.labels import named
from rayllm_ctl.changes.serve import Judged
from rayllm_ctl.model.observed.changes import Consequence, Effect, Explanation, Running
from rayllm_ctl.model.text.hint import Hint


def explain_raycluster(before: Mapping[str, Any], after: Mapping[str, Any], running: Running) -> Explanation:
    """The effect of each change of a RayCluster, and the consequences."""
    old, new = mapping(before, "spec"), mapping(after, "spec")
    found = [(one, _part(one, old, new, running)) for one in field_differences(old, new)]
    recreates = mapping(new, "upgradeStrategy").get("type") == "Recreate" and any(
        part == "hash" or _group(one) for one, part in found
    )
    judged: list[Judged] = [
        (one, "in-place") for one in field_differences(before, after) if one.path[0] not in ("spec", "status")
    ]
    judged += [
        (Difference(("spec", *one.path), one.old, one.new), _effect(one, part, recreates)) for one, part in found
    ]
    effects = {effect for _, effect in judged}
    consequences = []
    if "recreate" in effects:
        consequences.append(
            Consequence("recreate", "KubeRay deletes all pods of the RayCluster, including the head, and creates "
                        "them again; the service is unavailable until they are ready", outage=True)
        )  # fmt: skip
    if "not-rolled-out" in effects:
        consequences.append(
            Consequence(
                "not-rolled-out",
                "running pods do not change: KubeRay applies a changed template only to new pods",
                hints=(Hint(remark="with upgradeStrategy Recreate KubeRay replaces all pods at once "
                                   "(KubeRay 1.6 or newer)"),
                       Hint(f"kubectl delete pod -l ray.io/cluster={mapping(after, 'metadata').get('name', '')}")),
            )
        )  # fmt: skip
    if "recreate" not in effects and _starts_to_recreate(old, new):
        message = "pending changes that running pods do not have yet are rolled out now, if any: all pods restart"
        consequences.append(Consequence("recreate", message, outage=True))
    if "suspend" in {part for _, part in found}:
        consequences.append(suspension(new.get("suspend") is True))
    if (stopped := stopped_groups(old, new)) and "recreate" not in effects:
        message = f"KubeRay deletes all workers of group {', '.join(stopped)}: its replicas are unavailable"
        consequences.append(Consequence("in-place", message, outage=True))
    if judged and not consequences:
        consequences.append(Consequence("in-place", "no running pod restarts"))
    return Explanation(named(judged), tuple(consequences))


def _starts_to_recreate(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    before, after = (mapping(side, "upgradeStrategy").get("type") for side in (old, new))
    return before != after == "Recreate"


def _part(one: Difference, old: Mapping[str, Any], new: Mapping[str, Any], running: Running) -> HashPart:
    part = part_of(one, old, new, running.kuberay)
    # The autoscaler and KubeRay read these bounds directly, so there is nothing to propagate.
    if part == "bounds" or (part == "hash" and one.path[2:] == ("suspend",)):
        return "ignored"
    return part


def _group(one: Difference) -> bool:
    """Whether a whole worker group is added or removed."""
    return one.path[0] == "workerGroupSpecs" and len(one.path) <= 2


def _effect(one: Difference, part: HashPart, recreates: bool) -> Effect:
    if part in ("ignored", "suspend"):
        return "in-place"
    if recreates and part != "placement":
        return "recreate"
    return "in-place" if _group(one) and one.old is None else "not-rolled-out"
