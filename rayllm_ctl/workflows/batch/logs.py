"""The log of a batch job's driver, which its submitter follows: it is there after the Ray cluster is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.lookup.jobs import require_job
from rayllm_ctl.cluster.snapshot.container_logs import stream
from rayllm_ctl.errors import UserError
from rayllm_ctl.kinds.rayjob import JOB_RIGHTS
from rayllm_ctl.model.kube import kuberay

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

POLL_SECONDS = 2.0
"""Seconds between two lookups of the submitter's pod."""

_ENDED = ("Complete", "Failed", "ValidationFailed")


def driver_log(cluster: Cluster, name: str, namespace: str, *, follow: bool) -> Iterator[bytes]:
    """The log of the newest submitter in pieces; with `follow` as it is written, and once it has begun.

    Raises NotFoundError when there is no such job, UserError when it has no log.
    """
    with explained(cluster, namespace, JOB_RIGHTS["logs"]):
        while True:
            job = require_job(cluster, name, namespace)
            pod = _submitter(cluster, name, namespace)
            if pod is not None:
                container = pod["spec"]["containers"][0]["name"]
                yield from stream(cluster, pod["metadata"]["name"], container, namespace, follow=follow)
                return
            state = (job.get("status") or {}).get("jobDeploymentStatus") or "new"
            if not follow or state in _ENDED:
                raise UserError(
                    f"{name} has no log: its driver {'was not' if state in _ENDED else 'has not been'} started "
                    f"(jobDeploymentStatus {state})",
                    hint=f"rayllm-ctl batch status {name} -n {namespace}",
                )
            time.sleep(POLL_SECONDS)


def _submitter(cluster: Cluster, name: str, namespace: str) -> dict[str, Any] | None:
    """The newest pod of the submitter that has started."""
    pods = [
        pod
        for pod in cluster.list("Pod", namespace, label_selector=f"{kuberay.JOB_NAME}={name}")
        if (pod.get("status") or {}).get("phase") in ("Running", "Succeeded", "Failed")
    ]
    return max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), default=None)
