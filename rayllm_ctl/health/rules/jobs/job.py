"""What ends a batch job, or keeps it from running, by its RayJob and by what its driver says."""

from __future__ import annotations

from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.jobcontext import JobContext
from rayllm_ctl.health.objects import rayjob
from rayllm_ctl.health.sentences.classify import sentence_hints
from rayllm_ctl.health.sentences.exceptions import last_line, one_line
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint, read_hint

_APP_FAILED = "AppFailed"
"""Reason of a RayJob whose driver failed; or, where Ray has not called it FAILED, of one that Ray does not know any
more (rayjob_controller.go of 1.6.2: the submitter completed, or the head pod is gone)."""

_NEVER_ENDED = "JobDeploymentStatusTransitionGracePeriodExceeded"
"""Reason where the submitter has ended and Ray's job has not."""

_UNREAD = "JobStatusCheckTimeoutExceeded"
"""Reason of KubeRay 1.7 where Ray did not answer the operator for five minutes."""

_LIMITS = {
    "DeadlineExceeded": ("activeDeadlineSeconds", "it did not end within {seconds} s"),
    "PreRunningDeadlineExceeded": ("preRunningDeadlineSeconds", "it did not start within {seconds} s"),
}

_HINTS = {
    "DiskFull": Hint(remark="a larger volume, or another output path"),
    "OutOfMemory": Hint(remark="more memory for the head or the workers, or a smaller batch size"),
    "EngineFailed": Hint(remark="the engine's own error stands in the log"),
    "AccessDenied": Hint("kubectl get secrets -n {ns}", "the credentials of the job"),
    "OutputNotEmpty": Hint(remark="another output folder, or an empty one"),
}


def rejected_by_kuberay(context: JobContext) -> Finding | None:
    """KubeRay rejected the RayJob (name, spec or metadata)."""
    job = context.job
    if job is None or job.deployment != "ValidationFailed":
        return None
    event = context.events.last(rayjob.KIND, context.name, "InvalidRayJobSpec", "InvalidRayJobMetadata")
    return finding(
        "ValidationFailed",
        job.subject,
        f"KubeRay rejected the RayJob: {job.message}",
        headline="KubeRay rejected the RayJob",
        evidence=(job.status, event.quoted() if event else ""),
        hint=(Hint(f"kubectl get rayjob {job.name} -n {context.namespace} -o yaml"), cancel_hint(context)),
        terminal=True,
        since=event.first if event else None,
    )


def cluster_missing(context: JobContext) -> Finding | None:
    """The job is to run on a RayCluster that does not exist."""
    job = context.job
    if job is None or not job.shared or job.over or any(one.item is not None for one in context.clusters):
        return None
    event = context.events.last(rayjob.KIND, context.name, "RayClusterNotFound")
    if event is None:
        return None
    return finding(
        "ClusterNotFound",
        job.subject,
        f"the RayCluster {job.cluster}, on which the job is to run, does not exist in namespace {context.namespace}",
        headline=f"the RayCluster {job.cluster} does not exist",
        evidence=(event.quoted(),),
        hint=(Hint(f"kubectl get rayclusters -n {context.namespace}"), cancel_hint(context)),
        since=event.first,
    )


def driver_failed(context: JobContext) -> Finding | None:
    """The driver said why it ended."""
    job, failure = context.job, context.report.failure
    if job is None or failure is None:
        return None
    restart = f"rayllm-ctl batch resume {context.name} -n {context.namespace}"
    told = sentence_hints(failure.message, deploy=context.deploy, restart=restart)
    if failure.hint:
        told = (read_hint(failure.hint),)
    elif not told and failure.code in _HINTS:
        told = (_HINTS[failure.code].format(ns=context.namespace),)
    again = Hint(context.deploy, "after correcting it") if failure.rejected else resume_hint(context)
    return finding(
        failure.code,
        job.subject,
        failure.message or "the driver gave no reason",
        headline=one_line(failure.message, 160) or "the driver failed",
        evidence=(f"driver: {failure.code}: {one_line(failure.message, 400)}", job.status),
        hint=(*told, logs_hint(context), again),
        terminal=failure.rejected or job.over,
        since=job.ended,
    )


def too_many_errors(context: JobContext) -> Finding | None:
    """Every row has been tried, and more of them than allowed have an error."""
    job, result = context.job, context.report.result
    if job is None or result is None or context.too_many_errors is not True:
        return None
    allowed = fields.integer(context.settings, "job", "maxErrors", default=-1)
    most = f", {allowed:,} allowed" if allowed >= 0 else ""
    return finding(
        "TooManyRowErrors",
        job.subject,
        f"{result.errors:,} of {result.rows:,} rows have an error in place of an answer{most}",
        headline=f"{result.errors:,} of {result.rows:,} rows have an error",
        evidence=(*(f"{row.row_id}: {one_line(row.error, 200)}" for row in result.first_errors), job.status),
        hint=(
            Hint(f"rayllm-ctl batch head {context.name} -n {context.namespace}", "the column error says why"),
            Hint(f"{context.deploy} --max-errors {result.errors}", "accept as many"),
        ),
        terminal=True,
        since=job.ended,
    )


