"""Models that are not in their storage yet: why their Jobs fail or do not proceed.

Pods that wait for a model in an init container are a consequence: of them nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.model_jobs import Attempt, ModelJob, container_of
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.rules import images, refusals, starts, storage
from rayllm_ctl.health.rules.modelstorage.hints import claim_field, download_hints, job_hints, log_hint, source_field
from rayllm_ctl.health.rules.scheduling import machines, scheduling
from rayllm_ctl.health.sentences.exceptions import last_line, one_line
from rayllm_ctl.model.kube.model_downloads import COPY_CONTAINER, DOWNLOAD_CONTAINER, WAIT_CONTAINER
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.model_downloads import DownloadFailure, format_bytes, read_download_log
from rayllm_ctl.model.text.hint import Hint

STUCK = 120.0
"""Seconds without a byte after which a download counts as stuck."""

SLOW = 5e6
"""Bytes per second below which a download counts as slow: a model of 60 GB takes more than three hours."""

_WARMED_UP = 30.0
"""Seconds of a download before its rate means something."""

_START = 30.0
"""Seconds for the Job controller to create a pod, or for pods to see that a model is complete."""

_POD_RULES: tuple[Callable[[ServiceContext, Pod], Finding | None], ...] = (
    machines.node_lost,
    starts.rejected,
    scheduling.gated,
    scheduling.unschedulable,
    storage.unprovisioned,
    scheduling.overlooked,
    images.image,
    storage.configuration,
    storage.unmounted,
    starts.no_sandbox,
)
"""Why a pod of a Job does not start."""

_READ_ONLY = re.compile(r"read-only file ?system|EROFS", re.I)


def download_findings(context: ServiceContext) -> list[Finding]:
    """The causes for which models are not there, by Job."""
    found = [one for job in context.model_jobs if (one := _of_job(context, job)) is not None]
    missing = _no_job(context)
    return [*found, missing] if missing is not None else found


def retrying_after(context: ServiceContext, job: ModelJob) -> Finding | None:
    """Why the attempt before the present one failed: a remark while the download proceeds."""
    if not job.downloading or not job.attempts:
        return None
    return _failed(context, job, job.attempts[0])


def slow(context: ServiceContext, job: ModelJob, limit: float) -> Finding | None:
    """A download that takes longer than a start may, or is far slower than networks usually are. limit: in seconds."""
    progress, current = job.report.progress, job.current
    container = container_of(current) if current is not None else None
    if not job.downloading or progress is None or progress.phase != "fetching" or container is None:
        return None
    if context.age(container.started) < _WARMED_UP or not progress.total:
        return None
    rate, left = progress.rate, progress.seconds_left
    crawls = rate is not None and 0 < rate < SLOW
    late = left is not None and left > limit
    if not (crawls or late):
        return None
    at = f" at {format_bytes(rate)}/s" if rate is not None else ""
    time = f"; {format_duration(left)} left, and a start may take {format_duration(limit)}" if late and left else ""
    return finding(
        "DownloadSlow",
        job.subject,
        f"{job.model} downloads{at}: {format_bytes(progress.bytes)} of {format_bytes(progress.total)}{time}",
        headline=f"{job.model} downloads slowly",
        evidence=(_line_of(job),),
        hint=(
            Hint(f"kubectl top pod -n {context.namespace} --containers", "CPU of the container download"),
            Hint(remark=f"HF_ENDPOINT of a mirror nearby, or a bucket as {source_field(context)}"),
        ),
        since=job.created,
        key=(job.name,),
    )


def _of_job(context: ServiceContext, job: ModelJob) -> Finding | None:
    if job.complete:
        return _incomplete_after_all(context, job)
    reason, message = job.over
    last = job.attempts[0] if job.attempts else None
    if reason or (last is not None and last.final):
        return _failed(context, job, last, reason, message)
    if job.suspended:
        return _suspended(context, job)
    current = job.current
    if current is None:
        if last is not None:
            return _failed(context, job, last)
        return refusals.job_refused(context, job.name) if job.item else None
    if not current.up:
        return next(filter(None, (rule(context, current) for rule in _POD_RULES)), None)
    return machines.node_lost(context, current) or _hindered(context, job) or _stuck(context, job)


def _failed(
    context: ServiceContext, job: ModelJob, attempt: Attempt | None, reason: str = "", message: str = ""
) -> Finding:
    """A failed attempt, or the failed Job. reason, message: of the Job's condition."""
    code, why = _why(context, attempt)
    over = bool(reason) or (attempt is not None and attempt.final)
    outcome, count = "failed" if over else "fails, and is retried", len(job.attempts)
    again = "" if over else f"; attempt {count} of {job.retries + 1} failed, and the Job starts another"
    evidence = [f"{job.subject}: condition Failed, {reason}: {one_line(message, 300)}" if reason else ""]
    if attempt is not None:
        ended = attempt.ended
        told = f": exit code {ended.code}, {ended.reason or 'no reason'}" if ended is not None else ""
        evidence.append(f"{attempt.pod.subject}: {DOWNLOAD_CONTAINER} terminated{told}: {one_line(why.message, 400)}")
    since = (attempt.finished if attempt is not None else None) or job.over_since or job.created
    return finding(
        code,
        job.subject,
        f"the download of {job.model} failed: {why.message.rstrip('.') or reason}{again}",
        headline=f"the download of {job.model} {outcome}{_HEADLINES.get(code, '')}",
        evidence=evidence if any(evidence) else (f"{job.subject}: failed",),
        hint=(*download_hints(context, job, code, why), *job_hints(context, job, over=over)),
        terminal=over,
        since=since,
        key=(job.name,),
        waits=True,
    )


