"""The Jobs that download models of a service, with their pods and what these tell.

Conditions of a Job and their reasons: k8s.io/api/batch/v1 (JobComplete, JobFailed, JobFailureTarget, JobSuspended).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.objects.pod import Container, Exit, Pod, read_pod
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import BATCH, COMPONENT, INSTANCE, SERVICE
from rayllm_ctl.model.kube.model_downloads import DOWNLOAD_COMPONENT, DOWNLOAD_CONTAINER, SOURCE_ANNOTATION
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.observed.model_downloads import (
    FINAL,
    FINAL_EXIT,
    DownloadFailure,
    DownloadReport,
    DownloadState,
    ModelDownload,
    read_download_log,
    read_termination_message,
)

_HASH = re.compile(r"-[0-9a-f]{8}$")


@dataclass(frozen=True)
class Attempt:
    """A pod of the Job that has ended without a complete model. failure: what it said; None if it said nothing."""

    pod: Pod
    ended: Exit | None
    failure: DownloadFailure | None

    @property
    def final(self) -> bool:
        """Whether another attempt would fail in the same way; the Job starts none then."""
        told = self.failure is not None and self.failure.code in FINAL
        return told or (self.ended is not None and self.ended.code == FINAL_EXIT)

    @property
    def finished(self) -> datetime | None:
        return self.ended.finished if self.ended is not None else None


@dataclass(frozen=True)
class ModelJob:
    """A Job that downloads a model. item: empty if only its pods could be read. pods: the newest first.

    report: what the log of the newest pod tells.
    """

    name: str
    item: Object
    pods: tuple[Pod, ...]
    attempts: tuple[Attempt, ...]
    report: DownloadReport

    @property
    def subject(self) -> str:
        return f"job/{self.name}"

    @property
    def source(self) -> str:
        """The URI of the model; empty if it is unknown."""
        return fields.annotation(self.item, SOURCE_ANNOTATION)

    @property
    def model(self) -> str:
        """The model for people."""
        return self.source.removeprefix("hf://") or f"the model of {self.name}"

    @property
    def complete(self) -> bool:
        """Whether the model is complete: the Job says so, or a pod of it has succeeded."""
        done = any(_holds(self.item, type_) for type_ in ("Complete", "SuccessCriteriaMet"))
        return done or any(pod.phase == "Succeeded" for pod in self.pods) or self.report.done is not None

    @property
    def over(self) -> tuple[str, str]:
        """Reason and message of the condition that says that it has failed; empty while it has not."""
        for type_ in ("Failed", "FailureTarget"):
            if _holds(self.item, type_):
                found = fields.condition(self.item, type_)
                return fields.text(found, "reason") or type_, fields.text(found, "message")
        return "", ""

    @property
    def over_since(self) -> datetime | None:
        return fields.when(fields.condition(self.item, "Failed"), "lastTransitionTime") or fields.when(
            fields.condition(self.item, "FailureTarget"), "lastTransitionTime"
        )

    @property
    def suspended(self) -> bool:
        return fields.flag(self.item, "spec", "suspend")

    @property
    def retries(self) -> int:
        """How many attempts may fail before the Job does (spec.backoffLimit; 6 by default)."""
        return fields.integer(self.item, "spec", "backoffLimit", default=6)

    @property
    def current(self) -> Pod | None:
        """The pod of the present attempt; None between two."""
        return next((pod for pod in self.pods if pod.alive), None)

    @property
    def downloading(self) -> bool:
        """Whether its container runs now."""
        return self.current is not None and self.current.up

    @property
    def created(self) -> datetime | None:
        return fields.created(self.item) or min((pod.created for pod in self.pods if pod.created), default=None)

    @cached_property
    def view(self) -> ModelDownload:
        """What of it is shown to users and programs."""
        progress = self.report.progress if self.downloading else None
        total = progress.total if progress is not None and progress.total else None
        done = progress.bytes if progress is not None and total else None
        return ModelDownload(
            job=self.name,
            source=self.source,
            state=self._state,
            attempt=max(1, len(self.attempts) + (self.current is not None or self.complete)),
            bytes=done,
            total=total,
            percent=min(100, int(done * 100 / total)) if done is not None and total else None,
            resumed=progress.resumed if progress is not None else None,
            files=progress.files if progress is not None and total else None,
            files_total=progress.of if progress is not None and total else None,
            bytes_per_second=progress.rate if progress is not None and total else None,
            seconds_left=progress.seconds_left if progress is not None and total else None,
            since=self.created,
        )

    @property
    def _state(self) -> DownloadState:
        if self.complete:
            return DownloadState.COMPLETE
        if self.over[0] or any(one.final for one in self.attempts):
            return DownloadState.FAILED
        if self.downloading:
            verifying = self.report.progress is not None and self.report.progress.phase == "verifying"
            return DownloadState.VERIFYING if verifying else DownloadState.DOWNLOADING
        if self.attempts:
            return DownloadState.RETRYING
        return DownloadState.PENDING


def read_model_jobs(
    objects: Iterable[Object], name: str, logs: Mapping[str, str], *, batch: bool
) -> tuple[ModelJob, ...]:
    """The newest Job of each model of the service `name`, or of the batch job. objects: Jobs and pods of its namespace.

    A Job whose spec changed is another one, with another hash at the end of its name, and replaces the one before.
    """
    mine = [item for item in objects if _is_of(item, name, batch=batch)]
    by_job: dict[str, list[Pod]] = {}
    for item in mine:
        if fields.kind(item) == "Pod":
            by_job.setdefault(fields.label(item, kuberay.JOB_NAME), []).append(read_pod(item))
    known = {fields.name(one): one for one in mine if fields.kind(one) == "Job" and fields.deleted(one) is None}
    # Pods of which the Job is gone are being deleted with it; without a right to list Jobs they are all there is.
    left = [
        job for job, pods in by_job.items() if job and job not in known and any(pod.deleted is None for pod in pods)
    ]
    names = [*known, *left]
    newest: dict[str, ModelJob] = {}
    for each in names:
        job = _model_job(each, known.get(each, {}), by_job.get(each, []), logs)
        base = _HASH.sub("", each)
        if base not in newest or _age_of(newest[base]) <= _age_of(job):
            newest[base] = job
    return tuple(newest[base] for base in sorted(newest))


def container_of(pod: Pod) -> Container | None:
    """The container that downloads."""
    return next((one for one in pod.containers if one.name == DOWNLOAD_CONTAINER), pod.main)


def _model_job(name: str, item: Object, pods: Sequence[Pod], logs: Mapping[str, str]) -> ModelJob:
    newest = sorted(
        pods, key=lambda pod: (pod.phase != "Failed", pod.created.timestamp() if pod.created else 0.0), reverse=True
    )
    reports = {pod.name: read_download_log(logs.get(f"{pod.name}/{DOWNLOAD_CONTAINER}.log", "")) for pod in newest}
    report = reports[newest[0].name] if newest else DownloadReport()
    attempts = [_attempt(pod, reports[pod.name]) for pod in newest if pod.phase == "Failed" or _has_ended(pod)]
    return ModelJob(name, item, tuple(newest), tuple(attempts), report)


def _attempt(pod: Pod, report: DownloadReport) -> Attempt:
    container = container_of(pod)
    ended = (container.ended or container.last_ended) if container is not None else None
    told = read_termination_message(ended.message) if ended is not None else None
    return Attempt(pod, ended, told or report.failure)


def _has_ended(pod: Pod) -> bool:
    """Whether the container has failed, a moment before the pod's phase says so."""
    container = container_of(pod)
    return container is not None and container.ended is not None and container.ended.code != 0


def _is_of(item: Object, name: str, *, batch: bool) -> bool:
    owner = fields.label(item, BATCH) if batch else fields.label(item, INSTANCE) or fields.label(item, SERVICE)
    of_kind = fields.label(item, COMPONENT) == DOWNLOAD_COMPONENT
    return of_kind and owner == name and (batch or not fields.label(item, BATCH))


def _age_of(job: ModelJob) -> float:
    return job.created.timestamp() if job.created else 0.0


def _holds(item: Object, type_: str) -> bool:
    return fields.condition(item, type_).get("status") == "True"
