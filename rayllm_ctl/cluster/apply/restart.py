"""Restart the workers of a RayCluster one at a time: KubeRay creates a new pod for each deleted one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.cluster.snapshot.events import is_well
from rayllm_ctl.errors import WaitTimeoutError
from rayllm_ctl.model.events import Noted
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.quantities import format_duration

POLL_SECONDS = 2.0


def restart_workers(cluster: Cluster, name: str, namespace: str, timeout: float) -> Iterator[Noted]:
    """Delete each worker pod of RayCluster `name`, and wait for a ready replacement before the next one.

    timeout: seconds for each pod. Raises WaitTimeoutError; the remaining pods are not restarted.
    """
    before = _workers(cluster, name, namespace)
    ready = sum(map(is_well, before))
    for number, pod in enumerate(before, 1):
        metadata = pod["metadata"]
        yield Noted(f"pod {number} of {len(before)}: {metadata['name']} is deleted, and KubeRay creates another")
        with suppress(NotFoundError):
            cluster.delete("Pod", metadata["name"], namespace, uid=metadata["uid"], background=True)
        _wait_for(cluster, name, namespace, pod, (len(before), ready), timeout)


def _wait_for(
    cluster: Cluster, name: str, namespace: str, gone: Mapping[str, Any], wanted: tuple[int, int], timeout: float
) -> None:
    """Wait until `gone` is gone, and there are as many workers, and ready ones, as `wanted`."""
    deadline = time.monotonic() + timeout
    while True:
        workers = [
            pod for pod in _workers(cluster, name, namespace) if pod["metadata"]["uid"] != gone["metadata"]["uid"]
        ]
        left = [pod for pod in workers if "deletionTimestamp" not in pod["metadata"]]
        ready = sum(map(is_well, left))
        if len(left) >= wanted[0] and ready >= wanted[1]:
            return
        if time.monotonic() >= deadline:
            raise WaitTimeoutError(
                f"{ready} of {wanted[0]} worker pods of {name} are ready {format_duration(timeout)} after "
                f"{gone['metadata']['name']} was deleted; the remaining pods were not restarted",
                hint=(f"rayllm-ctl status {name} -n {namespace}", f"rayllm-ctl watch {name} -n {namespace}"),
            )
        time.sleep(max(min(POLL_SECONDS, deadline - time.monotonic()), 0.05))


def _workers(cluster: Cluster, name: str, namespace: str) -> list[dict[str, Any]]:
    return cluster.list("Pod", namespace, label_selector=f"{kuberay.CLUSTER}={name},{kuberay.NODE_TYPE}=worker")
