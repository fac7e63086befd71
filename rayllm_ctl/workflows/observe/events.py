"""The Kubernetes events of a service: past events, and new ones as they arrive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.follower import Subscription
from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.api.watch import Watch
from rayllm_ctl.cluster.lookup.rights import require_rights
from rayllm_ctl.cluster.lookup.services import not_found
from rayllm_ctl.cluster.snapshot.downloads import download_job_names, is_about_download
from rayllm_ctl.cluster.snapshot.ownership import OwnedResources
from rayllm_ctl.cluster.snapshot.service import Collector, collect
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.eventlist import explained_events
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed.health import Cause, Object, Snapshot, State
from rayllm_ctl.model.observed.service_events import ServiceEvent
from rayllm_ctl.model.workload import WorkloadKind
from rayllm_ctl.workflows.services import find_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.cluster.snapshot.downloads import download_job_names, is_about_download

WAIT_SECONDS = 1.0
"""Seconds within which an interruption is noticed while nothing happens."""


@dataclass(frozen=True)
class _Seen:
    kind: WorkloadKind
    events: tuple[Object, ...]
    causes: tuple[Cause, ...]
    owned: OwnedResources
    claims: frozenset[str]
    jobs: frozenset[str] = frozenset()


def events_of(cluster: Cluster, name: str, namespace: str) -> list[ServiceEvent]:
    """The events of service `name`, oldest first; for a deleted service, those that Kubernetes still keeps.

    Raises NotFoundError if neither the service nor an event of it exists, ClusterError if events cannot be read.
    """
    with explained(cluster, namespace, RAY_SERVICE.rights_for("events")):
        seen = _look(cluster, name, namespace)
    return explained_events(seen.events, seen.causes)


def follow_events(cluster: Cluster, name: str, namespace: str) -> Iterator[list[ServiceEvent]]:
    """Past events, then new and repeated ones as they arrive, without end. Raises as `events_of`."""
    # Checked first: a watch that is denied after a permitted list is retried for a while.
    require_rights(cluster, namespace, RAY_SERVICE.rights_for("follow-events").needed)
    with explained(cluster, namespace, RAY_SERVICE.rights_for("events")):
        seen = _look(cluster, name, namespace)
        yield explained_events(seen.events, seen.causes)
        told = {_uid(item): _version(item) for item in seen.events}
        collector = Collector(cluster, seen.kind, name, namespace, following=True)
        with Watch(cluster, namespace) as changes:
            changes.follow([Subscription("Event")])
            while True:
                changes.wait(WAIT_SECONDS)
                new = []
                for change in changes.drain():
                    item = change.object
                    if change.type == "DELETED" or told.get(_uid(item)) == _version(item) or not _concerns(seen, item):
                        continue
                    told[_uid(item)] = _version(item)
                    new.append(item)
                if new:
                    warned = any(item.get("type") == "Warning" for item in new)
                    causes = _causes(collector, name, namespace) if warned else ()
                    yield explained_events(new, causes)


def _look(cluster: Cluster, name: str, namespace: str) -> _Seen:
    kind, item = find_service(cluster, name, namespace)
    snapshot = collect(cluster, kind, name, namespace, item)
    if "Event" in snapshot.unread:
        require_rights(cluster, namespace, kind.rights_for("events").needed)
        raise UserError(next(note for note in snapshot.notes if note.startswith("events ")))
    health = kind.diagnose(snapshot, name, namespace)
    clusters = tuple(dict(item) for item in snapshot.of_kind(kuberay.RAY_CLUSTER) if _is_made_for(item, name))
    owned = OwnedResources(name, clusters, None, is_cluster=kind.is_cluster)
    mine = _Seen(kind, (), health.causes, owned, _claims(snapshot), download_job_names(snapshot.objects))
    events = tuple(item for item in snapshot.of_kind("Event") if _concerns(mine, item))
    if health.state is State.NOT_FOUND and not events:
        raise not_found(cluster, kind, name, namespace)
    return _Seen(kind, events, health.causes, owned, mine.claims, mine.jobs)


def _is_made_for(item: Object, name: str) -> bool:
    labels = item["metadata"].get("labels") or {}
    return bool(labels.get(kuberay.ORIGIN_NAME) == name)


def _causes(collector: Any, name: str, namespace: str) -> tuple[Cause, ...]:
    try:
        health = collector.kind.diagnose(collector.collect(), name, namespace)
    except UserError:  # the event is shown without an explanation
        return ()
    causes: tuple[Cause, ...] = health.causes
    return causes


def _concerns(seen: _Seen, item: Object) -> bool:
    about = item.get("involvedObject") or {}
    if about.get("kind") == "PersistentVolumeClaim":
        return about.get("name") in seen.claims
    name = str(about.get("name", ""))
    return seen.owned.concerns(name) or is_about_download(name, seen.jobs)


def _claims(snapshot: Snapshot) -> frozenset[str]:
    """The claims that the service's pods mount or will mount."""
    return frozenset(
        claim
        for item in snapshot.of_kind("RayService", kuberay.RAY_CLUSTER, "Pod")
        for claim in _claim_names(item.get("spec"))
    )


def _claim_names(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get("claimName"), str):
            yield value["claimName"]
        for part in value.values():
            yield from _claim_names(part)
    elif isinstance(value, list):
        for part in value:
            yield from _claim_names(part)


def _uid(item: Object) -> str:
    return str(item["metadata"].get("uid"))


def _version(item: Object) -> str:
    return str(item["metadata"].get("resourceVersion"))
