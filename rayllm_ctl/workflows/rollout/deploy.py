"""Deploy: plan, render, check the cluster, apply, wait until the model answers. Every step is an event."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import field, replace
from threading import Event as Stop
from typing import TYPE_CHECKING, Any, Literal

from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.cluster.apply.delete import delete_all
from rayllm_ctl.cluster.apply.inventory import Inventory, entry, inventory
from rayllm_ctl.cluster.apply.prune import leftovers, prune, require_deletable
from rayllm_ctl.cluster.apply.serve_service import SERVE_SERVICE_RIGHTS as SERVE_SERVICE
from rayllm_ctl.cluster.preflight.manifests import check_incremental_upgrade, check_operator_namespace, require_kinds
from rayllm_ctl.cluster.preflight.preflight import Preflight, preflight
from rayllm_ctl.cluster.snapshot.exposure import exposure_rights
from rayllm_ctl.cluster.snapshot.nodes import all_nodes
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.capacity import capacity_check
from rayllm_ctl.kinds import WORKLOADS, workload
from rayllm_ctl.model.events import Applied, Checked, Event, Noted, Planned, Rendered
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.kuberay_versions import VERSIONS, known_version
from rayllm_ctl.model.kube.labels import RESTARTER
from rayllm_ctl.model.observed.changes import Way
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.workload import Right, Rights, WorkloadKind
from rayllm_ctl.workflows.observe.wait import START_SECONDS
from rayllm_ctl.workflows.render.ray_token import fitted
from rayllm_ctl.workflows.render.service import rendering
from rayllm_ctl.workflows.render.types import Rendering, RenderOptions, ServeFile
from rayllm_ctl.workflows.rollout import secrets as gatewaysecrets
from rayllm_ctl.workflows.rollout.applied_state import LiveService
from rayllm_ctl.workflows.rollout.apply import propagate_and_wait
from rayllm_ctl.workflows.rollout.diff import Current, planned_start_seconds
from rayllm_ctl.workflows.rollout.manifests import KEPT, annotated, apply_rights, placed
from rayllm_ctl.workflows.rollout.revisions import AppliedState, Kept, record
from rayllm_ctl.workflows.rollout.upgrade.shrink import shrink_replicas
from rayllm_ctl.workflows.rollout.upgrade.strategy import Upgrade, UpgradeOptions, choose_upgrade
from rayllm_ctl.workflows.services import reject_other_kind

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


@dataclass(frozen=True)
class DeployOptions:
    """dry_run: "client" ends after rendering, "server" lets the API server check; neither writes anything.

    timeout: seconds to wait; None: the plan's limit. render: how the manifests are made; its version of KubeRay counts
    where no cluster is asked. accept_outage: also apply what stops a service that answers. upgrade: how a change is to
    reach what runs; None: it is applied whatever it does. said: what the change does has been said. annotations: of
    every object that is applied, beside its own. record: keep a revision of what is applied; change: what it says of
    the change. unchanged: by kind, the metadata.generation that an object must still have. applied: the inventory of
    the service, where it has been read already.
    """

    dry_run: Literal["none", "client", "server"] = "none"
    wait: bool = True
    timeout: float | None = None
    force_conflicts: bool = False
    render: RenderOptions = RenderOptions()
    accept_outage: bool = False
    upgrade: Way | None = "auto"
    said: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    record: bool = True
    change: str = ""
    unchanged: Mapping[str, int] = field(default_factory=dict)
    applied: Inventory | None = None


def deploy(
    services: Sequence[LLMService | ServeFile | Rendering],
    options: DeployOptions,
    connect: Callable[[], Cluster],
    stop: Stop | None = None,
) -> Iterator[Event | Rendered]:
    """Bring `services` up one after the other, yielding Planned, Rendered, Checked, Applied, Observed, Noted, Ready.

    All are planned and rendered before `connect` is called, but for what is a Rendering already: what cannot run is
    rejected even where there is no cluster.
    `stop` ends a wait from another thread; what has been applied stays.

    Raises UserError: before anything is applied when a plan, the manifests or the cluster rule a service out; later as
    soon as it is known that it cannot become ready, or at the time-out.
    """
    # Which version the cluster runs is known later; what the newest rejects cannot run anywhere.
    how = options.render if options.dry_run == "client" else replace(options.render, kuberay=VERSIONS[-1])
    rendered = [one if isinstance(one, Rendering) else rendering(one, how) for one in services]
    if options.dry_run == "client":
        for one in rendered:
            yield from _said(one)
        return
    cluster = connect()
    for one in rendered:
        yield from _said(one)
        yield from _roll_out(cluster, one, options, stop)
        if stop is not None and stop.is_set():
            return


def runs_a_service(event: Applied) -> bool:
    """Whether the applied object runs a service, and is not one of those next to it."""
    return event.kind in WORKLOADS


def _said(one: Rendering) -> Iterator[Event | Rendered]:
    """What is known before a cluster is asked."""
    if one.plan is not None:
        yield Planned(one.plan)  # which is shown with what the other notes say
        yield from map(Noted, one.plan.warnings)
    else:
        yield from map(Noted, one.notes)
    yield Rendered(tuple(dict(item) for item in one.manifests))


def _roll_out(cluster: Cluster, one: Rendering, options: DeployOptions, stop: Stop | None) -> Iterator[Event]:
    namespace = one.namespace or cluster.namespace
    kind, manifest = workload(one.manifests)
    dry = options.dry_run == "server"
    name = manifest["metadata"]["name"]
    found = yield from _check(cluster, kind, manifest, namespace, _rights(kind, one, namespace, options))
    live, version = found.existing, found.kuberay
    one, untokened = fitted(one, version, live)
    if untokened:
        yield Checked("token authentication", None, untokened)
        kind, manifest = workload(one.manifests)
    if version:
        yield from check_version(version, one)
    yield from check_surroundings(cluster, one, manifest, namespace)
    planned = one.plan.deployment if one.plan else None
    if planned is not None:
        yield from gatewaysecrets.check_secrets(cluster, planned, namespace)
    applied = options.applied if options.applied is not None else inventory(cluster, name, namespace, KEPT)
    gone, unknown = leftovers(applied, one.manifests, name, namespace, kept=KEPT)
    surplus = list(map(entry, gone))
    if unknown and live is not None:
        yield Noted(unknown)
    require_deletable(cluster, surplus, namespace)
    upgrade = Upgrade()
    if live is not None and options.upgrade is not None:
        how = UpgradeOptions(
            options.upgrade, options.accept_outage or dry, options.wait or dry, options.force_conflicts, options.said
        )
        upgrade = yield from choose_upgrade(
            cluster, live, Current(live, version, applied), one.manifests, planned_start_seconds(one), how
        )
    limit = options.timeout if options.timeout is not None else _limit(one)
    if planned is not None and not dry:
        yield from gatewaysecrets.create_password(cluster, planned, namespace)
    target = [annotated(placed(item, namespace), options.annotations) for item in one.manifests]
    state = AppliedState(kind, name, namespace, target, _planned_limit(one))
    steps = [target]
    if upgrade.shrink is not None and live is not None and not dry:
        service = LiveService(kind, dict(live))
        yield from shrink_replicas(cluster, service, upgrade.shrink, limit, force=options.force_conflicts, stop=stop)
        if stop is not None and stop.is_set():
            return
    if upgrade.first is not None and not dry:
        first = annotated(placed(upgrade.first, namespace), options.annotations)
        steps.insert(0, [first if item["kind"] == kind.name else item for item in target])
    if upgrade.restart is not None and not dry:
        for _ in apply(cluster, [upgrade.restart], field_manager=RESTARTER):
            pass  # the change itself, which is shown, follows
    kept: Kept | None = None
    before: Mapping[str, Any] | None = live
    for number, manifests in enumerate(steps):
        stored: dict[str, Any] = {}
        done: list[Applied] = []
        for event, item in apply(
            cluster,
            manifests,
            dry_run="server" if dry else "none",
            force_conflicts=options.force_conflicts,
            unchanged=options.unchanged,
        ):
            yield event
            done.append(event)
            if event.kind == kind.name:
                stored = item
        if number == 0:
            for event in prune(cluster, surplus, dry_run=dry):
                yield event
                done.append(event)
            if dry:
                return
            if options.record:
                kept = yield from record(cluster, state, done, options.change, wait=options.wait)
            if upgrade.replaced is not None:
                # Before its dependents: KubeRay would keep creating pods for it, without its service account.
                yield from delete_all(cluster, [upgrade.replaced], background=True)
        last = number == len(steps) - 1
        until = limit if options.wait else None
        yield from propagate_and_wait(cluster, kind, before, stored, kept, until, stop, kuberay=version, last=last)
        before = stored
        if stop is not None and stop.is_set():
            return


def _rights(kind: WorkloadKind, one: Rendering, namespace: str, options: DeployOptions) -> Rights:
    """Every right that this deployment will need, and those without which it can show less."""
    manifests = one.manifests
    rights = apply_rights(kind, manifests)
    if one.plan is not None and one.plan.deployment is not None:
        rights |= gatewaysecrets.rights(one.plan.deployment)
    if options.dry_run == "server":
        return rights
    if any(_asks_for_a_token(item) for item in manifests):
        rights |= Rights(display=(Right("get", "Secret"),))
    if any((item.get("spec") or {}).get("serveService") for item in manifests):
        rights |= Rights(SERVE_SERVICE)
    if not kind.is_cluster:
        rights |= kind.rights_for("bounds")
    if not options.wait:
        return rights
    return rights | kind.rights_for("follow") | Rights(display=exposure_rights(manifests, namespace))


def _asks_for_a_token(manifest: Mapping[str, Any]) -> bool:
    spec = manifest.get("spec") or {}
    config = spec.get("rayClusterConfig") or (spec if manifest["kind"] == kuberay.RAY_CLUSTER else {})
    return kuberay.token_secret({"metadata": manifest["metadata"], "spec": config}) is not None


def _check(
    cluster: Cluster, kind: WorkloadKind, manifest: Mapping[str, Any], namespace: str, rights: Rights
) -> Generator[Checked, None, Preflight]:
    """Whether the cluster can take the service at all: KubeRay, namespace, rights; and the capacity for a new one."""
    yield from reject_other_kind(cluster, kind, manifest["metadata"]["name"], namespace)
    found = preflight(cluster, kind.name, manifest["metadata"]["name"], namespace, rights)
    yield from found.checks
    if found.existing is None:  # what a service holds already is not free, and would be counted as missing
        nodes = all_nodes(cluster)
        unread = Checked("capacity", None, "not permitted to list nodes")
        yield unread if nodes is None else capacity_check(manifest, *nodes)
    return found


def check_surroundings(
    cluster: Cluster, one: Rendering, manifest: Mapping[str, Any], namespace: str
) -> Iterator[Checked]:
    """Whether the cluster can take the objects next to the service, and has what its upgrades need."""
    require_kinds(cluster, one.manifests, namespace)
    yield from check_incremental_upgrade(cluster, manifest)
    network = one.plan.deployment.network if one.plan and one.plan.deployment else None
    if network is not None:
        yield from check_operator_namespace(cluster, network.operator_namespace)


def check_version(running: str, one: Rendering) -> Iterator[Checked]:
    """Whether the version of KubeRay that runs in the cluster knows all that is in the manifests."""
    version, note = known_version(running)
    one.check(version)
    if note:
        yield Checked("manifests", None, note)


def _limit(one: Rendering) -> float:
    """Seconds to wait when the user set none: what the plan gives the start-up."""
    planned = _planned_limit(one)
    return START_SECONDS if planned is None else planned


def _planned_limit(one: Rendering) -> float | None:
    return float(one.startup.wait_seconds) if one.startup else None
