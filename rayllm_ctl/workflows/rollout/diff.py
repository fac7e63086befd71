"""The changes that applying a service would make, and their effect on running pods. Nothing is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from rayllm_ctl.changes import objects
from rayllm_ctl.changes.compare import compare_manifests
from rayllm_ctl.cluster.api.errors import NotFoundError, short_reason
from rayllm_ctl.cluster.apply.apply import would_apply
from rayllm_ctl.cluster.apply.bounds import bounds_patch
from rayllm_ctl.cluster.apply.inventory import Inventory, inventory
from rayllm_ctl.cluster.apply.prune import leftovers
from rayllm_ctl.cluster.lookup.kinds import learn_other_kinds, require_other_kinds
from rayllm_ctl.cluster.ray.active import active_cluster
from rayllm_ctl.cluster.ray.dashboard import dashboard_of
from rayllm_ctl.cluster.ray.serve import read_state, unread
from rayllm_ctl.cluster.snapshot.nodes import all_nodes
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.capacity import capacity_check, first_requests
from rayllm_ctl.kinds import WORKLOADS, workload
from rayllm_ctl.kinds.rayjob import KIND as JOB
from rayllm_ctl.kinds.rayjob import explain_job
from rayllm_ctl.model.kube.kuberay import RAY_CLUSTER, answers
from rayllm_ctl.model.kube.kuberay_versions import VERSIONS
from rayllm_ctl.model.kube.labels import CONTROLLER, MANAGER
from rayllm_ctl.model.kube.owned import declared_by
from rayllm_ctl.model.observed.changes import Consequence, Diff, Explain, Explanation, ObjectDiff, Running, Unread
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.observed.serve_state import ServeState
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.text.hint import Hint
from rayllm_ctl.model.workload import WorkloadKind
from rayllm_ctl.workflows.render.service import rendering
from rayllm_ctl.workflows.render.types import Rendering, RenderOptions, ServeFile
from rayllm_ctl.workflows.rollout.manifests import KEPT, apply_rights, as_declared, placed
from rayllm_ctl.workflows.rollout.model_storage.claims import read_facts, with_live_claims
from rayllm_ctl.workflows.rollout.prerequisites import known_cluster
from rayllm_ctl.workflows.services import ServiceRef, read_service_ref

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_STALE = "the live RayCluster has other replica bounds than its RayService; rayllm-ctl deploy writes them, or"

SHRINK_HINT = Hint("rayllm-ctl deploy --upgrade shrink", "frees GPUs by stopping replicas of the first")
"""For a second RayCluster that does not fit beside the first."""


@dataclass(frozen=True, kw_only=True)
class DiffOptions:
    """force_conflicts: compare as if fields of other managers were taken over. field_manager: the manager that applies.
    render: options for the manifests.
    """

    force_conflicts: bool = False
    field_manager: str = MANAGER
    render: RenderOptions = RenderOptions()


def diff(service: LLMService | ServeFile, options: DiffOptions, connect: Callable[[], Cluster]) -> Diff:
    """The changes that `deploy` of `service` would make in the cluster.

    Raises UserError as `deploy --dry-run=server` does, FieldConflictError if another manager owns changed fields.
    """
    made = rendered(service, options.render)
    cluster = connect()
    namespace = made.namespace or cluster.namespace
    now, applied = current(cluster, made.manifests, namespace)
    made, why = made.for_cluster(known_cluster(now))
    manifests: Sequence[Mapping[str, Any]] = with_live_claims(
        made.manifests, read_facts(cluster, made.manifests, namespace)
    )
    if declared_by(now.item) is not None:
        manifests = as_declared(now.live, manifests)
        if options.field_manager == MANAGER:
            options = replace(options, field_manager=CONTROLLER)
    found = diff_live(now, manifests, applied, options, planned_start_seconds(made))
    return replace(found, notes=(*found.notes, f"token authentication: {why}")) if why else found


def rendered(service: LLMService | ServeFile, options: RenderOptions) -> Rendering:
    """The rendering to compare: the API server checks it for the cluster's version of KubeRay."""
    return rendering(service, replace(options, kuberay=VERSIONS[-1]))


def current(cluster: Cluster, manifests: Sequence[Mapping[str, Any]], namespace: str) -> tuple[ServiceRef, Inventory]:
    """The live service of `manifests`, and the objects applied for it except those of the kinds KEPT.

    Raises UserError if they cannot be applied at all; see preflight.
    """
    kind, manifest = workload(manifests)
    name = manifest["metadata"]["name"]
    require_other_kinds(cluster, manifests)
    service = read_service_ref(cluster, kind, name, namespace, apply_rights(kind, manifests).needed)
    learn_other_kinds(cluster, [service.item] if service.item is not None else [])
    owner = (declared_by(service.item) or {}).get("uid", "")
    return service, inventory(cluster, name, namespace, KEPT, owner=owner)


