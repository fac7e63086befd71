"""Deploy: plan, render, check the cluster, apply, wait until the model answers. Every step is an event."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from threading import Event as Stop
from typing import TYPE_CHECKING, Any, Literal

from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.cluster.apply.delete import delete_all
from rayllm_ctl.cluster.apply.inventory import Entry, Inventory, entry, inventory
from rayllm_ctl.cluster.apply.prune import leftovers, prune, rights_to_delete
from rayllm_ctl.cluster.apply.serve_service import SERVE_SERVICE_RIGHTS as SERVE_SERVICE
from rayllm_ctl.cluster.lookup.kinds import learn_other_kinds, require_other_kinds
from rayllm_ctl.cluster.snapshot.downloads import waits_for_model
from rayllm_ctl.cluster.snapshot.exposure import exposure_rights
from rayllm_ctl.cluster.snapshot.model_jobs import DOWNLOAD_RIGHTS
from rayllm_ctl.errors import FieldConflictError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import WORKLOADS, workload
from rayllm_ctl.kinds.common import DOWNLOADS
from rayllm_ctl.model.events import Applied, Event, Noted, Planned, Rendered
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.kuberay_versions import VERSIONS
from rayllm_ctl.model.kube.labels import RESTARTER
from rayllm_ctl.model.kube.owned import DECLARING, declared_by
from rayllm_ctl.model.kube.revisions import Revision
from rayllm_ctl.model.observed.changes import Diff
from rayllm_ctl.model.plan.deployment import Deployment
from rayllm_ctl.model.spec.ray_options import Way
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.workload import Right, Rights
from rayllm_ctl.workflows.observe.wait import START_SECONDS
from rayllm_ctl.workflows.render.controlled import require_deployable
from rayllm_ctl.workflows.render.service import rendering
from rayllm_ctl.workflows.render.types import Rendering, RenderOptions, ServeFile
from rayllm_ctl.workflows.rollout import secrets as gatewaysecrets
from rayllm_ctl.workflows.rollout.apply import propagate_and_wait
from rayllm_ctl.workflows.rollout.diff import planned_start_seconds
from rayllm_ctl.workflows.rollout.llmservice.change import change_declared, deploy_change, reject_flags, without_force
from rayllm_ctl.workflows.rollout.llmservice.declaration import Declaration, read_declaration, read_new_declaration
from rayllm_ctl.workflows.rollout.manifests import KEPT, annotated, apply_rights, placed
from rayllm_ctl.workflows.rollout.model_storage.apply import download_jobs
from rayllm_ctl.workflows.rollout.model_storage.checks import storage_rights
from rayllm_ctl.workflows.rollout.model_storage.download import download_models
from rayllm_ctl.workflows.rollout.prerequisites import check_prerequisites, fit, read_for_apply
from rayllm_ctl.workflows.rollout.revisions import AppliedState, Kept, record
from rayllm_ctl.workflows.rollout.unrecorded import split_recorded
from rayllm_ctl.workflows.rollout.upgrade.shrink import shrink_replicas
from rayllm_ctl.workflows.rollout.upgrade.strategy import Upgrade, UpgradeOptions, choose_upgrade
from rayllm_ctl.workflows.services import ServiceRef

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_FORESIGHT = (Right("list", "Node"), Right("list", "Pod", everywhere=True), Right("get", "Service", "proxy"))
"""Rights to read the effect of a change on a running service, and the capacity for a second RayCluster."""


@dataclass(frozen=True, kw_only=True)
class DeployOptions:
    """dry_run: "client" ends after rendering, "server" lets the API server check; neither writes anything.

    timeout: seconds to wait; None: the plan's limit. render: options for the manifests; its version of KubeRay is used
    if no cluster is contacted. accept_outage: also apply a change that makes a running service unavailable. upgrade:
    the strategy for running pods; None: apply regardless of the effect. said: the effect was already reported.
    annotations: added to every applied object. record: keep a revision; change: its text. unchanged: by kind, the
    metadata.generation that an object must still have. service, applied, revisions, diff: the service, its inventory,
    its history and the changes, if already known.
    recorded: kind and name of the objects that may be deleted where they are not rendered; None: all. fallback: the
    caller rolls back what fails.
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
    service: ServiceRef | None = None
    applied: Inventory | None = None
    revisions: Sequence[Revision] | None = None
    diff: Diff | None = None
    recorded: Collection[tuple[str, str]] | None = None
    fallback: bool = False