_HEADLINES = {
    "DownloadUnauthorized": ": the source denies access",
    "DownloadNotFound": ": the source has no such model",
    "DownloadThrottled": ": the source limits the rate of requests",
    "DownloadUnreachable": ": the source cannot be reached",
    "DownloadNoSpace": ": the volume is full",
    "DownloadCorrupt": ": a file is damaged",
    "OOMKilled": ": out of memory",
    "Evicted": ": its pod was evicted",
}


def _why(context: ServiceContext, attempt: Attempt | None) -> tuple[str, DownloadFailure]:
    """Code and reason of a failed attempt: what it said, or else how its container or pod ended."""
    if attempt is None:
        pods = "its pods could not be read" if context.unread("Pod") else "no pod of it is left"
        return "DownloadFailed", DownloadFailure("DownloadFailed", f"its Job failed, and {pods}")
    pod, ended = attempt.pod, attempt.ended
    if ended is not None and ended.reason == "OOMKilled":
        limit = pod.memory_limit or "that of the node"
        return "OOMKilled", DownloadFailure("OOMKilled", f"its container was OOMKilled; the memory limit is {limit}")
    if fields.text(pod.item, "status", "reason") == "Evicted":
        told = fields.text(pod.item, "status", "message")
        return "Evicted", DownloadFailure("Evicted", f"its pod was evicted: {told or 'no reason given'}")
    if attempt.failure is not None:
        return attempt.failure.code, attempt.failure
    said = last_line(context.container_log(pod.name, DOWNLOAD_CONTAINER)) or (ended.message if ended else "")
    code = f"exit code {ended.code}" if ended is not None else f"phase {pod.phase}"
    told = fields.text(pod.item, "status", "message")
    read_only = f"; {claim_field(context, pod)} is read-only" if _READ_ONLY.search(said) else ""
    detail = one_line(said or told, 300)
    return "DownloadFailed", DownloadFailure("DownloadFailed", f"{code}{f': {detail}' if detail else ''}{read_only}")


def _hindered(context: ServiceContext, job: ModelJob) -> Finding | None:
    """The source does not answer as it should: requests are repeated, and the download may still succeed."""
    why = job.report.trouble
    if why is None:
        return None
    return finding(
        why.code,
        job.subject,
        f"the download of {job.model} does not proceed: {why.message.rstrip('.')}; its requests are repeated",
        headline=f"the download of {job.model} does not proceed{_HEADLINES.get(why.code, '')}",
        evidence=(f"log of {DOWNLOAD_CONTAINER}: {why.message}",),
        hint=download_hints(context, job, why.code, why),
        since=job.report.troubled or job.created,
        key=(job.name,),
        waits=True,
    )


def copy_hindered(context: ServiceContext, pod: Pod) -> Finding | None:
    """A pod whose init container copies the model, and whose bucket does not answer as it should."""
    container = pod.init_container(COPY_CONTAINER)
    if container is None or container.state != "running":
        return None
    why = read_download_log(context.container_log(pod.name, COPY_CONTAINER, current=True)).trouble
    if why is None:
        return None
    return finding(
        why.code,
        pod.subject,
        f"{pod.subject} waits for the copy of its model: {why.message.rstrip('.')}; its requests are repeated",
        headline=f"the copy of the model does not proceed{_HEADLINES.get(why.code, '')}",
        evidence=(f"log of {COPY_CONTAINER}: {why.message}",),
        hint=(
            *((Hint(remark=why.hint),) if why.hint else ()),
            Hint(f"kubectl logs {pod.name} -c {COPY_CONTAINER} -n {context.namespace}"),
        ),
        since=container.started,
        key=("copy",),
        waits=True,
    )