def diff_live(
    service: ServiceRef,
    manifests: Sequence[Mapping[str, Any]],
    applied: Inventory,
    options: DiffOptions,
    seconds: float | None = None,
) -> Diff:
    """The changes that applying `manifests` of one service would make. applied: its inventory. seconds: start-up time
    of a replica.
    """
    cluster, kind, namespace = service.cluster, service.kind, service.namespace
    existing, version = service.item, service.kuberay
    ray_cluster = cache(lambda name: cluster.get(RAY_CLUSTER, name, namespace))
    running = Running(version)
    if existing is not None:
        running = _running(cluster, ray_cluster, kind, existing, version, seconds)
    target = [placed(item, namespace) for item in manifests]
    would = would_apply(
        cluster,
        target,
        force_conflicts=options.force_conflicts,
        field_manager=options.field_manager,
        known={(kind.name, service.name): existing},
    )
    found = [compare_manifests(before, after, _explain_of(after), running) for before, after in would]
    changed = [_completed(item, cluster, running) for item in found if item.action != "unchanged"]
    after = next((item.after for item in found if item.kind == kind.name and item.after is not None), {})
    kept = [item.keeps_cluster_if for item in changed]
    # What is applied to a RayCluster of its own reaches it; of the two of a RayService the second takes over.
    staying = () if kind.is_cluster or None in kept else running.clusters[-1:]
    patches, unread = _patch_commands(ray_cluster, staying, namespace, after)
    bound = [_with_bounds(item, patches) for item in changed]
    gone, unknown = _no_longer_rendered(applied, target, namespace, running)
    stale = patches if bound == changed and not any(kept) else ()
    notes = (*unread, *unknown, *(f"{_STALE}: {command}" for command in stale))
    return Diff((*bound, *gone), notes=notes)


def diff_change(service: ServiceRef, manifest: Mapping[str, Any], field_manager: str) -> Diff:
    """What applying a part of the object of a service would change, by a field manager of its own."""
    cluster, kind = service.cluster, service.kind

    def ray_cluster(name: str) -> Object:
        return cluster.get(RAY_CLUSTER, name, service.namespace)

    running = _running(cluster, ray_cluster, kind, service.live, service.kuberay, None)
    known = {(kind.name, service.name): service.item}
    would = would_apply(cluster, [manifest], field_manager=field_manager, known=known)
    found = [compare_manifests(before, after, kind.explain, running) for before, after in would]
    return Diff(tuple(_completed(item, cluster, running) for item in found if item.action != "unchanged"))


def diff_files(old: Iterable[Object], new: Iterable[Object], seconds: float | None = None) -> Diff:
    """The changes between two sets of manifests, without a cluster: running pods and free capacity are unknown."""
    before, after = ({_key(item): item for item in side} for side in (old, new))
    running = Running(start_seconds=seconds)
    found = [compare_manifests(before.get(key), item, _explain_of(item), running) for key, item in after.items()]
    found += [
        compare_manifests(item, None, _explain_of(item), running) for key, item in before.items() if key not in after
    ]
    return Diff(tuple(_completed(item, None, running) for item in found if item.action != "unchanged"), ("OLD", "NEW"))


def planned_start_seconds(made: Rendering) -> float | None:
    """Start-up time of a replica in a pod that has the model already: a restarted replica downloads nothing."""
    startup = made.startup
    return max(startup.total.typical - startup.download.typical, 0.0) if startup else None


def _key(item: Object) -> tuple[str, str, str, str]:
    metadata = item.get("metadata") or {}
    group = str(item.get("apiVersion") or "").rpartition("/")[0]
    return group, str(item.get("kind")), str(metadata.get("namespace") or ""), str(metadata.get("name"))


def _explain_of(item: Object) -> Explain:
    name = str(item.get("kind"))
    if name == JOB:
        return explain_job
    kind = WORKLOADS.get(name)
    return kind.explain if kind else objects.explain_object


def _running(
    cluster: Cluster, ray_cluster: Callable[[str], Object], kind: WorkloadKind, existing: Object, version: str,
    seconds: float | None,
) -> Running:  # fmt: skip
    """What runs of the object `existing` of a service. ray_cluster: reads the RayCluster of a name."""
    clusters = kind.clusters_of(existing)
    running = Running(version, clusters, start_seconds=seconds, serves=answers(existing))
    if not clusters or kind.is_cluster:
        return running
    found = _serve_state(cluster, ray_cluster, clusters[0], existing)
    if isinstance(found, Unread):
        return replace(running, unread=found)
    return replace(running, replicas={f"{one.app}/{one.name}": len(one.running) for one in found.deployments})


