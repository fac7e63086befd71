"""The health of batch jobs: one, all of a namespace or of all namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.snapshot.job import JobCollector, collect_jobs
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health import diagnose_job
from rayllm_ctl.kinds.rayjob import JOB_RIGHTS
from rayllm_ctl.model.observed.batch_status import BatchHealth, JobState

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

HEALTHY_JOB_STATES = frozenset(
    {JobState.PENDING, JobState.RUNNING, JobState.RETRYING, JobState.SUCCEEDED, JobState.SUSPENDED, JobState.DELETING}
)
"""States that do not require a user's attention."""


@dataclass(frozen=True)
class JobRow:
    """A batch job and its health."""

    name: str
    namespace: str
    health: BatchHealth


def one_job(cluster: Cluster, name: str, namespace: str) -> JobRow:
    """The health of one batch job; state NotFound if there is none."""
    with explained(cluster, namespace, JOB_RIGHTS["status"]):
        snapshot = JobCollector(cluster, name, namespace).collect()
    return JobRow(name, namespace, diagnose_job(snapshot, name, namespace))


def all_jobs(cluster: Cluster, namespace: str | None) -> list[JobRow]:
    """The health of every batch job of a namespace, or of all (None)."""
    collected = collect_jobs(cluster, namespace)
    return [
        JobRow(name, job_namespace, diagnose_job(snapshot, name, job_namespace))
        for name, job_namespace, snapshot in collected
    ]