def deadline(context: JobContext) -> Finding | None:
    """KubeRay ended it for a deadline of its spec."""
    job = context.job
    if job is None or not job.over or job.reason not in _LIMITS:
        return None
    field, words = _LIMITS[job.reason]
    what = words.format(seconds=fields.integer(job.item, "spec", field))
    return finding(
        job.reason,
        job.subject,
        f"KubeRay ended the job: {what} (spec.{field})",
        headline=what,
        evidence=(job.status, job.message),
        hint=(Hint(f"{context.deploy} --deadline DURATION", "a longer one"), resume_hint(context)),
        terminal=True,
        since=job.ended,
    )


def stopped(context: JobContext) -> Finding | None:
    """The Ray job was stopped through Ray, by somebody or by a deletion that was taken back."""
    job = context.job
    if job is None or job.job != "STOPPED":
        return None
    # A driver that stops itself says why, and its log comes through the submitter.
    unread = context.pods_unread
    if not job.over and (unread or any(pod.running for pod in context.submitters)):
        return None
    why = "; whether somebody or its driver did so is unknown: the driver's log could not be read" if unread else ""
    return finding(
        "JobStopped",
        job.subject,
        f"the Ray job was stopped before it was done{why}",
        headline="the Ray job was stopped",
        evidence=(job.status, one_line(job.message, 300)),
        hint=(*((logs_hint(context),) if unread else ()), resume_hint(context)),
        terminal=True,
        since=job.ended,
    )


def submission_failed(context: JobContext) -> Finding | None:
    """The submitter could not hand the driver to Ray, or lost it, in all its tries."""
    job = context.job
    if job is None or job.reason != "SubmissionFailed":
        return None
    said = last_line(context.log)
    pod = context.submitters[0].subject if context.submitters else job.subject
    return finding(
        "SubmitterFailed",
        pod,
        f"the submitter could not start the driver, or lost it: {one_line(said or job.message, 300)}",
        headline="the submitter failed",
        evidence=(job.status, one_line(job.message, 300), f"log of the submitter: {said}" if said else ""),
        hint=(logs_hint(context), resume_hint(context)),
        terminal=job.over,
        since=job.ended,
    )


def driver_lost(context: JobContext) -> Finding | None:
    """Ray does not know the driver any more: it ended with the head that it ran on."""
    job = context.job
    if job is None or job.deployment not in ("Failed", "Retrying"):
        return None
    unknown = job.reason == _APP_FAILED and job.job != "FAILED"
    if not unknown and job.reason not in (_NEVER_ENDED, _UNREAD):
        return None
    unread = job.reason == _UNREAD
    return finding(
        "DriverLost",
        job.subject,
        "Ray on the head did not answer KubeRay for minutes, and KubeRay gave up the job: the head is gone, or a "
        "network policy keeps the operator from it"
        if unread
        else "Ray does not know the driver any more: the head on which it ran was restarted or replaced",
        headline="KubeRay did not reach Ray" if unread else "the driver was lost with the head",
        evidence=(job.status, one_line(job.message, 300)),
        hint=(
            resume_hint(context),
            Hint(f"kubectl get networkpolicy -n {context.namespace}")
            if unread
            else Hint(f"kubectl get events -n {context.namespace}"),
        ),
        terminal=job.over,
        since=job.ended,
    )


def ended_without_a_word(context: JobContext) -> Finding | None:
    """It failed, and the driver has left no reason: it was killed, or never got so far."""
    job = context.job
    if job is None or job.deployment not in ("Failed", "Retrying"):
        return None
    said = last_line(context.log) or last_line(job.message)
    return finding(
        "Failed",
        job.subject,
        f"the driver ended without giving a reason{f': {said}' if said else ''}",
        headline="the driver ended without giving a reason",
        evidence=(job.status, f"last line: {said}" if said else one_line(job.message, 300)),
        hint=(logs_hint(context), resume_hint(context)),
        terminal=job.over,
        since=job.ended,
    )


def logs_hint(context: JobContext) -> Hint:
    """Look at the log of the driver."""
    return Hint(f"rayllm-ctl batch logs {context.name} -n {context.namespace}")


def resume_hint(context: JobContext) -> Hint:
    """Run it again."""
    return Hint(f"rayllm-ctl batch resume {context.name} -n {context.namespace}", "does only what is missing")


def cancel_hint(context: JobContext) -> Hint:
    """Delete it."""
    return Hint(f"rayllm-ctl batch cancel {context.name} -n {context.namespace}", "then submit a corrected one")