def deploy(
    services: Sequence[LLMService | ServeFile | Rendering],
    options: DeployOptions,
    connect: Callable[[], Cluster],
    stop: Stop | None = None,
) -> Iterator[Event | Rendered]:
    """Bring `services` up one after the other, yielding Planned, Rendered, Checked, Applied, Observed, Noted, Ready.

    All but Renderings are planned and rendered before `connect` is called: a service that cannot run is rejected even
    without a cluster.
    `stop` ends a wait from another thread; applied objects stay.

    Raises UserError: before anything is applied when a plan, the manifests or the cluster rule a service out; later as
    soon as it is known that it cannot become ready, or at the time-out.
    """
    # The cluster's version is not known yet; manifests that the newest version rejects cannot run anywhere.
    how = options.render if options.dry_run == "client" else replace(options.render, kuberay=VERSIONS[-1])
    for one in services:
        if isinstance(one, LLMService):
            require_deployable(one)
    rendered = [one if isinstance(one, Rendering) else rendering(one, how) for one in services]
    if options.dry_run == "client":
        for one in rendered:
            yield from _said(one)
        return
    cluster = connect()
    for source, one in zip(services, rendered, strict=True):
        yield from _said(one)
        yield from _roll_out(cluster, source, one, options, stop)
        if stop is not None and stop.is_set():
            return


def runs_a_service(event: Applied) -> bool:
    """Whether the applied object runs or declares a service, as opposed to those next to it."""
    return event.kind in WORKLOADS or event.kind == DECLARING


def _said(one: Rendering) -> Iterator[Event | Rendered]:
    """The events before a cluster is contacted."""
    if one.plan is not None:
        yield Planned(one.plan)  # shown together with the other notes
        yield from map(Noted, one.plan.warnings)
    else:
        yield from map(Noted, one.notes)
    yield Rendered(tuple(dict(item) for item in one.manifests))


def _roll_out(
    cluster: Cluster, source: LLMService | ServeFile | Rendering, one: Rendering, options: DeployOptions,
    stop: Stop | None,
) -> Iterator[Event]:  # fmt: skip
    namespace = one.namespace or cluster.namespace
    if isinstance(source, LLMService) and source.rollout != "auto" and options.upgrade is not None:
        options = replace(options, upgrade=source.rollout)
    rights = _rights(one, namespace, options)
    require_other_kinds(cluster, one.manifests)
    service = yield from read_for_apply(cluster, one, namespace, rights, options.service)
    declaration = _declaration(service)
    if declaration is not None:
        yield from _change_declaration(declaration, source, options, stop)
        return
    yield from check_prerequisites(service, one, rights)
    one = yield from fit(service, one)
    if (planned := _planned(one)) is not None:
        yield from gatewaysecrets.check_secrets(cluster, planned, namespace)
    learn_other_kinds(cluster, [service.item] if service.item is not None else [])
    applied = options.applied if options.applied is not None else inventory(cluster, service.name, namespace, KEPT)
    if options.recorded is not None:
        applied, strays = split_recorded(applied, options.recorded, namespace)
        yield from map(Noted, strays)
    surplus = yield from find_surplus(service, one, applied)
    upgrade = yield from prepare_upgrade(service, one, applied, options)
    if options.dry_run == "server":
        yield from check_apply(service, one, surplus, options)
        return
    if planned is not None:
        yield from gatewaysecrets.create_password(cluster, planned, namespace)
    limit = options.timeout if options.timeout is not None else _limit(one)
    begin = time.monotonic()
    applied_first = yield from download_models(
        service, manifests_to_apply(service, one, options), limit if options.wait else None, stop,
        force_conflicts=options.force_conflicts,
    )  # fmt: skip
    if stop is not None and stop.is_set():
        return
    if applied_first:
        limit = _limit_after(one, options, time.monotonic() - begin)
    if upgrade.shrink is not None:
        yield from shrink_replicas(service, upgrade.shrink, limit, force=options.force_conflicts, stop=stop)
        if stop is not None and stop.is_set():
            return
    if upgrade.restart is not None:
        for _ in apply(cluster, [upgrade.restart], field_manager=RESTARTER):
            pass  # followed by the change itself, which is shown
    yield from apply_steps(service, one, surplus, upgrade, limit, options, stop, applied_first)