def _stuck(context: ServiceContext, job: ModelJob) -> Finding | None:
    """No byte for minutes, by the times of the Job's own lines."""
    progress, moved = job.report.progress, job.report.moved
    if progress is None or progress.at is None or moved is None or progress.phase == "verifying":
        return None
    # The clock of the node may differ from the one here: the lines among themselves count first.
    still = max((progress.at - moved).total_seconds(), context.age(progress.at))
    if still < STUCK:
        return None
    silent = context.age(progress.at) >= STUCK
    waited = format_duration(context.age(moved))
    doing = f"at {format_bytes(progress.bytes)} of {format_bytes(progress.total)}" if progress.total else progress.phase
    file = f", in {progress.file}" if progress.file else ""
    return finding(
        "DownloadStuck",
        job.subject,
        f"the download of {job.model} has received nothing for {waited}, since {moved:%H:%M:%S}: {doing}{file}"
        + ("; it has logged nothing either" if silent else ""),
        headline=f"the download of {job.model} is stuck",
        evidence=(_line_of(job), f"{job.subject}: {progress.bytes} bytes since {moved:%Y-%m-%d %H:%M:%S}"),
        hint=(
            Hint(
                f"kubectl delete pod {job.current.name if job.current else ''} -n {context.namespace}",
                "the Job starts another pod, which continues where this one stopped",
            ),
            log_hint(context, job),
            Hint(f"kubectl get networkpolicy -n {context.namespace}", "one that blocks the source"),
        ),
        since=moved,
        key=(job.name,),
        waits=True,
    )


def _suspended(context: ServiceContext, job: ModelJob) -> Finding:
    return finding(
        "SchedulingGated",
        job.subject,
        f"{job.subject} is suspended: {job.model} is not downloaded until it is resumed",
        headline="the download is suspended",
        evidence=(f"{job.subject}: spec.suspend true",),
        hint=(
            Hint(f"kubectl get workloads.kueue.x-k8s.io -n {context.namespace}"),
            Hint(f'kubectl patch job {job.name} -n {context.namespace} -p \'{{"spec":{{"suspend":false}}}}\''),
        ),
        since=job.created,
        key=(job.name,),
    )


def _incomplete_after_all(context: ServiceContext, job: ModelJob) -> Finding | None:
    """The Job is complete, and pods still find the model incomplete: its files were changed or removed since."""
    ended = fields.when(job.item, "status", "completionTime")
    said = [(pod, why) for pod in waiting_pods(context) if (why := _lacks(context, pod))]
    if not said or ended is None or context.age(ended) < _START:
        return None
    pod, why = said[0]
    return finding(
        "DownloadCorrupt",
        job.subject,
        f"{job.subject} is complete, and {pod.subject} still waits for the model: {why}; its files were changed or "
        "removed since, or the claim is another one",
        headline=f"the storage no longer has {job.model}",
        evidence=(f"log of {WAIT_CONTAINER}: {why}", f"{job.subject}: Complete since {ended:%Y-%m-%d %H:%M:%S}"),
        hint=job_hints(context, job, over=True),
        since=ended,
        key=(job.name,),
        waits=True,
    )


def _no_job(context: ServiceContext) -> Finding | None:
    """Pods wait for a model that nothing downloads."""
    waiting = waiting_pods(context)
    since = _waiting_since(waiting)
    if context.model_jobs or context.unread("Job") or not waiting or context.age(since) < _START:
        return None
    pod = waiting[0]
    why = _lacks(context, pod)
    return finding(
        "DownloadFailed",
        pod.subject,
        f"{pod.subject} waits for its model in the init container {WAIT_CONTAINER}, and there is no Job that downloads "
        f"it{f': {why}' if why else ''}",
        headline="nothing downloads the model",
        evidence=(
            f"{pod.subject}: init container {WAIT_CONTAINER} is running",
            f"log of {WAIT_CONTAINER}: {why}" if why else "",
            f"namespace {context.namespace}: no Job with the label app.kubernetes.io/component=model-download",
        ),
        hint=(Hint(context.deploy, "creates the Job, if the model's storage is a mirror"),
              Hint(f"kubectl logs {pod.name} -c {WAIT_CONTAINER} -n {context.namespace}")),
        since=since,
        key=("no job",),
        waits=True,
    )  # fmt: skip


def waiting_pods(context: ServiceContext) -> list[Pod]:
    """The pods that wait for a model in their init container."""
    waits = ((pod, pod.init_container(WAIT_CONTAINER)) for pod in context.pods if pod.alive)
    return [pod for pod, one in waits if one is not None and one.state == "running"]


def _waiting_since(pods: list[Pod]) -> datetime | None:
    containers = [pod.init_container(WAIT_CONTAINER) for pod in pods]
    return min((one.started for one in containers if one is not None and one.started), default=None)


def _lacks(context: ServiceContext, pod: Pod) -> str:
    """What a pod says that it waits for; empty if its log was not read."""
    return read_download_log(context.container_log(pod.name, WAIT_CONTAINER, current=True)).waiting


def _line_of(job: ModelJob) -> str:
    """The newest line of progress as evidence."""
    progress = job.report.progress
    if progress is None:
        return ""
    rate = f", {format_bytes(progress.rate)}/s" if progress.rate is not None else ""
    at = f" at {progress.at:%H:%M:%S}" if progress.at is not None else ""
    return f"log of {DOWNLOAD_CONTAINER}{at}: {progress.phase}, {progress.bytes} of {progress.total} bytes{rate}"
