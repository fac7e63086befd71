"""From a Snapshot to the BatchHealth of one batch job."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from rayllm_ctl.health.diagnose import merged_health
from rayllm_ctl.health.downloading import download_health, unfinished_downloads
from rayllm_ctl.health.finding import Finding
from rayllm_ctl.health.jobcontext import JobContext
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.objects.rayjob import RayJob
from rayllm_ctl.health.progress import step
from rayllm_ctl.health.rules import AFTERMATH_RULES, CLUSTER_RULES, POD_RULES, reconciling, refusals
from rayllm_ctl.health.rules.deletion import deletion_blocked
from rayllm_ctl.health.rules.jobs import job
from rayllm_ctl.health.rules.jobs import remarks as jobremarks
from rayllm_ctl.health.rules.modelstorage.downloads import download_findings
from rayllm_ctl.health.rules.overdue import overdue
from rayllm_ctl.health.statustree import download_nodes, pod_node
from rayllm_ctl.model.kube.labels import BATCH
from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.batch_status import BatchHealth, JobOutcome, JobState
from rayllm_ctl.model.observed.health import Snapshot, State

JobRule = Callable[[JobContext], Finding | None]

ENDING_RULES: tuple[JobRule, ...] = (
    job.rejected_by_kuberay,
    job.driver_failed,
    job.too_many_errors,
    job.stopped,
    job.deadline,
    job.submission_failed,
    job.driver_lost,
)
"""What ended a job, or this try of it. The first that applies counts."""

WAITING_RULES: tuple[JobRule, ...] = (job.cluster_missing, reconciling.not_reconciled, refusals.cluster_refused)
"""Why a job does not get as far as pods."""

REMARK_RULES: tuple[JobRule, ...] = (jobremarks.given_up, jobremarks.retrying, jobremarks.job_suspended)
"""True beside anything else."""

_EXIT = re.compile(r"failed with exit code (\d+)")
"""What Ray says of a driver that ended (ray.dashboard.modules.job)."""

_BY_EXIT = {"1": JobOutcome.TOO_MANY_ERRORS, "2": JobOutcome.REJECTED}


def diagnose_job(snapshot: Snapshot, name: str, namespace: str) -> BatchHealth:
    """How the batch job `name` is, why, and what to do about it.

    Pure and total, as `diagnose`: too little evidence gives the state Unknown, never Succeeded.
    """
    context = JobContext(snapshot, name, namespace)
    found = context.job
    if found is None:
        return _absent(context)
    if context.service is not None and context.service.deleted is not None:
        blocked = deletion_blocked(context)
        return _health(context, JobState.DELETING, f"{name} is being deleted", [blocked] if blocked else [])
    outcome = _outcome(context, found)
    findings = _findings(context, found, outcome)
    if outcome is not None:
        state = JobState.SUCCEEDED if outcome is JobOutcome.ANSWERED else JobState.FAILED
        return _health(context, state, _end(context, outcome, findings), findings, outcome)
    return _health(context, *_present(context, found, findings), findings)


def _outcome(context: JobContext, found: RayJob) -> JobOutcome | None:
    """How the job ended, or None. A result is final before KubeRay knows of it, and so is input that was rejected."""
    report = context.report
    if report.failure is not None and report.failure.rejected:
        return JobOutcome.REJECTED
    if report.result is not None and context.too_many_errors is not None:
        return JobOutcome.TOO_MANY_ERRORS if context.too_many_errors else JobOutcome.ANSWERED
    if not found.over:
        return None
    if found.deployment == "Complete" and found.job == "SUCCEEDED":
        return JobOutcome.ANSWERED
    code = _EXIT.search(found.message) if report.failure is None else None
    return _BY_EXIT.get(code[1], JobOutcome.FAILED) if code else JobOutcome.FAILED


def _findings(context: JobContext, found: RayJob, outcome: JobOutcome | None) -> list[Finding]:
    if outcome is JobOutcome.ANSWERED:
        return []
    ending = next(filter(None, (rule(context) for rule in ENDING_RULES)), None)
    remarks = [one for rule in REMARK_RULES if (one := rule(context)) is not None]
    if ending is not None and outcome in (JobOutcome.REJECTED, JobOutcome.TOO_MANY_ERRORS):
        return [ending]  # final, whatever KubeRay tries
    if found.suspended:
        return remarks
    waiting = None if found.over else next(filter(None, (rule(context) for rule in WAITING_RULES)), None)
    downloads = [] if found.over else download_findings(context)
    parts = merged_health([*([waiting] if waiting else []), *downloads, *_pod_findings(context, found)])
    if context.pods_unread:
        return [*([ending] if ending else []), *parts, *remarks]
    if not ending and not parts and found.deployment in ("", "Initializing") and not unfinished_downloads(context):
        parts = [one for one in [overdue(context)] if one is not None]
    last = None if ending or parts else jobremarks.job_head_down(context) or job.ended_without_a_word(context)
    return [*([ending] if ending else []), *parts, *([last] if last else []), *remarks]


def _pod_findings(context: JobContext, found: RayJob) -> list[Finding]:
    """Why pods of this try do not run, or ended."""
    results: list[Finding] = []
    for cluster in context.clusters:
        first = next(filter(None, (rule(context, cluster) for rule in CLUSTER_RULES)), None)
        results += [first] if first else []
        pods = [pod for pod in cluster.pods if pod.deleted is None]
        results += [one for pod in pods if (one := _pod_finding(context, pod)) is not None]
        if not results and not context.pods_unread:
            results += [one for rule in AFTERMATH_RULES if (one := rule(context, cluster)) is not None]
    newest = next(iter(context.submitters), None)
    # The submitter ends with the driver's exit code, which says nothing of the submitter itself.
    if newest is not None and not newest.running and found.job in ("", "PENDING") and not found.over:
        own = _pod_finding(context, newest)
        results += [own] if own else []
    return results


def _pod_finding(context: JobContext, pod: Pod) -> Finding | None:
    return next(filter(None, (rule(context, pod) for rule in POD_RULES)), None)


def _present(context: JobContext, found: RayJob, findings: list[Finding]) -> tuple[JobState, str]:
    """State and message of a job that has not ended."""
    progress = context.report.progress
    if found.suspended:
        return JobState.SUSPENDED, findings[0].headline
    if found.deployment == "Retrying":
        return JobState.RETRYING, f"the attempt {found.failed} of {found.retries + 1} failed; KubeRay starts another"
    troubles = [one for one in findings if not one.recovers]
    workers = any(pod.up for cluster in context.clusters for pod in cluster.workers)
    if troubles and not workers:
        return JobState.STUCK, troubles[0].headline
    if found.deployment == "Waiting":
        return (
            JobState.UNKNOWN,
            "KubeRay waits for somebody to start the driver: this job was not submitted by rayllm-ctl",
        )
    if context.pods_unread:
        state = JobState.RUNNING if found.deployment == "Running" else JobState.PENDING
        return state, "its progress is unknown: its pods could not be read"
    if found.deployment != "Running" and unfinished_downloads(context):
        return JobState.PENDING, ", ".join(f"downloading {job.model}" for job in unfinished_downloads(context))
    if found.deployment != "Running":
        return JobState.PENDING, next(
            (step(context, cluster) for cluster in context.clusters), "waiting for KubeRay to create its RayCluster"
        )
    if found.job == "STOPPED":
        return JobState.RUNNING, "the driver has ended; waiting for the end of its log"
    if progress is None:
        return (JobState.PENDING if found.job in ("", "PENDING") else JobState.RUNNING), "the driver is starting"
    down = next((one.headline for one in findings if one.cause.code == "HeadDown"), "")
    return JobState.RUNNING, down or _doing(context, progress.phase)


def _doing(context: JobContext, phase: str) -> str:
    match phase:
        case "checking":
            return "checking the input"
        case "counting":
            return "counting the rows"
        case "starting":
            return f"starting engines: {_workers(context)}"
        case _:
            return f"answering rows on {_workers(context)}"


def _workers(context: JobContext) -> str:
    workers = [pod for cluster in context.clusters for pod in cluster.workers]
    up = sum(pod.up for pod in workers)
    waiting = f", {len(workers) - up} on their way" if len(workers) > up else ""
    return f"{up} worker{'' if up == 1 else 's'}{waiting}"


def _end(context: JobContext, outcome: JobOutcome, findings: list[Finding]) -> str:
    if findings:
        return findings[0].headline
    result = context.report.result
    if result is None:
        return "every row has an answer" if outcome is JobOutcome.ANSWERED else f"ended: {outcome.value}"
    errors = f", {result.errors:,} with an error" if result.errors else ""
    return f"{result.answered:,} of {result.rows:,} rows answered{errors}"


def _absent(context: JobContext) -> BatchHealth:
    if context.unread(context.kind):
        why = "; ".join([f"whether there is a batch job {context.name} is unknown: its RayJob could not be read",
                         *context.snapshot.notes[:2]])  # fmt: skip
        return _health(context, JobState.UNKNOWN, why, [])
    left = len(context.pods) + len(context.submitters)
    if left:
        return _health(context, JobState.DELETING, f"{context.name} is deleted; {left} pods are still terminating", [])
    download = download_health(context)
    if download is not None:
        state = JobState.PENDING if download.state is State.PROGRESSING else JobState.STUCK
        return replace(_health(context, state, download.message, []), causes=download.causes)
    close = nearest(
        context.name, (fields.name(item) for item in context.of_kind(context.kind) if fields.label(item, BATCH))
    )
    meant = f"; did you mean {close}?" if close else ""
    message = f"there is no batch job {context.name} in namespace {context.namespace}{meant}"
    return _health(context, JobState.NOT_FOUND, message, [])


def _since(found: RayJob, state: JobState) -> datetime | None:
    """When the job came into its present state, as far as its RayJob tells."""
    if found.over:
        return found.ended
    return (found.running if state is JobState.RUNNING else None) or found.started or fields.created(found.item)


def _health(
    context: JobContext, state: JobState, message: str, findings: list[Finding], outcome: JobOutcome | None = None
) -> BatchHealth:
    found, report = context.job, context.report
    pods = [pod for cluster in context.clusters for pod in cluster.pods] if found else list(context.pods)
    attempts = found.retries + 1 if found else 1
    attempt = found.failed + (not found.over) if found else 1
    return BatchHealth(
        state=state,
        message=message,
        outcome=outcome,
        causes=tuple(one.cause for one in findings),
        progress=report.progress,
        result=report.result,
        output=(report.result.output if report.result else "") or fields.text(context.settings, "output", "path"),
        tree=(*download_nodes(context), *(pod_node(context, pod) for pod in (*pods, *context.submitters))),
        notes=context.snapshot.notes,
        attempt=min(max(1, attempt), attempts),
        attempts=attempts,
        started=found.started if found else None,
        ended=found.ended if found else None,
        since=_since(found, state) if found else None,
        observed_at=context.now,
        downloads=tuple(job.view for job in context.model_jobs) or None,
    )