def _declaration(service: ServiceRef) -> Declaration | None:
    """The LLMService that declares the service, or is about to: one that is new, suspended or only planned has no
    object yet. Raises UserError if it is ending.
    """
    if declared_by(service.item) is not None:
        return read_declaration(service.cluster, service.kind, service.live)
    if service.item is not None:
        return None
    with suppress(ForbiddenError):  # then it is its controller that leaves the service alone
        return read_new_declaration(service.cluster, service.kind, service.name, service.namespace)
    return None


def _change_declaration(
    declaration: Declaration, source: LLMService | ServeFile | Rendering, options: DeployOptions, stop: Stop | None
) -> Iterator[Event]:
    """Apply the spec to the LLMService that declares the service."""
    render = options.render
    flags = {
        "--force-conflicts": options.force_conflicts,
        "--accept-risk": render.accept_risk,
        "--template-dir": render.template_dir is not None,
        "--model-config": render.facts.model_config is not None,
        "--from-hub": render.facts.from_hub,
        "--rollback-on-failure": options.fallback,
        "--serve-config": not isinstance(source, LLMService),
    }
    reject_flags(declaration, flags)
    assert isinstance(source, LLMService)
    change = deploy_change(declaration, source)
    change = change.written(dry_run=options.dry_run == "server", accept=options.accept_outage)
    try:
        yield from change_declared(change, wait=options.wait, timeout=options.timeout, stop=stop)
    except FieldConflictError as error:
        raise without_force(error) from error


def find_surplus(service: ServiceRef, one: Rendering, applied: Inventory) -> Generator[Noted, None, list[Entry]]:
    """Objects of an earlier deployment that this one does not apply and the user may delete."""
    gone, unknown = leftovers(applied, one.manifests, service.name, service.namespace, kept=KEPT)
    surplus = list(map(entry, gone))
    if unknown and service.item is not None:
        yield Noted(unknown)
    service.require_rights(rights_to_delete(surplus))
    return surplus


def prepare_upgrade(
    service: ServiceRef, one: Rendering, applied: Inventory, options: DeployOptions
) -> Generator[Noted, None, Upgrade]:
    """How the change is rolled out to a running service. Raises as `choose_upgrade` does."""
    if service.item is None or options.upgrade is None:
        return Upgrade()
    dry = options.dry_run == "server"
    how = UpgradeOptions(
        way=options.upgrade,
        accept_outage=options.accept_outage or dry,
        wait=options.wait or dry,
        force_conflicts=options.force_conflicts,
        said=options.said,
        diff=options.diff,
        revisions=options.revisions,
    )
    return (yield from choose_upgrade(service, one.manifests, applied, planned_start_seconds(one), how))


def manifests_to_apply(service: ServiceRef, one: Rendering, options: DeployOptions) -> list[dict[str, Any]]:
    """The manifests as they are applied."""
    return [annotated(placed(item, service.namespace), options.annotations) for item in one.manifests]


def check_apply(
    service: ServiceRef, one: Rendering, surplus: Sequence[Entry], options: DeployOptions
) -> Iterator[Applied]:
    """The API server's result of an apply; nothing is written."""
    for event, _ in apply(
        service.cluster,
        manifests_to_apply(service, one, options),
        dry_run="server",
        force_conflicts=options.force_conflicts,
        unchanged=options.unchanged,
    ):
        yield event
    yield from prune(service.cluster, surplus, dry_run=True)


