"""From a Snapshot to the Health of one service."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from datetime import datetime

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.clustercontext import ClusterContext
from rayllm_ctl.health.context import ReplicasOf, ServiceContext
from rayllm_ctl.health.downloading import download_health, downloading_health, is_downloading
from rayllm_ctl.health.finding import Finding
from rayllm_ctl.health.normal import normal_health, normal_servers, unread_health, unverified_health
from rayllm_ctl.health.objects.cluster_spec import suspended
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.result import make_health
from rayllm_ctl.health.rules import (
    AFTERMATH_RULES,
    CLUSTER_RULES,
    CONSEQUENCE_RULES,
    LAST_RULES,
    POD_RULES,
    SERVER_CONSEQUENCE_RULES,
    SERVER_POD_RULES,
    SERVER_SERVICE_RULES,
    SERVICE_RULES,
    ClusterRule,
    PodRule,
    ServiceRule,
)
from rayllm_ctl.health.rules.applications import application_failed
from rayllm_ctl.health.rules.deletion import deletion_blocked
from rayllm_ctl.health.rules.modelstorage.caches import compile_cache_unused
from rayllm_ctl.health.rules.modelstorage.downloads import download_findings, waiting_pods
from rayllm_ctl.health.rules.overdue import overdue
from rayllm_ctl.health.rules.reconciling import halted
from rayllm_ctl.health.rules.upgrade import upgrade_blocked
from rayllm_ctl.health.serving import has_served, is_serving
from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Health, Snapshot, State

_WAITS_FOR_THE_CLUSTER = frozenset(
    {
        "InsufficientGPU", "InsufficientResources", "UntoleratedTaint", "NodeSelectorMismatch", "SchedulingGated",
        "QuotaExceeded", "ImagePullFailed", "MissingSecretOrConfig", "VolumeNotReady", "ReplicaUnschedulable",
        "NodeLost", "Evicted", "UpgradeBlocked", "PodSandboxFailed", "NodeRejectedPod", "HeadUnreachable",
        "HubUnreachable",
    }
)  # fmt: skip
"""Causes that end when the cluster offers what it lacks now: a service that does not serve is Stuck, not Failed."""

_ALONE = frozenset({"ValidationFailed"})
"""Service causes beside which nothing else is looked for: KubeRay creates nothing for a RayService that it rejects."""

_STOPS_NOTHING = frozenset({"BoundsNotApplied"})
"""Causes that do not explain why nothing answers. Bounds differ between the two writes of a change, too."""


@dataclass(frozen=True)
class _Kind:
    """What differs between services that Ray Serve runs and those of vLLM's own server."""

    service_rules: tuple[ServiceRule, ...]
    pod_rules: tuple[PodRule, ...]
    consequence_rules: tuple[ClusterRule, ...]
    last_rules: tuple[ServiceRule, ...]
    normal: Callable[[ServiceContext], Health]


_BY_SERVE = _Kind(SERVICE_RULES, POD_RULES, CONSEQUENCE_RULES, LAST_RULES, normal_health)
_BY_VLLM = _Kind(SERVER_SERVICE_RULES, SERVER_POD_RULES, SERVER_CONSEQUENCE_RULES, (), normal_servers)


def diagnose(snapshot: Snapshot, name: str, namespace: str, replicas_of: ReplicasOf | None = None) -> Health:
    """How the RayService `name` is, why, and what to do about it. replicas_of: what a Serve configuration asks for.

    Pure and total: objects of any shape give a Health. Too little evidence gives the state Unknown, never Ready.
    """
    return _with_remarks(ServiceContext(snapshot, name, namespace, replicas_of), _BY_SERVE)


def diagnose_cluster(snapshot: Snapshot, name: str, namespace: str) -> Health:
    """How the RayCluster `name` is, in which vLLM's own server runs; as `diagnose`."""
    return _with_remarks(ClusterContext(snapshot, name, namespace), _BY_VLLM)


def _with_remarks(context: ServiceContext, kind: _Kind) -> Health:
    """The health, with what costs time and stops nothing."""
    health = _diagnose(context, kind)
    remark = compile_cache_unused(context)
    return health if remark is None else dataclasses.replace(health, causes=(*health.causes, remark.cause))


def _diagnose(context: ServiceContext, kind: _Kind) -> Health:
    name = context.name
    if context.service is None:
        return _absent(context)
    if context.service.deleted is not None:
        return _deleting(context, f"{name} is being deleted")
    found = _findings(context, kind)
    if not is_serving(context) and all(one.cause.code in _STOPS_NOTHING for one in found):
        found = []
    if not found and not is_serving(context) and not _is_suspended(context):
        found = [one for one in [halted(context)] if one is not None]
    if found:
        return _troubled(context, found)
    if _is_suspended(context):
        return make_health(
            context, State.SUSPENDED, "suspended: it has no pods until it is resumed", since=_suspended_since(context)
        )
    if context.pods_unread:
        return unverified_health(context)
    health = downloading_health(context) or kind.normal(context)
    if is_downloading(context):
        return health
    open_ = health.state in (State.PROGRESSING, State.UNKNOWN)
    late = overdue(context, seen=health.state is State.PROGRESSING) if open_ else None
    return _troubled(context, [late]) if late is not None else health


def _findings(context: ServiceContext, kind: _Kind) -> list[Finding]:
    service = _first(rule(context) for rule in kind.service_rules)
    if service is not None and service.cause.code in _ALONE:
        return [service]
    if _is_suspended(context):
        return [service] if service else []
    downloads = download_findings(context)
    found = [*([service] if service else []), *downloads]
    waiting = {pod.cluster for pod in waiting_pods(context)}
    for cluster in context.clusters:
        explained = service is not None or cluster.name in waiting
        mine = _cluster_findings(context, cluster, kind, explained=explained)
        blocked = upgrade_blocked(context, tuple(mine)) if cluster.role == "pending" else None
        found += [blocked, *mine] if blocked else mine
    last = (rule(context) for rule in kind.last_rules)
    found = merged_health([*found, *(one for one in last if one is not None)])
    return found if service is not None or not context.changed else [_provisional(one) for one in found]


