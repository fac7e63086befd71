"""KubeRay's handling of a changed RayJob.

Read in KubeRay 1.6.2, ray-operator/controllers/ray/rayjob_controller.go (Reconcile): the RayCluster and the submitter
are created once, from the spec of that moment; that another rayClusterSpec is disregarded is a line in the operator's
log. Time limits, retries, what happens after the end and `suspend` are read each time, and `jobId` of a job that waits
for it (InteractiveMode). A retry, or the start after a suspension, creates both again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.changes.fields import field_differences, mapping
from rayllm_ctl.changes.labels import named
from rayllm_ctl.changes.serve import Judged
from rayllm_ctl.model.observed.changes import Consequence, Explanation, Running
from rayllm_ctl.model.text.hint import Hint

_READ_AGAIN = frozenset(
    (name,)
    for name in (
        "activeDeadlineSeconds", "backoffLimit", "deletionStrategy", "preRunningDeadlineSeconds",
        "shutdownAfterJobFinishes", "suspend", "ttlSecondsAfterFinished",
    )
)  # fmt: skip
"""Fields of the spec, as parts of a path."""


def explain_rayjob(before: Mapping[str, Any], after: Mapping[str, Any], _running: Running) -> Explanation:
    """The effect of each change of a RayJob, and the consequences."""
    waits_for_id = mapping(after, "spec").get("submissionMode") == "InteractiveMode"
    read = _READ_AGAIN | ({("jobId",)} if waits_for_id else set())
    judged: list[Judged] = [
        (one, "in-place" if one.path[0] != "spec" or one.path[1:2] in read else "not-rolled-out")
        for one in field_differences(before, after)
        if one.path[0] != "status"
    ]
    consequences = list(_ignored(before, after)) if any(effect == "not-rolled-out" for _, effect in judged) else []
    suspends = mapping(after, "spec").get("suspend")
    if bool(suspends) != bool(mapping(before, "spec").get("suspend")):
        what = (
            "deletes the RayCluster of the job, which ends"
            if suspends
            else "starts the job from the beginning, on a new RayCluster"
        )
        consequences.append(Consequence("in-place", f"KubeRay {what}", outage=bool(suspends)))
    if judged and not consequences:
        consequences.append(Consequence("in-place", "KubeRay reads it while the job runs; no pod restarts"))
    return Explanation(named(judged), tuple(consequences))


def _ignored(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Consequence]:
    name, namespace = (str(mapping(after, "metadata").get(key) or "") for key in ("name", "namespace"))
    of = f" -n {namespace}" if namespace else ""
    message = "KubeRay ignores the change of a submitted job: only a retry, or a start after a suspension, uses it"
    mounted = sorted(_config_maps(before) - _config_maps(after))
    if mounted:
        message += (
            f". Its pods still mount ConfigMap {', '.join(mounted)}: if it is deleted because it is no longer "
            "rendered, new pods cannot start"
        )
    yield Consequence(
        "not-rolled-out", message, hints=(Hint(f"kubectl delete rayjob {name}{of}", "then submit it again"),)
    )


def _config_maps(value: Any) -> set[str]:
    """The names of the ConfigMaps in the volumes of an object."""
    if isinstance(value, Mapping):
        name = mapping(value, "configMap").get("name")
        found = {name} if isinstance(name, str) else set()
        return found.union(*map(_config_maps, value.values()))
    return set[str]().union(*map(_config_maps, value)) if isinstance(value, list) else set()
