"""Delete a service with what was applied for it, and wait until nothing of it runs any more."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ApiError, ForbiddenError, NotFoundError
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.api.permissions import missing, not_permitted
from rayllm_ctl.cluster.apply.inventory import Entry, entry, inventory
from rayllm_ctl.cluster.apply.replicas import GRACE_SECONDS, Ending
from rayllm_ctl.cluster.apply.revisions import delete_revisions, revisions
from rayllm_ctl.cluster.lookup.services import find, not_found
from rayllm_ctl.cluster.snapshot.ownership import OwnedResources
from rayllm_ctl.errors import UserError, WaitTimeoutError
from rayllm_ctl.model.events import Applied, Noted
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.kube.revisions import Revision
from rayllm_ctl.model.workload import WorkloadKind

POLL_SECONDS = 1.0
"""Between two looks at what is left. No watch: pods have to be found by the name of a RayCluster that is gone."""


def delete_service(
    cluster: Cluster,
    kind: WorkloadKind,
    name: str,
    namespace: str,
    *,
    wait: bool = True,
    timeout: float = 300.0,
    ignore_not_found: bool = False,
) -> Iterator[Applied | Noted]:
    """Delete service `name`, what rayllm-ctl applied for it, its history; with `wait`, wait until its pods are gone.

    A service that was not applied by rayllm-ctl is deleted all the same: it was named. Run again after an interruption,
    it keeps waiting. timeout: seconds. Raises NotFoundError when there is nothing (unless ignore_not_found),
    WaitTimeoutError that names what is left and why.
    """
    deadline = time.monotonic() + timeout
    lacking = missing(cluster, namespace, kind.rights_for("delete").needed)
    if lacking:
        raise not_permitted(cluster, namespace, lacking)
    left = _Leftovers(cluster, kind, name, namespace)
    service = left.service()
    found = inventory(cluster, name, namespace)
    if found.unread:
        yield Noted(f"{found.unknown(namespace)}: what rayllm-ctl applied of these for {name} is not deleted")
    doomed = _doomed(found.entries, service)
    history: list[Revision] = []
    try:
        history = revisions(cluster, name, namespace)
    except ForbiddenError as error:
        yield Noted(f"not permitted to {error.right}: the history of {name} is not deleted")
    if not doomed and not history and not left.pods():
        if ignore_not_found:
            return
        raise not_found(cluster, kind, name, namespace)
    ending = Ending(cluster, kind)
    if wait and service is not None:
        try:
            yield from ending.end_replicas(service, deadline)
            # Before KubeRay and the garbage collector delete them, with the grace period of their spec.
            left.end_pods(ending.emptied)
        except (KeyboardInterrupt, GeneratorExit):  # the latter where what is said of it is interrupted
            if ending.begun:
                for _ in delete_all(cluster, doomed, background=left.clears_redis()):
                    pass  # a service without applications is of no use to anybody
            raise
    for applied in delete_all(cluster, doomed, background=left.clears_redis()):
        if not wait:
            yield applied
    yield from delete_revisions(cluster, name, namespace, history)
    if wait:
        yield from _wait(left, doomed, deadline, timeout)


def delete_all(cluster: Cluster, doomed: Sequence[Entry], *, background: bool = False) -> Iterator[Applied]:
    """Ask the API server to delete objects, yielding those that were there. UserError where another one has a name."""
    for item in doomed:
        try:
            cluster.delete(item.kind, item.name, item.namespace, uid=item.uid, background=background)
        except NotFoundError:
            continue
        except ApiError as error:
            if error.status == 409:
                raise UserError(
                    f"{item.kind} {item.name} was replaced by another object of this name in the meantime",
                    hint="look at it and run the command again",
                ) from error
            raise
        yield Applied(item.kind, item.name, item.namespace, "deleted")


def _doomed(found: list[Entry], service: Mapping[str, Any] | None) -> list[Entry]:
    if service is None:
        return found
    first = entry(service)
    return [first, *(item for item in found if item.uid != first.uid)]


def _wait(left: _Leftovers, doomed: Sequence[Entry], deadline: float, timeout: float) -> Iterator[Applied | Noted]:
    pending = list(doomed)
    pods_before: int | None = None
    told: set[str] = set()
    cleaned: set[str] = set()
    while True:
        gone = [item for item in pending if not left.exists(item)]
        for item in gone:
            yield Applied(item.kind, item.name, item.namespace, "deleted")
        pending = [item for item in pending if item not in gone]
        parts = [*left.ray_clusters(), *left.pods()]
        cleanups = [part for part in parts if _cleans_up(part)]
        pods = sum(part["kind"] == "Pod" for part in parts) - len(cleanups)
        for note in map(left.cleanup_note, cleanups):
            if note not in told:
                told.add(note)
                yield Noted(note)
        cleaned |= {part["metadata"]["labels"][kuberay.CLUSTER] for part in cleanups}
        if not pending and not parts:
            yield from map(Noted, left.not_cleaned(cleaned))
            return
        if pods != pods_before:
            if pods:
                yield Noted(f"waiting for {pods} pod{'s' if pods > 1 else ''} of {left.name} to terminate")
            pods_before = pods
        if time.monotonic() >= deadline:
            raise _stuck(left, pending, parts, timeout)
        time.sleep(max(min(POLL_SECONDS, deadline - time.monotonic()), 0.05))


class _Leftovers:
    """What is still there of a service. RayClusters that were seen once are remembered: their pods outlive them."""

    def __init__(self, cluster: Cluster, kind: WorkloadKind, name: str, namespace: str) -> None:
        self.cluster = cluster
        self.kind = kind
        self.name = name
        self.namespace = namespace
        self._seen: dict[str, dict[str, Any]] = {}

    def service(self) -> dict[str, Any] | None:
        service = find(self.cluster, self.kind, self.name, self.namespace)
        if service is not None and self.kind.is_cluster:
            self._seen[self.name] = service
        self.ray_clusters()
        return service

    def ray_clusters(self) -> list[dict[str, Any]]:
        if self.kind.is_cluster:
            return []
        found = self.cluster.list("RayCluster", self.namespace, label_selector=self.kind.made_for(self.name))
        self._seen |= {item["metadata"]["name"]: item for item in found}
        return found

    def pods(self) -> list[dict[str, Any]]:
        owned = OwnedResources(self.name, tuple(self._seen.values()), None, is_cluster=self.kind.is_cluster)
        return [
            pod
            for pod in self.cluster.list("Pod", self.namespace, label_selector=kuberay.CLUSTER)
            if owned.owns_pod(pod)
        ]

    def end_pods(self, clusters: Collection[str]) -> None:
        """Delete the pods of RayClusters in which no replica runs, if the user may.

        KubeRay replaces none of them: while they end, it counts them, and their RayCluster is deleted next.
        """

        def end(pod: Mapping[str, Any]) -> None:
            metadata = pod["metadata"]
            with suppress(NotFoundError, ForbiddenError):
                self.cluster.delete(
                    "Pod", metadata["name"], self.namespace, uid=metadata["uid"], background=True,
                    grace_seconds=GRACE_SECONDS,
                )  # fmt: skip

        if clusters:
            with Tasks() as tasks:
                tasks.map(end, [pod for pod in self.pods() if _cluster_of(pod) in clusters and not _cleans_up(pod)])

    def cleanup_note(self, pod: Mapping[str, Any]) -> str:
        """What to say of the pod in which KubeRay clears the Redis of a RayCluster. It tries once."""
        name = pod["metadata"]["labels"][kuberay.CLUSTER]
        if (pod.get("status") or {}).get("phase") != "Failed":
            return f"waiting for the Job that clears the Redis of RayCluster {name}"
        return f"the Job that clears the Redis of RayCluster {name} failed, and {self._state_stays(name)}"

    def clears_redis(self) -> bool:
        """Whether KubeRay is to run such a pod. Then no dependents may be deleted first: the garbage collector would
        take the service account that the pod needs, and KubeRay would wait for it in vain.
        """
        return any(kuberay.REDIS_FINALIZER in item["metadata"].get("finalizers", ()) for item in self._seen.values())

    def not_cleaned(self, cleaned: Collection[str]) -> Iterator[str]:
        """What to say of RayClusters for which no such pod was seen: KubeRay gives up after some minutes."""
        for name, item in self._seen.items():
            if name not in cleaned and kuberay.REDIS_FINALIZER in item["metadata"].get("finalizers", ()):
                job = f"the Job that clears the Redis of RayCluster {name}"
                yield f"KubeRay did not run {job}: {self._state_stays(name)}"

    def _state_stays(self, name: str) -> str:
        uid = self._seen[name]["metadata"]["uid"] if name in self._seen else ""
        return "its state stays there" + (
            f"; to delete it: redis-cli --scan --pattern '*{uid}*' | xargs redis-cli del" if uid else ""
        )

    def exists(self, item: Entry) -> bool:
        return self.find(item) is not None

    def find(self, item: Entry) -> dict[str, Any] | None:
        try:
            found = self.cluster.get(item.kind, item.name, item.namespace)
        except NotFoundError:
            return None
        return found if found["metadata"]["uid"] == item.uid else None


def _cluster_of(item: Mapping[str, Any]) -> str | None:
    """The RayCluster of a pod."""
    name: str | None = (item["metadata"].get("labels") or {}).get(kuberay.CLUSTER)
    return name


def _cleans_up(item: Mapping[str, Any]) -> bool:
    return bool((item["metadata"].get("labels") or {}).get(kuberay.NODE_TYPE) == kuberay.REDIS_CLEANUP)


def _stuck(
    left: _Leftovers, pending: Sequence[Entry], parts: Sequence[Mapping[str, Any]], timeout: float
) -> WaitTimeoutError:
    still = [found for item in pending if (found := left.find(item)) is not None]
    lines = [f"  {why_left(item)}" for item in (*still, *parts)]
    hints = [f"kubectl get rayclusters,pods -n {left.namespace} -l {kuberay.CLUSTER}"]
    if any("finalizers" in item["metadata"] for item in (*still, *parts)):
        hints.append("a finalizer is removed by its controller: is the KubeRay operator running?")
    hints.append("the deletion continues; run the command again to wait for it")
    return WaitTimeoutError(
        "\n".join([f"{left.name} still exists after {format_duration(timeout)}; what is left:", *lines]), hint=hints
    )


def why_left(item: Mapping[str, Any]) -> str:
    """An object that a deletion has left, and what holds it."""
    metadata = item["metadata"]
    reasons = []
    if metadata.get("finalizers"):
        reasons.append(f"finalizers {', '.join(metadata['finalizers'])}")
    if item["kind"] == "Pod":
        node = (item.get("spec") or {}).get("nodeName")
        reasons.append(f"on node {node}" if node else "not scheduled")
    if "deletionTimestamp" in metadata:
        reasons.append(f"being deleted since {metadata['deletionTimestamp']}")
    else:
        reasons.append("not being deleted yet")
    return f"{item['kind']} {metadata['name']}: {'; '.join(reasons)}"