def _provisional(one: Finding) -> Finding:
    """A cause that a pending change may resolve: what is seen is still what was asked for before it."""
    return dataclasses.replace(one, cause=dataclasses.replace(one.cause, terminal=False))


def _cluster_findings(context: ServiceContext, cluster: RayCluster, kind: _Kind, *, explained: bool) -> list[Finding]:
    """The causes of one cluster. `explained`: the service has said what is wrong, so consequences are not asked."""
    found = [one for one in [_first(rule(context, cluster) for rule in CLUSTER_RULES)] if one]
    if context.pods_unread:
        # Other rules conclude something from pods that are missing.
        failed = [one for app in cluster.serve.applications if (one := application_failed(context, cluster, app))]
        return [*found, *(one for one in failed if not one.consequence)]
    for pod in cluster.pods:
        if pod.deleted is None:
            cause = _first(rule(context, pod) for rule in kind.pod_rules)
            found += [cause] if cause else []
    found = found or [one for rule in AFTERMATH_RULES if (one := rule(context, cluster)) is not None]
    failures = (application_failed(context, cluster, app) for app in cluster.serve.applications)
    failed = [one for one in failures if one is not None]
    if all(one.cause.code in _WAITS_FOR_THE_CLUSTER for one in found):
        # A pod that has never run makes no application fail, unless the application says that it lacks a place.
        raised = [one for one in failed if not one.consequence]
        found = [*raised, *found, *(one for one in failed if one.consequence)]
    else:
        found += failed
    if found or explained:
        return found
    consequence = _first(rule(context, cluster) for rule in kind.consequence_rules)
    return [consequence] if consequence else []


def merged_health(findings: Iterable[Finding]) -> list[Finding]:
    """The same trouble of several pods as one cause, in the order found."""
    merged: dict[tuple[str, ...], Finding] = {}
    others: dict[tuple[str, ...], list[str]] = {}
    for one in findings:
        if one.key in merged:
            others.setdefault(one.key, []).append(one.cause.object)
        else:
            merged[one.key] = one
    for key, names in others.items():
        told = sorted(set(names) - {merged[key].cause.object})
        if told:
            cause = merged[key].cause
            more = f" and {len(told) - 3} more" if len(told) > 3 else ""
            message = f"{cause.message} (the same for {', '.join(told[:3])}{more})"
            merged[key] = dataclasses.replace(merged[key], cause=dataclasses.replace(cause, message=message))
    return list(merged.values())


def _troubled(context: ServiceContext, findings: list[Finding]) -> Health:
    first = findings[0]
    outlives = not context.by_serve and has_served(context) and not first.cause.terminal
    if is_serving(context) or first.recovers or outlives:
        state = State.DEGRADED
    elif (first.waits or first.cause.code in _WAITS_FOR_THE_CLUSTER) and not first.cause.terminal:
        state = State.STUCK
    else:
        state = State.FAILED
    return make_health(context, state, first.headline, findings)


def _absent(context: ServiceContext) -> Health:
    """There is no RayService: its pods may still be on their way out, KubeRay's objects vanish before them."""
    if context.unread(context.kind):
        return unread_health(context)
    left = [pod for pod in context.pods if pod.deleted is not None]
    if left or any(fields.deleted(item) is not None for item in context.ray_clusters):
        return _deleting(context, f"{context.name} is deleted; {len(left)} pods are still terminating")
    if context.ray_clusters:
        names = ", ".join(fields.name(item) for item in context.ray_clusters)
        return make_health(
            context,
            State.NOT_FOUND,
            f"there is no {context.kind} {context.name}, but its RayCluster {names} was left behind",
        )
    if context.pods:
        return _deleting(context, f"{context.name} is deleted; {len(context.pods)} pods are still terminating")
    if (downloads := download_health(context)) is not None:
        return downloads
    if context.lacks_namespace:
        return make_health(context, State.NOT_FOUND, f"namespace {context.namespace} does not exist")
    close = nearest(context.name, (fields.name(item) for item in context.of_kind(context.kind)))
    meant = f"; did you mean {close}?" if close else ""
    return make_health(
        context, State.NOT_FOUND, f"there is no service {context.name} in namespace {context.namespace}{meant}"
    )


def _deleting(context: ServiceContext, message: str) -> Health:
    blocked = deletion_blocked(context)
    since = context.service.deleted if context.service else None
    return make_health(
        context, State.DELETING, blocked.headline if blocked else message, [blocked] if blocked else [], since
    )


def _is_suspended(context: ServiceContext) -> bool:
    if context.service is not None and context.service.suspended:
        return True
    items = [cluster.item for cluster in context.clusters if cluster.item is not None]
    return bool(items) and all(suspended(item) for item in items)


def _suspended_since(context: ServiceContext) -> datetime | None:
    items = [context.service.item if context.service else {}, *(cluster.item or {} for cluster in context.clusters)]
    conditions = [fields.condition(item, type_) for item in items for type_ in ("Suspended", "RayClusterSuspended")]
    moments = [fields.when(one, "lastTransitionTime") for one in conditions if one.get("status") == "True"]
    return max((moment for moment in moments if moment is not None), default=None)


def _first(results: Iterable[Finding | None]) -> Finding | None:
    return next((one for one in results if one is not None), None)
