"""A service whose pods wait for a model that is being downloaded: in progress, and never more than that."""

from __future__ import annotations

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.model_jobs import ModelJob
from rayllm_ctl.health.result import make_health
from rayllm_ctl.health.rules.modelstorage.downloads import download_findings, retrying_after, slow
from rayllm_ctl.health.rules.overdue import LIMIT, start_limit
from rayllm_ctl.health.serving import is_serving
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.observed.health import Health, State
from rayllm_ctl.model.observed.model_downloads import DownloadState, format_figures
from rayllm_ctl.model.text.hint import Hint

_DOING = {
    DownloadState.PENDING: "waiting for the download of",
    DownloadState.DOWNLOADING: "downloading",
    DownloadState.VERIFYING: "verifying",
}


def unfinished_downloads(context: ServiceContext) -> list[ModelJob]:
    """The Jobs whose models are not complete."""
    return [job for job in context.model_jobs if not job.complete]


def is_downloading(context: ServiceContext) -> bool:
    """Whether a service that does not serve waits for its models."""
    return bool(unfinished_downloads(context)) and not is_serving(context)


def downloading_health(context: ServiceContext) -> Health | None:
    """Its state while the downloads proceed; None if it does not wait for any.

    The message has no figures, which change all the time: those are in `downloads`.
    """
    jobs = unfinished_downloads(context)
    if not jobs or is_serving(context):
        return None
    message = ", ".join(f"{_DOING.get(job.view.state, 'downloading')} {job.model}" for job in jobs)
    began = [moment for job in jobs if (moment := job.created) is not None]
    since = min(began, default=None)
    note = finding(
        "StillStarting",
        jobs[0].subject,
        message,
        headline=message,
        evidence=[_evidence(context, job) for job in jobs],
        hint=(Hint(f"rayllm-ctl watch {context.name} -n {context.namespace}"),),
        since=since,
    )
    return make_health(context, State.PROGRESSING, message, _remarks(context, jobs) or [note], since)


def download_health(context: ServiceContext) -> Health | None:
    """The state of a service that is applied once its models are there; None if it does not wait for any."""
    found = download_findings(context)
    if not found or not unfinished_downloads(context):
        return downloading_health(context)
    final = any(one.cause.terminal for one in found)
    return make_health(context, State.FAILED if final else State.STUCK, found[0].headline, found)


def _remarks(context: ServiceContext, jobs: list[ModelJob]) -> list[Finding]:
    """Why a download is slow, and why the attempt before it failed."""
    limit = max((start_limit(cluster) for cluster in context.clusters), default=LIMIT)
    found = (one for job in jobs for one in (retrying_after(context, job), slow(context, job, limit)))
    return [one for one in found if one is not None]


def _evidence(context: ServiceContext, job: ModelJob) -> str:
    figures, age = format_figures(job.view), format_duration(context.age(job.created))
    return f"{job.subject}: {job.view.state}{f', {figures}' if figures else ''}, for {age}"
