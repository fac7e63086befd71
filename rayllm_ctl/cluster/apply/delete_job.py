"""Delete a batch job with the objects applied for it, and wait until its pods are gone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.apply.delete import delete_all
from rayllm_ctl.cluster.apply.inventory import Entry, entry, job_inventory
from rayllm_ctl.cluster.apply.kept_claims import kept_claims
from rayllm_ctl.cluster.apply.leftovers import Leftovers
from rayllm_ctl.cluster.lookup.jobs import find_job, no_such_job
from rayllm_ctl.model.events import Applied, Noted
from rayllm_ctl.model.kube.labels import BATCH


def delete_job(
    cluster: Cluster, name: str, namespace: str, *, wait: bool, timeout: float, ignore_not_found: bool
) -> Iterator[Applied | Noted]:
    """Delete the batch job `name` and the objects applied for it; with `wait`, wait until its pods are gone.

    Run again after an interruption, it continues to wait. timeout: seconds. Raises NotFoundError if there is nothing to
    delete (unless ignore_not_found), WaitTimeoutError with the remaining objects and the reasons.
    """
    job = find_job(cluster, name, namespace)
    inventory = job_inventory(cluster, name, namespace)
    if inventory.unread:
        yield Noted(
            f"{inventory.unknown(namespace)}: objects that rayllm-ctl applied of these for {name} are not deleted"
        )
    others = [
        applied_entry
        for applied_entry in inventory.entries
        if job is None or applied_entry.uid != job["metadata"]["uid"]
    ]
    entries = [*([entry(job)] if job is not None else []), *others]
    if not entries and not _JobLeftovers(cluster, name, namespace).parts():
        if ignore_not_found:
            return
        raise no_such_job(cluster, name, namespace)
    kept = list(kept_claims(cluster, name, namespace, job))
    yield from remove_job(cluster, name, namespace, entries, wait=wait, timeout=timeout)
    yield from kept


def remove_job(
    cluster: Cluster, name: str, namespace: str, entries: Sequence[Entry], *, wait: bool, timeout: float
) -> Iterator[Applied | Noted]:
    """Delete these objects of the batch job `name`; with `wait`, wait until its pods are gone as well."""
    deadline = time.monotonic() + timeout
    for applied in delete_all(cluster, entries):
        if not wait:
            yield applied
    if wait:
        yield from _JobLeftovers(cluster, name, namespace).wait(entries, deadline, timeout)


class _JobLeftovers(Leftovers):
    """Remaining RayClusters and pods of the job."""

    def __init__(self, cluster: Cluster, name: str, namespace: str) -> None:
        self._selector = f"{BATCH}={name}"
        super().__init__(
            cluster, name, namespace, f"kubectl get rayjobs,rayclusters,pods -n {namespace} -l {self._selector}"
        )

    def parts(self) -> list[dict[str, Any]]:
        return [
            item
            for kind in ("RayCluster", "Pod")
            for item in self.cluster.list(kind, self.namespace, label_selector=self._selector)
        ]
