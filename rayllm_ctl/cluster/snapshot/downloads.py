"""The Jobs that download models of a service or batch job, with their pods and the ends of their logs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.api.reader import Objects, Reader
from rayllm_ctl.cluster.snapshot.container_logs import timed_tails
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.cluster_spec import cluster_spec
from rayllm_ctl.model.kube.labels import BATCH, COMPONENT, INSTANCE, SERVICE
from rayllm_ctl.model.kube.model_downloads import COPY_CONTAINER, DOWNLOAD_COMPONENT, DOWNLOAD_CONTAINER, WAIT_CONTAINER
from rayllm_ctl.model.observed import fields

TAIL_LINES = 200
"""Lines from the end of the log of a download, which logs its progress every 2 s: enough to see that it is stuck."""

ListObjects = Callable[[str, str], Objects]
"""The objects of a kind with a label selector."""


def waits_for_model(workload: Mapping[str, Any] | None) -> bool:
    """Whether pods of a RayService, RayCluster or RayJob wait for a model: only then is there a Job to look for."""
    spec = cluster_spec(workload or {})
    groups = (fields.mapping(spec, "headGroupSpec"), *fields.items(spec, "workerGroupSpecs"))
    containers = (one for group in groups for one in fields.items(group, "template", "spec", "initContainers"))
    return any(one.get("name") in (WAIT_CONTAINER, COPY_CONTAINER) for one in containers)


def list_downloads(tasks: Tasks, list_objects: ListObjects, name: str, *, batch: bool = False) -> list[Future[Objects]]:
    """The Jobs that download models of the service or batch job `name`, and their pods."""
    jobs = f"{COMPONENT}={DOWNLOAD_COMPONENT},{INSTANCE}={name}"
    pods = f"{COMPONENT}={DOWNLOAD_COMPONENT},{BATCH if batch else SERVICE}={name}"
    return [tasks.submit(list_objects, "Job", jobs), tasks.submit(list_objects, "Pod", pods)]


def is_about_download(name: str, jobs: Collection[str]) -> bool:
    """Whether an event about an object called `name` is about one of these Jobs or a pod of one."""
    return any(name == job or name.startswith(f"{job}-") for job in jobs)


def download_job_names(downloads: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """The names of the Jobs that download models, among other objects."""
    labels = ((one, one["metadata"].get("labels") or {}) for one in downloads if one["kind"] == "Job")
    return frozenset(
        str(one["metadata"]["name"]) for one, found in labels if found.get(COMPONENT) == DOWNLOAD_COMPONENT
    )


def download_pods(downloads: Objects) -> Objects:
    """The pods that have not succeeded: of others nothing more is read."""
    return [one for one in downloads if one["kind"] == "Pod" and (one.get("status") or {}).get("phase") != "Succeeded"]


def download_logs(reader: Reader, downloads: Objects, pods: Objects, tasks: Tasks) -> dict[str, str]:
    """The end of the log of each Job's newest pod, and of one of `pods` that waits for its model or copies it."""
    newest: dict[str, Mapping[str, Any]] = {}
    for pod in sorted(download_pods(downloads), key=_age):
        newest[str((pod["metadata"].get("labels") or {}).get(kuberay.JOB_NAME))] = pod
    began = [pod for pod in newest.values() if (pod.get("status") or {}).get("phase") in ("Running", "Failed")]
    wanted = [(pod, DOWNLOAD_CONTAINER) for pod in began]
    for container in (WAIT_CONTAINER, COPY_CONTAINER):
        wanted += [(pod, container) for pod in pods if _runs(pod, container)][:1]
    return timed_tails(reader, wanted, tasks, TAIL_LINES)


def _age(pod: Mapping[str, Any]) -> tuple[bool, str]:
    """Sorts pods of a Job: those that have ended first, then the older ones."""
    return (pod.get("status") or {}).get("phase") != "Failed", str(pod["metadata"].get("creationTimestamp", ""))


def _runs(pod: Mapping[str, Any], container: str) -> bool:
    states = fields.items(pod, "status", "initContainerStatuses")
    return any(one.get("name") == container and fields.at(one, "state", "running") is not None for one in states)
