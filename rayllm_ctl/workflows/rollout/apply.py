"""After an apply: propagate replica bounds and the Serve Service, then wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from threading import Event as Stop
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rayllm_ctl.changes.compare import compare_manifests
from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.cluster.apply.bounds import keep_propagating, outdated, propagate_bounds
from rayllm_ctl.cluster.apply.serve_service import propagate_service
from rayllm_ctl.model.events import Event, Noted, Observed, Ready
from rayllm_ctl.model.kube.labels import MANAGER
from rayllm_ctl.model.observed.changes import Running
from rayllm_ctl.model.workload import WorkloadKind
from rayllm_ctl.workflows.observe.wait import wait_ready
from rayllm_ctl.workflows.rollout.revisions import Kept, record_outcome

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


def apply_step(
    cluster: Cluster, kind: WorkloadKind, manifest: Mapping[str, Any], limit: float, stop: Stop | None,
    *, field_manager: str = MANAGER, force: bool = False, last: bool = False,
) -> Iterator[Event]:  # fmt: skip
    """Apply one object of a change in several steps, and wait until it has taken effect."""
    metadata = manifest["metadata"]
    before = cluster.get(kind.name, metadata["name"], metadata["namespace"])
    stored: dict[str, Any] = {}
    for applied, item in apply(cluster, [manifest], field_manager=field_manager, force_conflicts=force):
        yield applied
        stored = item
    yield from propagate_and_wait(cluster, kind, before, stored, None, limit, stop, last=last)


def propagate_and_wait(
    cluster: Cluster, kind: WorkloadKind, before: Mapping[str, Any] | None, stored: dict[str, Any], kept: Kept | None,
    limit: float | None, stop: Stop | None, *, kuberay: str = "", last: bool = True,
    around: Mapping[str, Sequence[dict[str, Any]]] = MappingProxyType({}),
) -> Iterator[Event]:  # fmt: skip
    """Propagate an applied change to running pods, and wait for it. before, stored: the object before and after the
    apply; before None: it was created.

    limit: seconds; None: do not wait. last: the service being Ready is the outcome of `kept`; else another step
    follows. around: see Collector.
    """
    unsettled = False
    if not kind.is_cluster:
        clusters = kind.clusters_of(stored)[-1:]  # of two, the first is about to be replaced
        condition = _kept_if(kind, before, stored, kuberay)
        changed, left = propagate_bounds(cluster, clusters if condition == "" else (), stored)
        unsettled = bool(left) or condition != ""
        yield from changed
        if condition and limit is None:
            yield from (Noted(_not_written(name, condition)) for name in outdated(cluster, clusters, stored))
        then = "" if limit is not None else "; deploy again to lower it then"
        for group, workers in left.items():
            yield Noted(f"group {group} keeps {workers} workers until those above its new maximum are idle{then}")
        if before is not None or stored["spec"].get("serveService"):  # otherwise it cannot exist or differ
            yield from propagate_service(cluster, kind, stored)
    if limit is None:
        return
    with keep_propagating(cluster, kind, stored) if unsettled else nullcontext(()) as settled:
        events = wait_ready(cluster, kind, stored, limit, stop=stop, around=around)
        yield from record_outcome(cluster, kept, events if last else _between(events))
    yield from settled


def _kept_if(
    kind: WorkloadKind, before: Mapping[str, Any] | None, stored: Mapping[str, Any], kuberay: str
) -> str | None:
    """The condition under which a change keeps the live RayCluster; see ObjectDiff.keeps_cluster_if."""
    return compare_manifests(before, stored, kind.explain, Running(kuberay, kind.clusters_of(stored))).keeps_cluster_if


def _not_written(name: str, condition: str) -> str:
    return (
        f"the new replica bounds were not written to RayCluster {name}: KubeRay replaces it with a second one, "
        f"unless {condition}; deploy again to write them if it stays"
    )


def _between(events: Iterator[Observed | Noted | Ready]) -> Iterator[Observed | Noted | Ready]:
    """The events of a wait before another step: the service is not Ready for the user yet."""
    return (event for event in events if not isinstance(event, Ready))
