"""Delete a batch job with what was applied for it, and wait until nothing of it runs any more."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.cluster.apply.delete import POLL_SECONDS, delete_all, why_left
from rayllm_ctl.cluster.apply.inventory import Entry, entry, job_inventory
from rayllm_ctl.cluster.lookup.jobs import find_job, no_such_job
from rayllm_ctl.errors import WaitTimeoutError
from rayllm_ctl.model.events import Applied, Noted
from rayllm_ctl.model.kube.labels import BATCH
from rayllm_ctl.model.kube.quantities import format_duration


def delete_job(
    cluster: Cluster, name: str, namespace: str, *, wait: bool, timeout: float, ignore_not_found: bool
) -> Iterator[Applied | Noted]:
    """Delete the batch job `name` and what rayllm-ctl applied for it; with `wait`, wait until its pods are gone.

    Run again after an interruption, it keeps waiting. timeout: seconds. Raises NotFoundError when there is nothing
    (unless ignore_not_found), WaitTimeoutError that names what is left and why.
    """
    job = find_job(cluster, name, namespace)
    found = job_inventory(cluster, name, namespace)
    if found.unread:
        yield Noted(f"{found.unknown(namespace)}: what rayllm-ctl applied of these for {name} is not deleted")
    others = [item for item in found.entries if job is None or item.uid != job["metadata"]["uid"]]
    doomed = [*([entry(job)] if job is not None else []), *others]
    if not doomed and not _parts(cluster, name, namespace):
        if ignore_not_found:
            return
        raise no_such_job(cluster, name, namespace)
    yield from remove_job(cluster, name, namespace, doomed, wait=wait, timeout=timeout)


def remove_job(
    cluster: Cluster, name: str, namespace: str, doomed: Sequence[Entry], *, wait: bool, timeout: float
) -> Iterator[Applied | Noted]:
    """Delete `doomed` objects of the batch job `name`; with `wait`, wait until its pods are gone as well."""
    deadline = time.monotonic() + timeout
    for applied in delete_all(cluster, doomed):
        if not wait:
            yield applied
    if wait:
        yield from _wait(cluster, name, namespace, doomed, deadline, timeout)


def _wait(
    cluster: Cluster, name: str, namespace: str, doomed: Sequence[Entry], deadline: float, timeout: float
) -> Iterator[Applied | Noted]:
    pending, told = list(doomed), 0
    while True:
        left = [found for item in pending if (found := _find(cluster, item)) is not None]
        kept = {item["metadata"]["uid"] for item in left}
        for item in pending:
            if item.uid not in kept:
                yield Applied(item.kind, item.name, item.namespace, "deleted")
        pending = [item for item in pending if item.uid in kept]
        parts = _parts(cluster, name, namespace)
        pods = sum(part["kind"] == "Pod" for part in parts)
        if not pending and not parts:
            return
        if pods not in (0, told):
            yield Noted(f"waiting for {pods} pod{'s' if pods > 1 else ''} of {name} to terminate")
            told = pods
        if time.monotonic() >= deadline:
            lines = [f"  {why_left(item)}" for item in (*left, *parts)]
            raise WaitTimeoutError(
                "\n".join([f"{name} still exists after {format_duration(timeout)}; what is left:", *lines]),
                hint=(
                    f"kubectl get rayjobs,rayclusters,pods -n {namespace} -l {BATCH}={name}",
                    "the deletion continues; run the command again to wait for it",
                ),
            )
        time.sleep(max(min(POLL_SECONDS, deadline - time.monotonic()), 0.05))


def _parts(cluster: Cluster, name: str, namespace: str) -> list[dict[str, Any]]:
    """RayClusters and pods of the job that are still there."""
    selector = f"{BATCH}={name}"
    return [item for kind in ("RayCluster", "Pod") for item in cluster.list(kind, namespace, label_selector=selector)]


def _find(cluster: Cluster, item: Entry) -> Mapping[str, Any] | None:
    try:
        found = cluster.get(item.kind, item.name, item.namespace)
    except NotFoundError:
        return None
    return found if found["metadata"]["uid"] == item.uid else None