def _serve_state(
    cluster: Cluster, ray_cluster: Callable[[str], Object], name: str, service: Object
) -> ServeState | Unread:
    """Serve's own state on a RayCluster of a RayService."""
    metadata = service["metadata"]
    try:
        dashboard = dashboard_of(cluster, ray_cluster(name))
        # Before the first RayCluster has served, Serve may not have been started there.
        return read_state(dashboard, started=name == active_cluster(service))
    except UserError as error:
        status = f"rayllm-ctl status {metadata['name']} -n {metadata['namespace']}    # why Serve does not answer"
        return Unread(f"Serve's state could not be read ({unread(error)})", Hint(status))


def _patch_commands(
    ray_cluster: Callable[[str], Object], names: Iterable[str], namespace: str, after: Object
) -> tuple[list[str], list[str]]:
    """Commands that give live RayClusters the bounds of their RayService, if they differ; and notes on unknown ones."""
    commands, notes = list[str](), list[str]()
    for name in names:
        try:
            operations = bounds_patch(ray_cluster(name), after)
        except NotFoundError:
            continue  # its upgrade has just ended
        except UserError as error:
            notes.append(f"the replica bounds of RayCluster {name} are unknown: {short_reason(error)}")
            continue
        if operations:
            commands.append(f"kubectl patch raycluster {name} -n {namespace} --type=json -p '{json.dumps(operations)}'")
    return commands, notes


def _with_bounds(item: ObjectDiff, commands: Sequence[str]) -> ObjectDiff:
    """`item` with hints: the commands that apply changed bounds to the live RayCluster."""
    consequences = tuple(
        replace(one, hints=(*one.hints, *map(Hint, commands))) if one.effect == "bounds" else one
        for one in item.explanation.consequences
    )
    return replace(item, explanation=replace(item.explanation, consequences=consequences))


def _completed(item: ObjectDiff, cluster: Cluster | None, running: Running) -> ObjectDiff:
    """`item` with the RayCluster that it starts, and the resources that this needs."""
    if item.kind not in WORKLOADS:
        return item
    if item.action == "created":
        starts = Consequence("created", "KubeRay starts a RayCluster")
        return replace(item, explanation=Explanation((), (_with_needs(starts, item, cluster, running),)))
    if not any(change.effect == "new-cluster" for change in item.explanation.changes):
        return item
    consequences = tuple(
        _with_needs(one, item, cluster, running) if one.effect == "new-cluster" else one
        for one in item.explanation.consequences
    )
    return replace(item, explanation=replace(item.explanation, consequences=consequences))


def _with_needs(starts: Consequence, item: ObjectDiff, cluster: Cluster | None, running: Running) -> Consequence:
    """The start of a RayCluster with the requests of its pods, and whether the nodes have the capacity now."""
    manifest = item.after or {}
    extra = first_requests(manifest)
    asked = ", ".join(f"{amount} {name}" for name, amount in extra.items()) or "no resources"
    message = f"{starts.message}. Its pods request {asked}"
    found = all_nodes(cluster) if cluster is not None else None
    if found is None:
        if cluster is not None:
            message = (
                f"{message}; whether the nodes have these resources is unknown: not permitted to list nodes and pods"
            )
        return replace(starts, message=message, extra=extra)
    check = capacity_check(manifest, *found)
    message = f"{message}: {check.detail}"
    if check.ok:
        return replace(starts, message=message, extra=extra, capacity=True)
    hints = [Hint("rayllm-ctl status -A", "services that may be scaled down or deleted first")]
    if item.action == "configured":
        message = f"{message}; the new RayCluster waits without a time limit"
        message += ", and the running one keeps serving" if running.serves else ""
        hints.append(SHRINK_HINT)
    return replace(starts, message=message, hints=tuple(hints), extra=extra, capacity=False)


def _no_longer_rendered(
    applied: Inventory, manifests: Sequence[Mapping[str, Any]], namespace: str, running: Running
) -> tuple[list[ObjectDiff], list[str]]:
    """Objects that an earlier deployment applied and this one does not; and a note on kinds that cannot be read."""
    name = workload(manifests)[1]["metadata"]["name"]
    live, unknown = leftovers(applied, manifests, name, namespace, kept=KEPT)
    return [compare_manifests(item, None, objects.explain_object, running) for item in live], [
        unknown
    ] if unknown else []
