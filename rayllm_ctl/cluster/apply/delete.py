"""Delete a service with the objects applied for it, and wait until its pods are gone."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ApiError, ForbiddenError, NotFoundError
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.apply.inventory import Entry, entry, inventory
from rayllm_ctl.cluster.apply.kept_claims import kept_claims
from rayllm_ctl.cluster.apply.leftovers import Leftovers, cleans_up
from rayllm_ctl.cluster.apply.replicas import GRACE_SECONDS, Ending
from rayllm_ctl.cluster.apply.revisions import delete_revisions, revisions
from rayllm_ctl.cluster.lookup.kinds import learn_other_kinds
from rayllm_ctl.cluster.lookup.rights import require_rights
from rayllm_ctl.cluster.lookup.services import find, not_found
from rayllm_ctl.cluster.snapshot.ownership import OwnedResources
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.events import Applied, Noted
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.revisions import Revision
from rayllm_ctl.model.workload import WorkloadKind


def delete_service(
    cluster: Cluster,
    kind: WorkloadKind,
    name: str,
    namespace: str,
    *,
    wait: bool = True,
    timeout: float = 300.0,
    ignore_not_found: bool = False,
    known: dict[str, Any] | None = None,
) -> Iterator[Applied | Noted]:
    """Delete service `name`, the objects applied for it, its history; with `wait`, wait until its pods are gone.

    A service that was not applied by rayllm-ctl is deleted all the same: it was named. Run again after an interruption,
    it keeps waiting. timeout: seconds. known: its object, where it was read a moment ago. Raises NotFoundError when
    there is nothing (unless ignore_not_found), WaitTimeoutError that names what is left and why.
    """
    deadline = time.monotonic() + timeout
    require_rights(cluster, namespace, kind.rights_for("delete").needed)
    left = _ServiceLeftovers(cluster, kind, name, namespace)
    service = left.service(known)
    history, unread = _history(cluster, name, namespace)
    learn_other_kinds(cluster, [*filter(None, [service]), *(item for one in history for item in one.manifests)])
    found = inventory(cluster, name, namespace)
    if found.unread:
        yield Noted(f"{found.unknown(namespace)}: objects that rayllm-ctl applied of these for {name} are not deleted")
    entries = _deletion_order(found.entries, service)
    if unread:
        yield Noted(f"not permitted to {unread}: the history of {name} is not deleted")
    if not entries and not history and not left.pods():
        if ignore_not_found:
            return
        raise not_found(cluster, kind, name, namespace)
    kept = list(kept_claims(cluster, name, namespace, service))
    ending = Ending(cluster, kind)
    if wait and service is not None:
        try:
            yield from ending.end_replicas(service, deadline)
            # Before KubeRay and the garbage collector delete them with the grace period of their spec.
            left.end_pods(ending.emptied)
        except (KeyboardInterrupt, GeneratorExit):  # the latter if the consumer of the events is interrupted
            if ending.begun:
                for _ in delete_all(cluster, entries, background=left.clears_redis()):
                    pass  # a service without applications is useless
            raise
    for applied in delete_all(cluster, entries, background=left.clears_redis()):
        if not wait:
            yield applied
    yield from delete_revisions(cluster, name, namespace, history)
    if wait:
        yield from left.wait(entries, deadline, timeout)
    yield from kept


def delete_declared(
    cluster: Cluster, kind: WorkloadKind, owner: Mapping[str, Any] | None, name: str, namespace: str,
    *, wait: bool, timeout: float, known: dict[str, Any] | None,
) -> Iterator[Applied | Noted]:  # fmt: skip
    """Delete the LLMService `owner` of a service, with which Kubernetes deletes the objects that belong to it, and its
    history; with `wait`, wait until its pods are gone.

    owner: None: it has been deleted before. known: the object that runs the service; None: there is none. timeout:
    seconds. Raises WaitTimeoutError that names what is left and why.
    """
    deadline = time.monotonic() + timeout
    left = _ServiceLeftovers(cluster, kind, name, namespace)
    if known is not None:
        left.service(known)
    history, unread = _history(cluster, name, namespace)
    if unread:
        yield Noted(f"not permitted to {unread}: the history of {name} is not deleted")
    kept = list(kept_claims(cluster, name, namespace, known))
    doomed = [entry(owner)] if owner is not None else []
    for applied in delete_all(cluster, doomed, background=True):
        if not wait:
            yield applied
    yield from delete_revisions(cluster, name, namespace, history)
    if wait:
        yield from left.wait([*doomed, *(entry(item) for item in [known] if item is not None)], deadline, timeout)
    yield from kept


def _history(cluster: Cluster, name: str, namespace: str) -> tuple[list[Revision], str]:
    """The revisions of a service, and the missing right to read them, if any."""
    try:
        return revisions(cluster, name, namespace), ""
    except ForbiddenError as error:
        return [], error.right


def delete_all(cluster: Cluster, entries: Sequence[Entry], *, background: bool = False) -> Iterator[Applied]:
    """Delete objects, yielding those that existed. UserError if another object has taken a name."""
    for item in entries:
        try:
            cluster.delete(item.kind, item.name, item.namespace, uid=item.uid, background=background)
        except NotFoundError:
            continue
        except ApiError as error:
            if error.status == 409:
                raise UserError(
                    f"{item.kind} {item.name} was replaced by another object of this name in the meantime",
                    hint="check this object and run the command again",
                ) from error
            raise
        yield Applied(item.kind, item.name, item.namespace, "deleted")


def _deletion_order(found: list[Entry], service: Mapping[str, Any] | None) -> list[Entry]:
    if service is None:
        return found
    first = entry(service)
    return [first, *(item for item in found if item.uid != first.uid)]


class _ServiceLeftovers(Leftovers):
    """The remaining objects of a service. Remembers its RayClusters, as their pods outlive them."""

    def __init__(self, cluster: Cluster, kind: WorkloadKind, name: str, namespace: str) -> None:
        super().__init__(cluster, name, namespace, f"kubectl get rayclusters,pods -n {namespace} -l {kuberay.CLUSTER}")
        self.kind = kind
        self._seen: dict[str, dict[str, Any]] = {}
        self._cleaned: set[str] = set()

    def service(self, known: dict[str, Any] | None) -> dict[str, Any] | None:
        service = find(self.cluster, self.kind, self.name, self.namespace) if known is None else known
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

    def parts(self) -> list[dict[str, Any]]:
        return [*self.ray_clusters(), *self.pods()]

    def pods(self) -> list[dict[str, Any]]:
        owned = OwnedResources(self.name, tuple(self._seen.values()), None, is_cluster=self.kind.is_cluster)
        return [
            pod
            for pod in self.cluster.list("Pod", self.namespace, label_selector=kuberay.CLUSTER)
            if owned.owns_pod(pod)
        ]

    def end_pods(self, clusters: Collection[str]) -> None:
        """Delete the pods of RayClusters without replicas, if permitted.

        KubeRay does not replace them: it counts terminating pods, and their RayCluster is deleted next.
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
                tasks.map(end, [pod for pod in self.pods() if _cluster_of(pod) in clusters and not cleans_up(pod)])

    def notes(self, parts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Notes on the pods in which KubeRay clears the Redis of a RayCluster. KubeRay tries only once."""
        for pod in filter(cleans_up, parts):
            name = pod["metadata"]["labels"][kuberay.CLUSTER]
            self._cleaned.add(name)
            if (pod.get("status") or {}).get("phase") != "Failed":
                yield f"waiting for the Job that clears the Redis of RayCluster {name}"
            else:
                yield f"the Job that clears the Redis of RayCluster {name} failed, and {self._data_remains(name)}"

    def clears_redis(self) -> bool:
        """Whether KubeRay has to run such a pod. Then dependents must not be deleted first: the garbage collector would
        delete the service account that the pod needs, and KubeRay would wait for the pod without success.
        """
        return any(kuberay.REDIS_FINALIZER in item["metadata"].get("finalizers", ()) for item in self._seen.values())

    def final_notes(self) -> Iterator[str]:
        """Notes on RayClusters without such a pod: KubeRay gives up after some minutes."""
        for name, item in self._seen.items():
            if name not in self._cleaned and kuberay.REDIS_FINALIZER in item["metadata"].get("finalizers", ()):
                job = f"the Job that clears the Redis of RayCluster {name}"
                yield f"KubeRay did not run {job}: {self._data_remains(name)}"

    def _data_remains(self, name: str) -> str:
        uid = self._seen[name]["metadata"]["uid"] if name in self._seen else ""
        return "its data remains in Redis" + (
            f"; to delete it: redis-cli --scan --pattern '*{uid}*' | xargs redis-cli del" if uid else ""
        )


def _cluster_of(item: Mapping[str, Any]) -> str | None:
    """The RayCluster of a pod."""
    name: str | None = (item["metadata"].get("labels") or {}).get(kuberay.CLUSTER)
    return name
