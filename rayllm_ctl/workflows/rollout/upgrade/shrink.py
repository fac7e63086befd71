"""A second RayCluster that does not fit next to the running one: shrink, switch, grow.

The service first keeps fewer replicas, the second RayCluster starts with as many as then fit, and after it has taken
over and the first is deleted, the rest follow. With one replica of each model this is not possible: the running
RayCluster has to be deleted before the second one starts.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from threading import Event as Stop
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.snapshot.nodes import all_nodes
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.capacity import capacity_check
from rayllm_ctl.kinds import workload
from rayllm_ctl.model.events import Checked, Event, Noted
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.cluster_spec import cluster_spec
from rayllm_ctl.model.kube.revisions import Revision
from rayllm_ctl.model.kube.scaling import Bounds, with_group_bounds
from rayllm_ctl.workflows.rollout.applied_state import known_revisions, own_manifest
from rayllm_ctl.workflows.rollout.apply import apply_step
from rayllm_ctl.workflows.rollout.scale import scaled_service
from rayllm_ctl.workflows.rollout.upgrade.capacity import Fitting, ReplicaCounts, ray_cluster
from rayllm_ctl.workflows.services import ServiceRef

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

RELEASED_SECONDS = 300.0
"""Seconds for removed workers to release their GPUs."""

_POLL_SECONDS = 2.0


@dataclass(frozen=True)
class Share:
    """Replicas of one model: now, of the first RayCluster while the second starts, of the second when it takes over,
    and the minimum at the end.
    """

    model: str
    now: int
    first: int
    second: int
    after: int

    def __str__(self) -> str:
        numbers = [self.now, self.first, self.second, max(self.second, self.after)]
        return f"{self.model} {' → '.join(map(str, numbers))}"


@dataclass(frozen=True)
class Shrink:
    """The steps. own: the service as applied; smaller: with fewer replicas; second: the change with as many replicas as
    fit next to it.
    """

    shares: Sequence[Share]
    own: Mapping[str, Any]
    smaller: Mapping[str, Any]
    second: Mapping[str, Any]

    def notes(self) -> Iterator[Noted]:
        """Notes on the steps, with the capacity at each."""
        yield Noted(
            "shrink: both RayClusters fit only with fewer replicas. Steps: 1. fewer replicas, 2. the second RayCluster "
            "takes over, 3. all replicas again"
        )
        yield Noted(f"shrink: available replicas before, during and after: {', '.join(map(str, self.shares))}")
        yield Noted("shrink: --upgrade new-cluster keeps all replicas and waits for more nodes instead")


@dataclass(frozen=True)
class NoShrink:
    """Why fewer replicas do not help. replaceable: the second RayCluster fits after the first is deleted."""

    why: str
    replaceable: bool = False


def shrinking(
    service: ServiceRef,
    manifests: Sequence[Mapping[str, Any]],
    known: Sequence[Revision] | None = None,
) -> Shrink | NoShrink | None:
    """How many replicas of the RayService `service` have to stop so that the RayCluster of `manifests` fits next to it.

    None if none, as another RayCluster that has not taken over is deleted first. known: the history of the service, if
    it has been read.
    """
    status = (service.live.get("status") or {}).get("activeServiceStatus") or {}
    active = str(status.get("rayClusterName") or "")
    found = all_nodes(service.cluster)
    if not active or found is None:
        return NoShrink("not permitted to list nodes" if active else "no RayCluster serves yet")
    manifest = workload(manifests)[1]
    try:
        fitting = Fitting(service, active, manifest, *found)
    except UserError as error:  # its replicas are not in the form that rayllm-ctl renders
        return NoShrink(error.message)
    if fitting.check(fitting.now, fitting.wanted).ok:
        return None
    if (most := fitting.most()) is not None:
        history = known_revisions(service) if known is None else known
        return _steps(service, manifest, fitting, own_manifest(service, history), *most)
    alone = fitting.check(None, fitting.wanted)
    if not alone.ok:
        return NoShrink(f"and would not fit without it either: {alone.detail}")
    if not fitting.now:
        return NoShrink("its Serve configuration has no model with replica bounds", replaceable=True)
    one = max(fitting.now.values()) <= 1
    return NoShrink("each model has one replica" if one else "fewer replicas are not enough", replaceable=True)


def _steps(
    service: ServiceRef, manifest: Mapping[str, Any], fitting: Fitting, own: Mapping[str, Any],
    first: ReplicaCounts, second: ReplicaCounts,
) -> Shrink:  # fmt: skip
    """The manifests of both steps. own: that of the service as applied."""
    smaller: Mapping[str, Any] = own
    for model, count in first.items():
        low = count if count < fitting.now[model] else min(fitting.old[model].bounds.low, count)
        smaller = scaled_service(service, smaller, low, max(count, 1), model)[1].manifest
    later: Mapping[str, Any] = manifest
    for model, count in second.items():
        high = max(count, fitting.new[model].bounds.high)
        later = scaled_service(service, later, count, high, model)[1].manifest
    shares = [
        Share(model, fitting.now.get(model, 0), first.get(model, 0), second[model], fitting.new[model].bounds.low)
        for model in second
    ]
    return Shrink(shares, own, smaller, later)


def unfinished(
    service: ServiceRef,
    manifests: Sequence[Mapping[str, Any]],
    known: Sequence[Revision] | None = None,
) -> dict[str, Any] | None:
    """The service as applied, if its second RayCluster has to take over before it gets more replicas.

    An interrupted command left this state: the missing workers do not fit next to the first RayCluster.
    """
    others = service.kind.clusters_of(service.live)[1:]
    found = all_nodes(service.cluster)
    if not others or found is None:
        return None
    counts = Counter(
        str(pod["metadata"]["labels"].get(kuberay.GROUP))
        for pod in found[1]
        if ray_cluster(pod, service.namespace) in others
    )
    config = cluster_spec(workload(manifests)[1])
    missing = {
        name: Bounds(low - counts[name], low - counts[name])
        for group in config["workerGroupSpecs"]
        for name, low in ((str(group["groupName"]), int(group.get("minReplicas") or 0)),)
        if low > counts[name]
    }
    groups = [one for one in with_group_bounds(config["workerGroupSpecs"], missing) if one["groupName"] in missing]
    if capacity_check({"spec": {**config, "workerGroupSpecs": groups}}, *found).ok:
        return None
    return own_manifest(service, known_revisions(service) if known is None else known)


def shrink_replicas(
    service: ServiceRef, plan: Shrink, limit: float, *, force: bool, stop: Stop | None
) -> Iterator[Event]:
    """Reduce the replicas, and wait until their GPUs are free. limit: seconds.

    Raises UserError, with the old bounds applied again, if other pods have taken the GPUs in the meantime.
    """

    def bounded(manifest: Mapping[str, Any]) -> Iterator[Event]:
        return apply_step(service.cluster, service.kind, manifest, limit, stop, force=force)

    if plan.smaller != plan.own:
        yield from bounded(plan.smaller)
    problem = _await_place(service.cluster, plan.second, stop)
    if problem is None:
        return
    yield Noted(f"the second RayCluster does not fit: {problem.detail}")
    if plan.smaller != plan.own:
        yield from bounded(plan.own)
    raise UserError(
        f"{service.label}: the freed capacity was taken by other pods; the replicas were restored, and nothing else "
        f"was changed: {problem.detail}",
        hint="--upgrade new-cluster    # waits for more nodes, with all replicas",
    )


def _await_place(cluster: Cluster, manifest: Mapping[str, Any], stop: Stop | None) -> Checked | None:
    """Wait until the second RayCluster fits; returns the lacking capacity after RELEASED_SECONDS, else None."""
    deadline = time.monotonic() + RELEASED_SECONDS
    while True:
        found = all_nodes(cluster)
        unknown = Checked("capacity", None, "whether the nodes have capacity is unknown: not permitted to list nodes")
        check = capacity_check(manifest, *found) if found is not None else unknown
        if check.ok or (stop is not None and stop.is_set()):
            return None
        if time.monotonic() > deadline:
            return check
        time.sleep(_POLL_SECONDS)
