"""How a change reaches a service that runs: as it is, with more or fewer replicas meanwhile, or on a second RayCluster.

Ray Serve stops an old replica before it starts the new one, at least one at a time: with one replica nothing answers
meanwhile. With two the other one does. Raised from one to two in the same write, Serve starts a new one first
(ray/serve/_private/deployment_state.py of Ray 2.60, _check_and_stop_outdated_version_replicas).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.apply.inventory import entry
from rayllm_ctl.cluster.apply.prune import rights_to_delete
from rayllm_ctl.errors import OutageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.events import Noted
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.cluster_spec import cluster_spec, with_cluster_spec
from rayllm_ctl.model.kube.kuberay import answers
from rayllm_ctl.model.kube.revisions import Revision
from rayllm_ctl.model.observed.changes import Diff, ObjectDiff, Way
from rayllm_ctl.model.spec.ray_options import INCREMENTAL
from rayllm_ctl.workflows.rollout.applied_state import own_manifest
from rayllm_ctl.workflows.rollout.diff import DiffOptions, diff_live
from rayllm_ctl.workflows.rollout.outage import as_deployed, meaning, refuse_outage, stops
from rayllm_ctl.workflows.rollout.restart_annotation import with_restart
from rayllm_ctl.workflows.rollout.upgrade.shrink import Shrink, shrinking, unfinished
from rayllm_ctl.workflows.rollout.upgrade.surge import SURGE, place, raised
from rayllm_ctl.workflows.services import ServiceRef

if TYPE_CHECKING:
    from rayllm_ctl.cluster.apply.inventory import Entry, Inventory


@dataclass(frozen=True)
class Upgrade:
    """What is applied for a change. shrink: replicas that have to go before all else; first: the changed service with
    another number of replicas, which has to be Ready before the change itself is applied; restart: a part of the
    service that starts a second RayCluster, applied before the change; replaced: the RayCluster that is deleted after
    it, as the second one does not fit before.
    """

    first: Mapping[str, Any] | None = None
    restart: Mapping[str, Any] | None = None
    shrink: Shrink | None = None
    replaced: Entry | None = None


@dataclass(frozen=True)
class UpgradeOptions:
    """way: see Way. wait: the deployment waits until the service is Ready. said: what the change does has been said.
    diff: that, where it is known. revisions: the history of the service, where it is known.
    """

    way: Way
    accept_outage: bool
    wait: bool
    force_conflicts: bool
    said: bool = False
    diff: Diff | None = None
    revisions: Sequence[Revision] | None = None


def choose_upgrade(
    service: ServiceRef, manifests: Sequence[Mapping[str, Any]], applied: Inventory, seconds: float | None,
    options: UpgradeOptions,
) -> Generator[Noted, None, Upgrade]:  # fmt: skip
    """Report what applying `manifests` does to a service that the cluster has, and choose how.

    applied: what was applied for it. seconds: how long a replica starts.

    Raises OutageError where the service would not answer for a while, unless accept_outage, and UserError where the
    change cannot be made in the way that was asked for.
    """
    how = DiffOptions(force_conflicts=options.force_conflicts)
    diff = options.diff
    if diff is None:
        diff = as_deployed(diff_live(service, manifests, applied, how, seconds))
    restart = None
    if options.way == "new-cluster" and _has(diff, service, "restart") and not _has(diff, service, "new-cluster"):
        restart = with_restart(service)
        merged = [_merged(item, restart) for item in manifests]
        diff = as_deployed(diff_live(service, merged, applied, how, seconds))
    if not options.said:
        yield from meaning(diff)
    _require_possible(diff, service, options.way)
    item = _configured(diff, service)
    if item is not None and _has(diff, service, "new-cluster") and (item.waits or options.way == "shrink"):
        _refuse(diff, service, options)
        return (yield from _scarce(service, manifests, item, options, restart))
    if item is not None and options.way in ("auto", "shrink") and options.wait and _has(diff, service, "bounds"):
        first = unfinished(service, manifests, options.revisions)
        if first is not None:
            yield Noted("the second RayCluster takes over first: the nodes have no capacity for more replicas")
            return Upgrade(first=first)
    asked = options.way == "surge"
    if item is None or not (asked or (options.way == "auto" and _restart_stops(item))):
        _refuse(diff, service, options)
        if options.way == "shrink":
            yield Noted("--upgrade shrink is not needed: the change starts no second RayCluster")
        return Upgrade(restart=restart)
    if not _restart_stops(item):
        _refuse(diff, service, options)
        yield Noted("--upgrade surge is not needed: this change causes no downtime")
        return Upgrade()
    return (yield from _surge(service, manifests, diff, options))


def _surge(
    service: ServiceRef, manifests: Sequence[Mapping[str, Any]], diff: Diff, options: UpgradeOptions
) -> Generator[Noted, None, Upgrade]:
    """One more replica while they are replaced, if that helps and has a place; else the outage is to be accepted."""
    asked = options.way == "surge"
    if asked and not options.wait:
        raise UserError(
            "--upgrade surge takes two steps, and the first is waited for: it cannot be combined with --no-wait",
            hint="remove --no-wait",
        )
    try:
        first, pods = raised(service, manifests)
    except UserError:
        if asked:
            raise
        _refuse(diff, service, options)
        return Upgrade()
    if not options.wait:
        _refuse(diff, service, options, hint="--wait    # another replica answers meanwhile")
        return Upgrade()
    room = place(service.cluster, first, pods)
    if not room.ok and not asked:
        why = f"; no capacity for an extra replica: {room.detail}"
        _refuse(diff, service, options, why, "--upgrade surge to wait for a place, if nodes are added or become free")
        return Upgrade()
    replicas = ", ".join(f"{model}: {SURGE}" for model in pods)
    yield Noted(f"surge: {replicas} replicas while they are replaced one at a time; {room.detail}")
    return Upgrade(first)


def choose_restart(
    service: ServiceRef, known: Sequence[Revision], diff: Diff, options: UpgradeOptions
) -> Generator[Noted, None, Upgrade]:
    """Choose how a restart of `service`, which is `diff`, gets its second RayCluster. known: its history.

    What another tool applied is left to it: there the second RayCluster waits until it has a place. Raises as
    choose_upgrade does.
    """
    item = _configured(diff, service)
    if item is None or not item.waits or options.way == "new-cluster":
        return Upgrade()
    try:
        own = own_manifest(service, known)
    except UserError as error:
        yield Noted(f"{error.message}: it keeps all replicas, and the second RayCluster waits until it has a place")
        return Upgrade()
    upgrade = yield from _scarce(service, [own], item, replace(options, revisions=known), None)
    if upgrade.shrink is not None and known:
        back = f"rayllm-ctl rollback {service.name} -n {service.namespace} --to {known[-1].number}"
        yield Noted(f"shrink: should this be interrupted, {back} brings all replicas back")
    return upgrade


def _scarce(
    service: ServiceRef, manifests: Sequence[Mapping[str, Any]], item: ObjectDiff,
    options: UpgradeOptions, restart: Mapping[str, Any] | None,
) -> Generator[Noted, None, Upgrade]:  # fmt: skip
    """A second RayCluster for which the nodes have no capacity beside the one that runs.

    Fewer replicas until it has taken over, if that helps; else the RayCluster that runs goes first, if the outage is
    accepted or nothing answers anyway.
    """
    strategy = ((item.after or {}).get("spec", {}).get("upgradeStrategy") or {}).get("type")
    if options.way == "new-cluster" or strategy == INCREMENTAL:
        if options.way == "shrink":
            yield Noted(f"--upgrade shrink is not needed: KubeRay itself moves capacity in steps ({INCREMENTAL})")
        return Upgrade(restart=restart)
    found = shrinking(service, manifests, options.revisions)
    if found is None:
        if options.way == "shrink":
            yield Noted("--upgrade shrink is not needed: the second RayCluster has a place beside the first")
        return Upgrade()
    waits = "--upgrade new-cluster    # waits for capacity; the running service keeps serving"
    lacking = "; ".join(one.message for one in item.explanation.consequences if one.capacity is False)
    if isinstance(found, Shrink):
        if not options.wait:
            raise UserError(
                f"{service.label}: {lacking}; fewer replicas until it has taken over make room, step by step, which "
                "cannot be combined with --no-wait; nothing was applied",
                hint=("remove --no-wait", waits),
            )
        yield from found.notes()
        return Upgrade(first=found.second, shrink=found)
    if found.replaceable and (options.accept_outage or not answers(service.live)):
        first = _first_cluster(service)
        yield Noted(
            f"replace: RayCluster {first.name} is deleted first, since the nodes have no capacity for both: {found.why}"
        )
        return Upgrade(replaced=first)
    if not answers(service.live):
        return Upgrade()
    problem = (
        f"{service.label}: the second RayCluster does not fit beside the running one ({found.why}); nothing was "
        f"applied: {lacking}"
    )
    if found.replaceable:
        raise OutageError(f"{problem}; if the outage is accepted, the one that runs is deleted first", hint=waits)
    raise UserError(problem, hint=waits)


def _first_cluster(service: ServiceRef) -> Entry:
    """The RayCluster that serves, which the user may delete."""
    name = service.kind.clusters_of(service.live)[0]
    found = entry(service.cluster.get(kuberay.RAY_CLUSTER, name, service.namespace))
    service.require_rights(rights_to_delete([found]))
    return found


def _refuse(diff: Diff, service: ServiceRef, options: UpgradeOptions, why: str = "", hint: str = "") -> None:
    """Raise OutageError unless the outage is accepted. why: why it cannot be avoided; hint: what avoids it."""
    if options.accept_outage:
        return
    try:
        refuse_outage(diff, service.live)
    except OutageError as error:
        raise OutageError(f"{error.message}{why}", hint=hint or error.hints) from None


def _configured(diff: Diff, service: ServiceRef) -> ObjectDiff | None:
    """The change of the object that runs the service."""
    found = (item for item in diff.objects if item.kind == service.kind.name and item.name == service.name)
    return next((item for item in found if item.action == "configured"), None)


def _has(diff: Diff, service: ServiceRef, effect: str) -> bool:
    item = _configured(diff, service)
    return item is not None and any(one.effect == effect for one in item.explanation.consequences)


def _restart_stops(item: ObjectDiff) -> bool:
    """Whether nothing answers because replicas restart, and for no other reason."""
    lost = [one for one in item.explanation.consequences if stops(one)]
    return bool(lost) and all(one.effect == "restart" for one in lost)


def _require_possible(diff: Diff, service: ServiceRef, way: Way) -> None:
    """Raise UserError where a change starts a second RayCluster, or none, and that is not what was asked for."""
    item = _configured(diff, service)
    if item is None:
        return
    if way in ("in-place", "surge") and _has(diff, service, "new-cluster"):
        fields = sorted({one.field for one in item.explanation.changes if one.effect == "new-cluster"})
        raise UserError(
            f"{service.label}: {', '.join(fields)} cannot change on the RayCluster that runs, as --upgrade {way} "
            "asks for: KubeRay starts a second one; nothing was applied",
            hint="--upgrade new-cluster    # or auto",
        )
    if way != "auto" and way != "in-place" and service.kind.is_cluster:
        raise UserError(
            f"{service.label} is a RayCluster of its own: --upgrade {way} is for RayServices; nothing was applied",
            hint="remove --upgrade",
        )


def _merged(item: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """`item` with what `part` of the same object adds to its head group."""
    if (item["kind"], item["metadata"]["name"]) != (part["kind"], part["metadata"]["name"]):
        return dict(item)
    config = cluster_spec(item)
    head = config["headGroupSpec"]
    template = head["template"]
    metadata = template.get("metadata") or {}
    added = cluster_spec(part)["headGroupSpec"]["template"]["metadata"]["annotations"]
    annotations = {**(metadata.get("annotations") or {}), **added}
    head = {**head, "template": {**template, "metadata": {**metadata, "annotations": annotations}}}
    return with_cluster_spec(item, {**config, "headGroupSpec": head})
