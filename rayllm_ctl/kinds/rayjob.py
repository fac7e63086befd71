"""RayJob: a batch job. It is not a service, so it is not among WORKLOADS: only `batch` commands know of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rayllm_ctl.changes.rayjob import explain_rayjob
from rayllm_ctl.kinds.common import DOWNLOADS, OPERATOR, REASONS
from rayllm_ctl.model.observed.changes import Explanation, Running
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.workload import Right, Rights

JobActivity = Literal["list", "status", "follow", "logs", "cancel", "resume", "output"]
"""Activities of commands with batch jobs."""

KIND = "RayJob"
_PARTS = (Right("list", "RayCluster"), Right("list", "Pod"))
_LOG = Right("get", "Pod", "log")
_SETTINGS = Right("get", "ConfigMap")
_REMOVAL = (Right("get", KIND), Right("delete", KIND), *_PARTS)

JOB_RIGHTS: Mapping[JobActivity, Rights] = {
    "list": Rights(needed=(Right("list", KIND),), display=(*_PARTS, _LOG, Right("list", "Event"), *OPERATOR)),
    "status": Rights(needed=(Right("get", KIND),), display=(*_PARTS, _SETTINGS, *REASONS)) | DOWNLOADS,
    "follow": Rights(
        needed=(Right("get", KIND), Right("list", KIND), Right("watch", KIND), *_PARTS, Right("watch", "Pod"), _LOG),
        display=(_SETTINGS, *(right for right in REASONS if right != _LOG)),
    )
    | DOWNLOADS,
    "logs": Rights(needed=(Right("get", KIND), Right("list", "Pod"), _LOG)),
    "cancel": Rights(needed=_REMOVAL, display=(Right("list", "ConfigMap"), Right("delete", "ConfigMap"))),
    "resume": Rights(needed=(*_REMOVAL, Right("create", KIND), Right("patch", KIND))),
    "output": Rights(needed=(Right("get", KIND), _SETTINGS), display=(Right("list", "Pod"),)),
}
"""The rights that each activity needs."""


def explain_job(before: Object, after: Object, running: Running) -> Explanation:
    """The effect of each change of a RayJob. Imported on use, as for RayService."""
    return explain_rayjob(before, after, running)
