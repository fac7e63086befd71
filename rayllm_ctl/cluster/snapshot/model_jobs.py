"""The Jobs that download models, before or without a service: themselves, their pods, and what tells why they wait."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.api.reader import Reader
from rayllm_ctl.cluster.snapshot.downloads import download_logs
from rayllm_ctl.cluster.snapshot.nodes import short_node
from rayllm_ctl.model.kube.kuberay import JOB_NAME
from rayllm_ctl.model.observed.health import Snapshot
from rayllm_ctl.model.workload import Right, Rights

DOWNLOAD_RIGHTS = Rights(
    needed=(Right("get", "Job"),),
    display=(
        Right("list", "Pod"), Right("get", "Pod", "log"), Right("list", "Event"),
        Right("get", "PersistentVolumeClaim"), Right("list", "Node"),
    ),
)  # fmt: skip
"""Rights to follow such Jobs."""

_UID = "batch.kubernetes.io/controller-uid"


def collect_model_jobs(cluster: Cluster, namespace: str, jobs: Collection[str]) -> Snapshot:
    """The Jobs of these names. Raises UserError if a Job cannot be read, or is gone.

    Events, claims and nodes are read while a Job has no running pod.
    """
    reader = Reader(cluster)
    with Tasks() as tasks:
        found = tasks.map(lambda job: cluster.get("Job", job, namespace), jobs)
        uids = {item["metadata"]["uid"] for item in found}
        listed = reader.list("Pod", namespace, f"{JOB_NAME} in ({','.join(jobs)})")
        # Not those of a Job of this name that was deleted a moment ago.
        pods = [pod for pod in listed if pod["metadata"]["labels"].get(_UID, "") in (*uids, "")]
        objects = [*({"apiVersion": "batch/v1", "kind": "Job", **item} for item in found), *pods]
        if not any((pod.get("status") or {}).get("phase") == "Running" for pod in pods):
            events = tasks.submit(reader.list, "Event", namespace)
            nodes = tasks.submit(reader.list, "Node")
            claims = tasks.map(lambda claim: reader.get("PersistentVolumeClaim", claim, namespace), _claims(found))
            objects += [*events.result(), *map(short_node, nodes.result()), *(one for some in claims for one in some)]
        logs = download_logs(reader, objects, [], tasks)
    return Snapshot(tuple(objects), datetime.now(UTC), {}, logs, tuple(sorted(reader.notes)), frozenset(reader.unread))


def _claims(jobs: Collection[Mapping[str, Any]]) -> list[str]:
    volumes = [volume for job in jobs for volume in job["spec"]["template"]["spec"].get("volumes") or ()]
    return list(
        {str(one["persistentVolumeClaim"]["claimName"]): None for one in volumes if "persistentVolumeClaim" in one}
    )
