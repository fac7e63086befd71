"""What is true of a batch job beside what ended it: its tries, a suspension, a head that is on its way back."""

from __future__ import annotations

from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.jobcontext import JobContext
from rayllm_ctl.health.rules.jobs.job import logs_hint, resume_hint
from rayllm_ctl.model.kube.labels import QUEUE
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint


def job_head_down(context: JobContext) -> Finding | None:
    """The head is missing or starts again while the driver should run on it."""
    job = context.job
    cluster = next((one for one in context.clusters if one.provisioned), None)
    if job is None or job.deployment != "Running" or cluster is None:
        return None
    head = cluster.head
    if (head is not None and head.ready) or (head is None and cluster.unseen):
        return None
    what = f"{head.subject} is not ready" if head else "there is no head pod"
    return finding(
        "HeadDown",
        head.subject if head else cluster.subject,
        f"the head of {cluster.name} is down: {what}; the driver is started again with it, and continues with what is "
        "missing",
        headline=f"the head is down: {what}",
        evidence=(
            f"{head.subject}: phase {head.phase}, not ready" if head else f"{cluster.subject}: no live head pod",
        ),
        hint=(Hint(f"rayllm-ctl batch watch {context.name} -n {context.namespace}"),),
        since=head.created if head else None,
        recovers=True,
    )


def retrying(context: JobContext) -> Finding | None:
    """An earlier try has failed, and KubeRay makes another: a remark."""
    job = context.job
    if job is None or job.over or job.failed < 1 or job.suspended:
        return None
    return finding(
        "Retrying",
        job.subject,
        f"attempt {job.failed + 1} of {job.retries + 1}: {job.failed} failed before it; what is done is not done again",
        headline=f"attempt {job.failed + 1} of {job.retries + 1}",
        evidence=(f"{job.subject}: status.failed {job.failed}, spec.backoffLimit {job.retries}",),
        hint=(logs_hint(context),),
        recovers=True,
    )


def given_up(context: JobContext) -> Finding | None:
    """All tries have failed."""
    job = context.job
    if job is None or job.deployment != "Failed" or job.failed < 2 or job.failed <= job.retries:
        return None
    return finding(
        "BackoffLimitExceeded",
        job.subject,
        f"KubeRay has tried it {job.failed} times and does not try again",
        headline=f"all {job.failed} attempts failed",
        evidence=(f"{job.subject}: status.failed {job.failed}, spec.backoffLimit {job.retries}",),
        hint=(resume_hint(context),),
        terminal=True,
        since=job.ended,
    )


def job_suspended(context: JobContext) -> Finding | None:
    """It is suspended: by a queue such as Kueue, or by somebody."""
    job = context.job
    if job is None or not job.suspended:
        return None
    queue = fields.label(job.item, QUEUE)
    who = f"the queue {queue} of Kueue has not admitted it" if queue else "spec.suspend is set"
    resume = Hint(
        f'kubectl patch rayjob {job.name} -n {context.namespace} --type merge -p \'{{"spec":{{"suspend":false}}}}\''
    )
    return finding(
        "Suspended",
        job.subject,
        f"the job is suspended and has no pods: {who}",
        headline=f"suspended: {who}",
        evidence=(job.status, "spec.suspend true" if fields.flag(job.item, "spec", "suspend") else ""),
        hint=(Hint(f"kubectl get workloads.kueue.x-k8s.io -n {context.namespace}") if queue else resume,),
    )