def apply_steps(
    service: ServiceRef, one: Rendering, surplus: Sequence[Entry], upgrade: Upgrade, limit: float,
    options: DeployOptions, stop: Stop | None, applied_first: Sequence[Applied] = (),
) -> Iterator[Event]:  # fmt: skip
    """Apply the service and wait; an upgrade in two steps first applies another number of replicas.

    applied_first: objects that have been applied already.
    """
    cluster, kind = service.cluster, service.kind
    target = manifests_to_apply(service, one, options)
    steps = [target]
    if upgrade.first is not None:
        first = annotated(placed(upgrade.first, service.namespace), options.annotations)
        steps.insert(0, [first if item["kind"] == kind.name else item for item in target])
    kept: Kept | None = None
    before: Mapping[str, Any] | None = service.item
    for number, manifests in enumerate(steps):
        recent = number == 0 and upgrade.shrink is None  # no step has been waited for since the operator was read
        there = {(event.kind, event.name) for event in applied_first}
        rest = [item for item in manifests if (item["kind"], item["metadata"]["name"]) not in there]
        done, stored = yield from apply_manifests(service, rest, options)
        done = [*applied_first, *done]
        if number == 0:
            for event in prune(cluster, surplus):
                yield event
                done.append(event)
            if options.record:
                state = AppliedState(kind, service.name, service.namespace, target, _planned_limit(one))
                kept = yield from record(
                    service, state, done, options.change, wait=options.wait, known=options.revisions
                )
            if upgrade.replaced is not None:
                # Before its dependents: KubeRay would keep creating pods for it, without its service account.
                yield from delete_all(cluster, [upgrade.replaced], background=True)
        yield from propagate_and_wait(
            cluster, kind, before, stored, kept, limit if options.wait else None, stop,
            kuberay=service.kuberay, last=number == len(steps) - 1, around=service.around if recent else {},
        )  # fmt: skip
        before = stored
        if stop is not None and stop.is_set():
            return


def apply_manifests(
    service: ServiceRef, manifests: Sequence[Mapping[str, Any]], options: DeployOptions
) -> Generator[Applied, None, tuple[list[Applied], dict[str, Any]]]:
    """Apply the objects of one step; returns the results, and the service's object as stored now."""
    stored: dict[str, Any] = {}
    done: list[Applied] = []
    for event, item in apply(
        service.cluster,
        manifests,
        force_conflicts=options.force_conflicts,
        unchanged=options.unchanged,
        known={(service.kind.name, service.name): None} if service.item is None else {},
    ):
        yield event
        done.append(event)
        if event.kind == service.kind.name:
            stored = item
    return done, stored


def _planned(one: Rendering) -> Deployment | None:
    return one.plan.deployment if one.plan else None


def _rights(one: Rendering, namespace: str, options: DeployOptions) -> Rights:
    """The required rights of this deployment, and the optional ones."""
    manifests, (kind, main) = one.manifests, workload(one.manifests)
    rights = apply_rights(kind, manifests) | storage_rights(manifests)
    if options.service is not None and options.service.item is not None and options.upgrade is None:
        rights = Rights(rights.needed, tuple(right for right in rights.display if right not in _FORESIGHT))
    if one.plan is not None and one.plan.deployment is not None:
        rights |= gatewaysecrets.rights(one.plan.deployment)
    if options.dry_run == "server":
        return rights
    if any(map(kuberay.asks_for_token, manifests)):
        rights |= Rights(display=(Right("get", "Secret"),))
    if any((item.get("spec") or {}).get("serveService") for item in manifests):
        rights |= Rights(SERVE_SERVICE)
    if not kind.is_cluster:
        rights |= kind.rights_for("bounds")
    if not options.wait:
        return rights
    if download_jobs(manifests):
        rights |= DOWNLOAD_RIGHTS
    if waits_for_model(main):
        rights |= DOWNLOADS
    return rights | kind.rights_for("follow") | Rights(display=exposure_rights(manifests, namespace))


def _limit(one: Rendering) -> float:
    """Default seconds to wait: the plan's start-up limit."""
    planned = _planned_limit(one)
    return START_SECONDS if planned is None else planned


def _limit_after(one: Rendering, options: DeployOptions, elapsed: float) -> float:
    """Seconds to wait for the service once its models are downloaded. elapsed: what that took."""
    if options.timeout is not None:
        return options.timeout - elapsed
    return float(one.startup.wait_seconds) if one.startup else START_SECONDS


def _planned_limit(one: Rendering) -> float | None:
    return float(one.startup.deploy_wait_seconds) if one.startup else None
