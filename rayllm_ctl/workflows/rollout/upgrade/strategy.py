"""Choose how to roll out a change: in place, with temporarily more or fewer replicas, or with a second RayCluster.

Ray Serve stops an old replica before it starts the new one, at least one at a time: with one replica this is an
outage, with two the other one keeps answering. If the same write raises one to two, Serve starts a new one first
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
from rayllm_ctl.model.observed.changes import Diff, ObjectDiff
from rayllm_ctl.model.spec.ray_options import INCREMENTAL, Way
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
    """The steps of a change. shrink: replicas that have to stop first; first: the changed service with another number
    of replicas, which has to be Ready before the change itself is applied; restart: a part of the service that starts
    a second RayCluster, applied before the change; replaced: the RayCluster that is deleted after it, as the second
    one does not fit otherwise.
    """

    first: Mapping[str, Any] | None = None
    restart: Mapping[str, Any] | None = None
    shrink: Shrink | None = None
    replaced: Entry | None = None


@dataclass(frozen=True, kw_only=True)
class UpgradeOptions:
    """way: see Way. wait: the deployment waits until the service is Ready. said: the effect was already reported.
    diff: the changes, if known. revisions: the history of the service, if known.
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

    applied: its inventory. seconds: start-up time of a replica.

    Raises OutageError if the service would be unavailable for a while, unless accept_outage, and UserError if the
    requested strategy is not possible.
    """
    how = DiffOptions(force_conflicts=options.force_conflicts)
    diff = options.diff
    if diff is None:
        diff = as_deployed(diff_live(service, manifests, applied, how, seconds))
    restart = None
    if options.way == "new-cluster" and _has(diff, service, "restart") and not _has(diff, service, "new-cluster"):
        restart = with_restart(service)
        changed = [merged(item, restart) for item in manifests]
        diff = as_deployed(diff_live(service, changed, applied, how, seconds))
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
            yield Noted("switching to the new RayCluster first: not enough capacity for extra replicas")
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
    """One extra replica during the replacement, if that helps and fits; otherwise require --accept-outage."""
    asked = options.way == "surge"
    if asked and not options.wait:
        raise UserError(
            "--upgrade surge waits between its two steps and cannot be combined with --no-wait",
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
        _refuse(diff, service, options, hint="--wait    # an extra replica keeps answering")
        return Upgrade()
    room = place(service.cluster, first, pods)
    if not room.ok and not asked:
        why = f"; no capacity for an extra replica: {room.detail}"
        _refuse(
            diff, service, options, why, "--upgrade surge    # waits for capacity, if nodes are added or become free"
        )
        return Upgrade()
    replicas = ", ".join(f"{model}: {SURGE}" for model in pods)
    yield Noted(f"surge: {replicas} replicas while they are replaced one at a time; {room.detail}")
    return Upgrade(first)


def choose_restart(
    service: ServiceRef, known: Sequence[Revision], diff: Diff, options: UpgradeOptions
) -> Generator[Noted, None, Upgrade]:
    """Choose how a restart of `service`, with the changes `diff`, starts its second RayCluster. known: its history.

    A service that another tool applied is not scaled: its second RayCluster waits for capacity. Raises as
    choose_upgrade does.
    """
    item = _configured(diff, service)
    if item is None or not item.waits or options.way == "new-cluster":
        return Upgrade()
    try:
        own = own_manifest(service, known)
    except UserError as error:
        yield Noted(f"{error.message}: it keeps all replicas, and the second RayCluster waits for capacity")
        return Upgrade()
    upgrade = yield from _scarce(service, [own], item, replace(options, revisions=known), None)
    if upgrade.shrink is not None and known:
        back = f"rayllm-ctl rollback {service.name} -n {service.namespace} --to {known[-1].number}"
        yield Noted(f"shrink: if this is interrupted, {back} restores all replicas")
    return upgrade


def _scarce(
    service: ServiceRef, manifests: Sequence[Mapping[str, Any]], item: ObjectDiff,
    options: UpgradeOptions, restart: Mapping[str, Any] | None,
) -> Generator[Noted, None, Upgrade]:  # fmt: skip
    """The strategy for a second RayCluster that does not fit next to the running one.

    Fewer replicas until it has taken over, if that helps; else the running RayCluster is deleted first, if the outage
    is accepted or the service is unavailable anyway.
    """
    strategy = ((item.after or {}).get("spec", {}).get("upgradeStrategy") or {}).get("type")
    if options.way == "new-cluster" or strategy == INCREMENTAL:
        if options.way == "shrink":
            yield Noted(f"--upgrade shrink is not needed: KubeRay itself moves capacity in steps ({INCREMENTAL})")
        return Upgrade(restart=restart)
    found = shrinking(service, manifests, options.revisions)
    if found is None:
        if options.way == "shrink":
            yield Noted("--upgrade shrink is not needed: the second RayCluster fits next to the first")
        return Upgrade()
    waits = "--upgrade new-cluster    # waits for capacity; the running service keeps serving"
    lacking = "; ".join(one.message for one in item.explanation.consequences if one.capacity is False)
    if isinstance(found, Shrink):
        if not options.wait:
            raise UserError(
                f"{service.label}: {lacking}; shrinking the running RayCluster takes several steps, which "
                "cannot be combined with --no-wait; nothing was applied",
                hint=("remove --no-wait", waits),
            )
        yield from found.notes()
        return Upgrade(first=found.second, shrink=found)
    if found.replaceable and (options.accept_outage or not answers(service.live)):
        first = _first_cluster(service)
        yield Noted(f"replace: RayCluster {first.name} is deleted first: no capacity for both: {found.why}")
        return Upgrade(replaced=first)
    if not answers(service.live):
        return Upgrade()
    problem = (
        f"{service.label}: the second RayCluster does not fit next to the running one ({found.why}); nothing was "
        f"applied: {lacking}"
    )
    if found.replaceable:
        raise OutageError(f"{problem}; if the outage is accepted, the running one is deleted first", hint=waits)
    raise UserError(problem, hint=waits)


def _first_cluster(service: ServiceRef) -> Entry:
    """The serving RayCluster, after a check that the user may delete it."""
    name = service.kind.clusters_of(service.live)[0]
    found = entry(service.cluster.get(kuberay.RAY_CLUSTER, name, service.namespace))
    service.require_rights(rights_to_delete([found]))
    return found


def _refuse(diff: Diff, service: ServiceRef, options: UpgradeOptions, why: str = "", hint: str = "") -> None:
    """Raise OutageError unless the outage is accepted. why: why it cannot be avoided; hint: how to avoid it."""
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
    """Whether the service is unavailable only because replicas restart."""
    lost = [one for one in item.explanation.consequences if stops(one)]
    return bool(lost) and all(one.effect == "restart" for one in lost)


def _require_possible(diff: Diff, service: ServiceRef, way: Way) -> None:
    """Raise UserError if the requested strategy does not allow the change."""
    item = _configured(diff, service)
    if item is None:
        return
    if way in ("in-place", "surge") and _has(diff, service, "new-cluster"):
        fields = sorted({one.field for one in item.explanation.changes if one.effect == "new-cluster"})
        raise UserError(
            f"{service.label}: {', '.join(fields)} cannot change on the running RayCluster, as --upgrade {way} "
            "requires: KubeRay starts a second one; nothing was applied",
            hint="--upgrade new-cluster    # or auto",
        )
    if way != "auto" and way != "in-place" and service.kind.is_cluster:
        raise UserError(
            f"{service.label} is a RayCluster of its own: --upgrade {way} is for RayServices; nothing was applied",
            hint="remove --upgrade",
        )


def merged(item: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """`item` with the additions of `part`, of the same object, to its head group."""
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
