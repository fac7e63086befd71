"""Restart what a service runs in: step by step, as its mode lets it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rayllm_ctl.errors import OutageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model import kuberay
from rayllm_ctl.model.changes import Diff
from rayllm_ctl.model.events import Event, Noted
from rayllm_ctl.model.labels import RESTARTER
from rayllm_ctl.model.quantities import format_duration
from rayllm_ctl.model.scaling import group_bounds
from rayllm_ctl.workflows.foresee import answers
from rayllm_ctl.workflows.live import LiveService, known_revisions, live_service, start_seconds
from rayllm_ctl.workflows.restarted import with_restart
from rayllm_ctl.workflows.wait import wait_ready

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


@dataclass(frozen=True)
class Restart:
    """A service that is to be restarted. manifest, diff: the change of a RayService that does it, and what it means."""

    service: LiveService
    start_seconds: float
    manifest: dict[str, Any] | None = None
    diff: Diff | None = None


def prepare(cluster: Cluster, name: str, namespace: str, *, accept_outage: bool) -> Restart:
    """What a restart of service `name` does.

    Raises UserError where nothing would restart, and OutageError where nothing would answer for a while, unless
    accept_outage.
    """
    from rayllm_ctl.cluster.permissions import missing, not_permitted
    from rayllm_ctl.workflows.diff import diff_change

    service = live_service(cluster, name, namespace, RAY_SERVICE.rights_for("restart"))
    kind = service.kind
    rights = kind.rights_for("restart", "follow")
    lacking = missing(cluster, namespace, rights.needed)
    if lacking:
        raise not_permitted(cluster, namespace, lacking)
    seconds = start_seconds(known_revisions(cluster, service))
    if kind.is_cluster:
        if not accept_outage:
            _refuse_outage(service, seconds)
        return Restart(service, seconds)
    strategy = (service.item["spec"].get("upgradeStrategy") or {}).get("type")
    if strategy == "None":
        raise UserError(
            f"{service.label} has spec.upgradeStrategy.type None: KubeRay starts no second RayCluster for it",
            hint="spec.upgrade.strategy: NewCluster, then rayllm-ctl deploy -f FILE",
        )
    manifest = with_restart(service)
    return Restart(service, seconds, manifest, diff_change(cluster, kind, service.item, manifest, RESTARTER))


def restart(cluster: Cluster, found: Restart, *, wait: bool, timeout: float | None) -> Iterator[Event]:
    """Restart a service and, with `wait`, go on until it is Ready; pods of a RayCluster are waited for in any case.

    timeout: seconds; None: as its last plan says. Raises as wait_ready does, and WaitTimeoutError where a pod of a
    RayCluster is not replaced in that time.
    """
    from rayllm_ctl.cluster.apply import apply
    from rayllm_ctl.cluster.restart import restart_workers

    limit = found.start_seconds if timeout is None else timeout
    service = found.service
    stored = service.item
    if found.manifest is None:
        yield Noted("the head restarts only with all other pods, and stays: kubectl delete pod restarts it")
        yield from restart_workers(cluster, service.name, service.namespace, limit)
    else:
        generation = int(service.item["metadata"].get("generation") or 0)
        for applied, stored in apply(  # noqa: B007  the last one is waited for
            cluster, [found.manifest], field_manager=RESTARTER, unchanged={service.kind.name: generation}
        ):
            yield applied
    if wait:
        yield from wait_ready(cluster, service.kind, stored, limit)


def _refuse_outage(service: LiveService, seconds: float) -> None:
    """Raise OutageError where a RayCluster that answers has one replica: its pod is deleted before the next starts."""
    groups = service.item["spec"].get("workerGroupSpecs") or ()
    servers = [group_bounds(group).high for group in groups if group.get("groupName") == kuberay.SERVERS]
    if answers(service.item) and servers == [1]:
        scale = f"rayllm-ctl scale {service.name} -n {service.namespace} --replicas 2"
        raise OutageError(
            f"{service.label} has one replica, and would not answer until another pod is ready, for up to "
            f"{format_duration(seconds)}; nothing was restarted",
            hint=f"{scale}    # first: one answers meanwhile",
        )
