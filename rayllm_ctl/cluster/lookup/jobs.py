"""The batch jobs of a cluster by name, and the objects applied for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError, NotFoundError
from rayllm_ctl.cluster.lookup.services import find_object
from rayllm_ctl.model.kube.cluster_spec import cluster_spec
from rayllm_ctl.model.kube.labels import BATCH
from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.observed.batch_status import SETTINGS

KIND = "RayJob"


def is_batch(item: Mapping[str, Any]) -> bool:
    """Whether a RayJob is a batch job of rayllm-ctl."""
    metadata = item["metadata"]
    return bool((metadata.get("labels") or {}).get(BATCH) == metadata["name"])


def find_job(cluster: Cluster, name: str, namespace: str) -> dict[str, Any] | None:
    """The RayJob of a batch job; None if there is none. UserError if KubeRay is not installed."""
    job = find_object(cluster, KIND, name, namespace)
    return job if job is not None and is_batch(job) else None


def require_job(cluster: Cluster, name: str, namespace: str) -> dict[str, Any]:
    """The RayJob of a batch job. NotFoundError, with the nearest name, if there is none."""
    job = find_job(cluster, name, namespace)
    if job is None:
        raise no_such_job(cluster, name, namespace)
    return job


def no_such_job(cluster: Cluster, name: str, namespace: str) -> NotFoundError:
    """The error for a name that no batch job of the namespace has."""
    try:
        known = [job["metadata"]["name"] for job in cluster.list(KIND, namespace, label_selector=BATCH)]
    except ForbiddenError:
        known = []
    close = nearest(name, known)
    hints = [f"did you mean {close}?"] if close else []
    hints.append(f"rayllm-ctl batch list -n {namespace}")
    return NotFoundError(f"there is no batch job {name} in namespace {namespace}", status=404, hint=tuple(hints))


def pod_templates(job: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The specs of the pods with the same volumes as the driver: the head and the submitter."""
    spec = job.get("spec") or {}
    head = (cluster_spec(job).get("headGroupSpec") or {}).get("template") or {}
    submitter = spec.get("submitterPodTemplate") or {}
    yield from (template["spec"] for template in (head, submitter) if template.get("spec"))


def settings_map(cluster: Cluster, job: Mapping[str, Any]) -> dict[str, Any] | None:
    """The ConfigMap with the settings of a job; None if it is gone."""
    for name in config_maps(job):
        try:
            config_map = cluster.get("ConfigMap", name, job["metadata"]["namespace"])
        except NotFoundError:
            continue
        if SETTINGS in (config_map.get("data") or {}):
            return config_map
    return None


def config_maps(job: Mapping[str, Any]) -> list[str]:
    """Names of the ConfigMaps that these pods mount, one of which has the job's settings."""
    volumes = [volume for spec in pod_templates(job) for volume in spec.get("volumes") or ()]
    mounted = [volume.get("configMap") or {} for volume in volumes]
    for volume in volumes:
        mounted += [source.get("configMap") or {} for source in (volume.get("projected") or {}).get("sources") or ()]
    return list(dict.fromkeys(config_map["name"] for config_map in mounted if config_map.get("name")))
