"""Apply what a model's download needs before the service: claims, settings and code, and the Jobs."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import ForbiddenError, NotFoundError
from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.errors import WaitTimeoutError
from rayllm_ctl.model.events import Applied, Noted
from rayllm_ctl.model.kube.model_downloads import is_download
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_CLAIM = "PersistentVolumeClaim"
_GONE_SECONDS = 60.0
_LOOK_SECONDS = 0.5


def download_jobs(manifests: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The Jobs among `manifests` that download models."""
    return [item for item in manifests if is_download(item)]


def needed_first(manifests: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The objects that download a model: the Jobs, all claims, and what the pods of the Jobs mount or run as.

    Empty without such Jobs. Other ConfigMaps are applied with the service: running pods may mount them.
    """
    jobs = download_jobs(manifests)
    if not jobs:
        return []
    wanted = {pair for job in jobs for pair in _named(fields.mapping(job, "spec", "template", "spec"))}
    return [
        item for item in manifests
        if is_download(item) or item["kind"] == _CLAIM or (item["kind"], item["metadata"]["name"]) in wanted
    ]  # fmt: skip


def _named(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Kind and name of each object in the namespace that a pod uses."""
    yield "ServiceAccount", fields.text(pod, "serviceAccountName")
    for volume in fields.items(pod, "volumes"):
        for source in (volume, *fields.items(volume, "projected", "sources")):
            yield "ConfigMap", fields.text(source, "configMap", "name")
            yield "Secret", fields.text(source, "secret", "secretName") or fields.text(source, "secret", "name")
    for container in (*fields.items(pod, "initContainers"), *fields.items(pod, "containers")):
        for source in fields.items(container, "envFrom"):
            yield "ConfigMap", fields.text(source, "configMapRef", "name")
        for variable in fields.items(container, "env"):
            yield "ConfigMap", fields.text(variable, "valueFrom", "configMapKeyRef", "name")


def apply_downloads(
    cluster: Cluster, manifests: Sequence[Mapping[str, Any]], *, force_conflicts: bool, again: bool = False
) -> Generator[Applied | Noted, None, list[Applied]]:
    """Apply the objects of `needed_first`. A Job of the same name that failed, or lost its volume, is replaced; with
    `again` also one that is complete."""
    done = []
    for job in download_jobs(manifests):
        yield from replace_ended(cluster, job, again=again)
    for event, _ in apply(cluster, manifests, force_conflicts=force_conflicts):
        yield event
        done.append(event)
    return done


def replace_ended(cluster: Cluster, job: Mapping[str, Any], *, again: bool = False) -> Iterator[Noted]:
    """Delete the Job of this name if it has failed, filled a claim that has been replaced since, or is to run `again`.

    A Job that has ended runs no further pod, and cannot be changed. What it has downloaded stays in the volume, and a
    new one continues from there.
    """
    name, namespace = job["metadata"]["name"], job["metadata"].get("namespace") or cluster.namespace
    try:
        stored = cluster.get("Job", name, namespace)
    except NotFoundError:
        return
    uid = stored["metadata"]["uid"]
    if fields.deleted(stored) is None:
        if has_failed(stored):
            yield Noted(f"job/{name} has failed: it is deleted, and a new one continues the download")
        elif claim := _replaced_claim(cluster, stored, namespace):
            yield Noted(f"job/{name} filled another volume than persistentvolumeclaim/{claim} has now: it runs again")
        elif not (again and fields.when(stored, "status", "completionTime")):
            return
        cluster.delete("Job", name, namespace, uid=uid, background=True)
    deadline = time.monotonic() + _GONE_SECONDS
    while _exists(cluster, name, namespace, uid):
        if time.monotonic() >= deadline:
            raise WaitTimeoutError(
                f"job/{name} still exists {_GONE_SECONDS:.0f} s after it was deleted; nothing else was applied",
                hint=f"kubectl get job {name} -n {namespace} -o yaml    # its finalizers",
            )
        time.sleep(_LOOK_SECONDS)


def outdated_jobs(cluster: Cluster, jobs: Iterable[Object]) -> tuple[Object, ...]:
    """The complete Jobs among `jobs` whose claim has been replaced since."""
    return tuple(job for job in jobs if _replaced_claim(cluster, job, str(job["metadata"]["namespace"])))


def has_failed(job: Mapping[str, Any]) -> bool:
    """Whether a Job has failed for good (k8s.io/api/batch/v1, JobFailed and JobFailureTarget)."""
    return any(fields.condition(job, one).get("status") == "True" for one in ("Failed", "FailureTarget"))


def _replaced_claim(cluster: Cluster, job: Mapping[str, Any], namespace: str) -> str:
    """The claim that a complete Job did not write to, as it is missing or newer; empty if there is none."""
    ended = fields.when(job, "status", "completionTime")
    if ended is None:
        return ""
    for volume in fields.items(job, "spec", "template", "spec", "volumes"):
        name = fields.text(volume, "persistentVolumeClaim", "claimName")
        if not name:
            continue
        try:
            created = fields.created(cluster.get(_CLAIM, name, namespace))
        except NotFoundError:
            return name
        except ForbiddenError:
            continue
        if created is not None and created > ended:
            return name
    return ""


def _exists(cluster: Cluster, name: str, namespace: str, uid: str) -> bool:
    try:
        return bool(cluster.get("Job", name, namespace)["metadata"]["uid"] == uid)
    except NotFoundError:
        return False
