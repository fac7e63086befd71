"""The rights of the controller, from those of the activities that it shares with commands."""

from __future__ import annotations

from rayllm_ctl.cluster.preflight.storage import STORAGE_RIGHTS
from rayllm_ctl.kinds import WORKLOADS
from rayllm_ctl.kinds.common import DOWNLOADS
from rayllm_ctl.kinds.rayjob import JOB_RIGHTS
from rayllm_ctl.model.kube.api_kinds import APPLIED
from rayllm_ctl.model.spec.batch import BATCH_KIND
from rayllm_ctl.model.spec.service import KIND
from rayllm_ctl.model.workload import Activity, Right, Rights
from rayllm_ctl.workflows.batch.submit import RAY_JOB, submit_rights

_ACTIVITIES: tuple[Activity, ...] = (
    "apply", "bounds", "follow", "record", "history", "restart", "suspend", "status", "list", "delete",
)  # fmt: skip
"""What it does with services. It talks to no model and forwards no ports."""

BESIDE = (
    "ConfigMap", "Service", "Ingress", "HTTPRoute", "NetworkPolicy", "PodDisruptionBudget", "Deployment", "PodMonitor",
    "ServiceMonitor",
)  # fmt: skip
"""Kinds of the objects that a spec may have rendered next to its RayService or RayCluster."""

CLAIM_RIGHTS = tuple(Right(verb, "PersistentVolumeClaim") for verb in ("get", "create", "patch"))
DOWNLOAD_JOB_RIGHTS = tuple(Right(verb, "Job") for verb in ("get", "create", "patch", "list", "delete"))
"""For services that download their model, and create a claim for it. No claim is ever deleted."""

LEASE_RIGHTS = Rights(needed=tuple(Right(verb, "Lease") for verb in ("get", "create", "patch")))
"""In the namespace of the controller: which of several copies reconciles."""


def controller_rights() -> Rights:
    """All that it asks of the API server in the namespaces of the services, and of the cluster.

    A Secret is created, for the password of a gateway's Redis, and none is ever read.
    """
    total = _own_kinds() | DOWNLOADS
    for kind in WORKLOADS.values():
        total |= kind.rights_for(*(activity for activity in _ACTIVITIES if activity in kind.rights))
    for activity in ("list", "status", "follow", "cancel", "resume"):
        total |= JOB_RIGHTS[activity]
    total |= submit_rights((RAY_JOB, "ConfigMap"), pool=True)
    total |= Rights((*CLAIM_RIGHTS, *DOWNLOAD_JOB_RIGHTS), STORAGE_RIGHTS)
    total |= Rights(
        needed=(
            *(Right(verb, kind) for kind in BESIDE for verb in ("get", "create", "patch", "delete")),
            # Whether an object is as it was applied is told by watches.
            *(Right(verb, kind) for kind in ("ControllerRevision", *APPLIED) for verb in ("list", "watch")),
            Right("create", "Secret"),
        ),
        display=(
            Right("create", "Event"), Right("patch", "Event"), Right("get", "IngressClass"),
            Right("get", "Gateway", everywhere=True),
            # Where a second RayCluster has no capacity before the first is gone, and the outage was accepted.
            Right("delete", "RayCluster"),
        ),
    )  # fmt: skip
    return Rights(tuple(filter(_allowed, total.needed)), tuple(filter(_allowed, total.display)))


def _own_kinds() -> Rights:
    """LLMServices and BatchJobs. Setting blockOwnerDeletion asks for a right on finalizers on some clusters."""
    return Rights(
        needed=tuple(
            right
            for kind in (KIND, BATCH_KIND)
            for right in (
                *(Right(verb, kind) for verb in ("get", "list", "watch")),
                Right("patch", kind, "status"),
                Right("update", kind, "finalizers"),
            )
        )
    )


def _allowed(right: Right) -> bool:
    return right.kind != "Secret" or right.verb == "create"
