"""Rights for load tests in addition to those of `chat`."""

from __future__ import annotations

from collections.abc import Iterable

from rayllm_ctl.kinds.common import FORWARDING
from rayllm_ctl.model.workload import Right, Rights, WorkloadKind

_LOOK = (
    Right("get", "RayCluster"),
    Right("get", "Secret"),
    Right("get", "Service", "proxy"),
    Right("get", "Pod", "proxy"),
)
"""Rights to sample the service during the load: Serve's state, with its token, and vLLM's metrics."""


def job_rights(kind: str) -> Rights:
    """For load from a Job next to a service, an object of `kind`. The first two for display end it early and keep its
    results."""
    return Rights(
        needed=(
            Right("get", kind),
            Right("create", "Job"),
            Right("delete", "Job"),
            Right("create", "ConfigMap"),
            Right("list", "Pod"),
            Right("get", "Pod", "log"),
        ),
        display=(Right("get", "Pod"), Right("delete", "Pod"), *_LOOK),
    )


OFFLINE_RIGHTS = Rights(
    needed=(Right("create", "Job"), Right("delete", "Job"), Right("list", "Pod"), Right("get", "Pod", "log"))
)
"""For an engine without a server."""


def forward_rights(kind: str) -> Rights:
    """For load from this machine to a service, an object of `kind`."""
    return Rights(needed=FORWARDING, display=(Right("get", kind), Right("list", "Pod"), *_LOOK))


def sweep_rights(kind: WorkloadKind, applied: Iterable[str], *, local: bool) -> Rights:
    """For measuring and removing a variant of a sweep, in addition to those for deploying it.

    applied: the kinds of its objects. local: the load comes from this machine.
    """
    removed = Rights(tuple(Right(verb, name) for name in applied for verb in ("list", "delete")))
    load = forward_rights(kind.name) if local else job_rights(kind.name)
    return kind.rights_for("delete", "endpoint") | removed | load
