"""Restart the pods of a service step by step, depending on its mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.cluster.apply.delete import delete_all
from rayllm_ctl.cluster.apply.restart import restart_workers
from rayllm_ctl.errors import OutageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.events import Event, Noted
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.kuberay import answers
from rayllm_ctl.model.kube.labels import RESTARTER
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.kube.revisions import Revision
from rayllm_ctl.model.kube.scaling import group_bounds
from rayllm_ctl.model.observed.changes import Diff
from rayllm_ctl.model.spec.ray_options import Way
from rayllm_ctl.workflows.observe.wait import wait_ready
from rayllm_ctl.workflows.rollout.applied_state import known_revisions, start_seconds
from rayllm_ctl.workflows.rollout.apply import apply_step
from rayllm_ctl.workflows.rollout.diff import diff_change
from rayllm_ctl.workflows.rollout.outage import as_deployed
from rayllm_ctl.workflows.rollout.restart_annotation import with_restart
from rayllm_ctl.workflows.rollout.upgrade.shrink import Shrink, shrink_replicas
from rayllm_ctl.workflows.rollout.upgrade.strategy import UpgradeOptions, choose_restart
from rayllm_ctl.workflows.services import ServiceRef, read_live_service_ref

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.cluster.apply.inventory import Entry


@dataclass(frozen=True)
class Restart:
    """A service to restart, and its history.

    manifest, diff: the change of a RayService that does it, and what it means.
    """

    service: ServiceRef
    revisions: Sequence[Revision]
    manifest: dict[str, Any] | None = None
    diff: Diff | None = None


@dataclass(frozen=True, kw_only=True)
class RestartOptions:
    """way: of a RayService, see Way. timeout: seconds; None: as its last plan says."""

    way: Way = "auto"
    accept_outage: bool = False
    wait: bool = True
    timeout: float | None = None


def prepare_restart(cluster: Cluster, name: str, namespace: str, options: RestartOptions) -> Restart:
    """Prepare a restart of service `name`.

    Raises UserError if nothing would restart, and OutageError if the service would be unavailable for a while, unless
    accept_outage.
    """
    service = read_live_service_ref(cluster, name, namespace, "restart", "follow")
    known = known_revisions(service)
    if service.kind.is_cluster:
        if options.way != "auto":
            raise UserError(
                f"{service.label} is a RayCluster of its own: --upgrade {options.way} is for RayServices; nothing was "
                "restarted",
                hint="remove --upgrade",
            )
        if not options.accept_outage:
            _refuse_outage(service, start_seconds(known))
        return Restart(service, known)
    strategy = (service.live["spec"].get("upgradeStrategy") or {}).get("type")
    if strategy == "None":
        raise UserError(
            f"{service.label} has spec.upgradeStrategy.type None: KubeRay starts no second RayCluster for it",
            hint="spec.upgrade.strategy: NewCluster, then rayllm-ctl deploy -f FILE",
        )
    manifest = with_restart(service)
    diff = as_deployed(diff_change(service, manifest, RESTARTER))
    return Restart(service, known, manifest, diff)


def restart(found: Restart, options: RestartOptions) -> Iterator[Event]:
    """Restart a service and, with `wait`, wait until it is Ready; pods of a RayCluster are waited for in any case.

    Raises OutageError if the service would be unavailable as a second RayCluster does not fit, unless accepted; later
    as wait_ready does, and WaitTimeoutError if a pod of a RayCluster is not replaced in time.
    """
    limit = start_seconds(found.revisions) if options.timeout is None else options.timeout
    service, cluster = found.service, found.service.cluster
    if found.manifest is None or found.diff is None:
        yield Noted("the head is not restarted, as that restarts all other pods: kubectl delete pod restarts it")
        yield from restart_workers(cluster, service.name, service.namespace, limit)
        if options.wait:
            yield from wait_ready(cluster, service.kind, service.live, limit)
        return
    how = UpgradeOptions(way=options.way, accept_outage=options.accept_outage, wait=options.wait, force_conflicts=False)
    upgrade = yield from choose_restart(service, found.revisions, found.diff, how)
    if upgrade.shrink is not None:
        service.require_rights(service.kind.rights_for("bounds").needed)
        yield from _with_fewer_replicas(service, found.manifest, upgrade.shrink, limit)
    else:
        yield from _beside(service, found.manifest, upgrade.replaced, limit if options.wait else None)


def _beside(
    service: ServiceRef, manifest: dict[str, Any], replaced: Entry | None, limit: float | None
) -> Iterator[Event]:
    """Start a second RayCluster next to the running one, or instead of it. limit: seconds to wait; None: no wait."""
    cluster, stored = service.cluster, service.live
    generation = {service.kind.name: int(stored["metadata"].get("generation") or 0)}
    for applied, stored in apply(  # noqa: B007  the last one is waited for
        cluster, [manifest], field_manager=RESTARTER, unchanged=generation
    ):
        yield applied
    if replaced is not None:
        yield from delete_all(cluster, [replaced], background=True)
    if limit is not None:
        yield from wait_ready(cluster, service.kind, stored, limit, around=service.around)


def _with_fewer_replicas(service: ServiceRef, manifest: dict[str, Any], plan: Shrink, limit: float) -> Iterator[Event]:
    """Run fewer replicas until a second RayCluster has taken over, then all again. limit: seconds for each step."""
    cluster = service.cluster
    yield from shrink_replicas(service, plan, limit, force=False, stop=None)
    # KubeRay starts a second RayCluster for the annotation alone: the bounds are there when it does.
    for applied, _ in apply(cluster, [plan.second]):
        yield applied
    yield from apply_step(cluster, service.kind, manifest, limit, None, field_manager=RESTARTER)
    yield from apply_step(cluster, service.kind, plan.own, limit, None, last=True)


def _refuse_outage(service: ServiceRef, seconds: float) -> None:
    """Raise OutageError if a running RayCluster has one replica: its pod is deleted before the next starts."""
    groups = service.live["spec"].get("workerGroupSpecs") or ()
    servers = [group_bounds(group).high for group in groups if group.get("groupName") == kuberay.SERVERS]
    if answers(service.live) and servers == [1]:
        scale = f"rayllm-ctl scale {service.name} -n {service.namespace} --replicas 2"
        raise OutageError(
            f"{service.label} has one replica, and would be unavailable until another pod is ready, for up to "
            f"{format_duration(seconds)}; nothing was restarted",
            hint=f"{scale}    # first: one keeps answering",
        )
