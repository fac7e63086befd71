"""From a Snapshot to the Health of one service."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from rayllm_ctl.health import fields
from rayllm_ctl.health.clusterspec import suspended
from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.parts import parts, replica_counts
from rayllm_ctl.health.progress import step
from rayllm_ctl.health.raycluster import RayCluster
from rayllm_ctl.health.rules import (
    AFTERMATH_RULES,
    CLUSTER_RULES,
    CONSEQUENCE_RULES,
    LAST_RULES,
    POD_RULES,
    SERVICE_RULES,
)
from rayllm_ctl.health.rules.applications import application_failed
from rayllm_ctl.health.rules.deletion import deletion_blocked
from rayllm_ctl.health.rules.reconciling import halted
from rayllm_ctl.health.rules.upgrade import upgrade_blocked
from rayllm_ctl.model.health import Health, Snapshot, State
from rayllm_ctl.model.names import nearest

_WAITS_FOR_THE_CLUSTER = frozenset(
    {
        "InsufficientGPU", "InsufficientResources", "UntoleratedTaint", "NodeSelectorMismatch", "SchedulingGated",
        "QuotaExceeded", "ImagePullFailed", "MissingSecretOrConfig", "VolumeNotReady", "ReplicaUnschedulable",
        "NodeLost", "Evicted", "UpgradeBlocked",
    }
)  # fmt: skip
"""Causes that mend when the cluster gives what it lacks now: a service that does not serve is Stuck, not Failed."""

_ALONE = frozenset({"ValidationFailed"})
"""Service causes beside which nothing else is looked for: KubeRay makes nothing of a RayService that it refuses."""

_YOUNG = 120.0
"""Seconds in which a service may have nothing to show but its own object."""


def diagnose(snapshot: Snapshot, name: str, namespace: str) -> Health:
    """How the RayService `name` is, why, and what to do about it.

    Pure and total: objects of any shape give a Health. Too little evidence gives the state Unknown, never Ready.
    """
    context = ServiceContext(snapshot, name, namespace)
    if context.service is None:
        return _absent(context)
    if context.service.deleted is not None:
        return _deleting(context, f"{name} is being deleted")
    found = _findings(context)
    if not found and not _serving(context) and not _is_suspended(context):
        found = [one for one in [halted(context)] if one is not None]
    if found:
        return _troubled(context, found)
    if _is_suspended(context):
        return _health(context, State.SUSPENDED, "suspended: its pods are gone until it is resumed")
    return _well(context)


def _findings(context: ServiceContext) -> list[Finding]:
    service = _first(rule(context) for rule in SERVICE_RULES)
    if service is not None and service.cause.code in _ALONE:
        return [service]
    if _is_suspended(context):
        return [service] if service else []
    found = [service] if service else []
    for cluster in context.clusters:
        mine = _cluster_findings(context, cluster, explained=service is not None)
        blocked = upgrade_blocked(context, tuple(mine)) if cluster.role == "pending" else None
        found += [blocked, *mine] if blocked else mine
    last = (rule(context) for rule in LAST_RULES)
    found = _merged([*found, *(one for one in last if one is not None)])
    return found if service is not None or not context.changed else [_provisional(one) for one in found]


def _provisional(one: Finding) -> Finding:
    """A cause that a change may be about to mend: what is seen is still what was asked for before it."""
    return dataclasses.replace(one, cause=dataclasses.replace(one.cause, terminal=False))


def _cluster_findings(context: ServiceContext, cluster: RayCluster, explained: bool) -> list[Finding]:
    """The causes of one cluster. `explained`: the service has said what is wrong, so consequences are not asked."""
    found = [one for one in [_first(rule(context, cluster) for rule in CLUSTER_RULES)] if one]
    for pod in cluster.pods:
        if pod.deleted is None:
            cause = _first(rule(context, pod) for rule in POD_RULES)
            found += [cause] if cause else []
    found = found or [one for rule in AFTERMATH_RULES if (one := rule(context, cluster)) is not None]
    failed = (application_failed(context, cluster, app) for app in cluster.serve.applications)
    found += [one for one in failed if one is not None]
    if found or explained:
        return found
    consequence = _first(rule(context, cluster) for rule in CONSEQUENCE_RULES)
    return [consequence] if consequence else []


def _merged(findings: Iterable[Finding]) -> list[Finding]:
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
    if _serving(context) or (first.cause.code == "HeadDown" and context.endpoints > 0):
        state = State.DEGRADED
    elif first.cause.code in _WAITS_FOR_THE_CLUSTER and not first.cause.terminal:
        state = State.STUCK
    else:
        state = State.FAILED
    return _health(context, state, first.headline, findings)


def _well(context: ServiceContext) -> Health:
    """Nothing is wrong: ready, on its way, or not enough is known."""
    service = context.service
    assert service is not None
    active = context.active
    if _serving(context) and active is not None:
        if context.pending is not None:
            return _progressing(context, f"serves; an upgrade is on its way: {step(context, context.pending)}")
        if context.changed:
            return _progressing(context, "serves; a change waits for the KubeRay operator")
        if not active.complete:
            return _progressing(context, f"serves; {step(context, active)}")
        if any(not pod.up for pod in active.workers):
            return _progressing(context, f"serves; more workers are on their way: {step(context, active)}")
        return _ready(context, active)
    if not context.clusters:
        if context.age(service.created) < _YOUNG:
            return _progressing(context, "the KubeRay operator has yet to make the Ray cluster")
        return _unknown(context, "no Ray cluster of the service can be seen")
    newest = context.clusters[-1]
    if not newest.pods and newest.serve.error and context.age(service.created) > _YOUNG:
        return _unknown(context, "neither its pods nor Serve can be seen")
    return _progressing(context, step(context, newest))


def _unknown(context: ServiceContext, message: str) -> Health:
    """Too little is known; what could not be read is the likely reason."""
    return _health(context, State.UNKNOWN, "; ".join([message, *context.snapshot.notes[:2]]))


def _ready(context: ServiceContext, cluster: RayCluster) -> Health:
    asleep = [one for one in cluster.models if one.target == 0 and one.autoscaled]
    if not asleep:
        return _health(context, State.READY, "serves")
    names = ", ".join(f"{one.app}/{one.name}" for one in asleep)
    note = finding(
        "ScaledToZero",
        f"application/{asleep[0].app}",
        f"{names} has no replica now; the first request starts one",
        headline="serves on demand: scaled to zero",
        evidence=tuple(f"{one.app}/{one.name}: {one.status}, target 0, min_replicas {one.low}" for one in asleep),
        hint=(f"rayllm-ctl chat {context.name} -n {context.namespace}   (starts a replica)",
              "rayllm-ctl deploy … --min-replicas 1   (keep one ready)"),
    )  # fmt: skip
    return _health(context, State.READY, note.headline, [note])


def _progressing(context: ServiceContext, message: str) -> Health:
    service = context.service
    since = fields.when(service.ready, "lastTransitionTime") or service.created if service else None
    note = finding(
        "StillStarting",
        f"rayservice/{context.name}",
        message,
        headline=message,
        evidence=(f"{context.age(since):.0f} s so far" if since else "",),
        hint=(f"rayllm-ctl watch {context.name} -n {context.namespace}",),
        since=since,
    )
    return _health(context, State.PROGRESSING, message, [note])


def _absent(context: ServiceContext) -> Health:
    """There is no RayService: its pods may still be on their way out, KubeRay's objects vanish before them."""
    left = [pod for pod in context.pods if pod.deleted is not None]
    if left or any(fields.deleted(item) is not None for item in context.ray_clusters):
        return _deleting(context, f"{context.name} is deleted; {len(left)} pods are still to end")
    if context.ray_clusters:
        names = ", ".join(fields.name(item) for item in context.ray_clusters)
        return _health(
            context,
            State.NOT_FOUND,
            f"there is no RayService {context.name}, but its RayCluster {names} was left behind",
        )
    if context.pods:
        return _deleting(context, f"{context.name} is deleted; {len(context.pods)} pods are still to end")
    close = nearest(context.name, (fields.name(item) for item in context.of_kind("RayService")))
    meant = f"; did you mean {close}?" if close else ""
    return _health(
        context, State.NOT_FOUND, f"there is no RayService {context.name} in namespace {context.namespace}{meant}"
    )


def _deleting(context: ServiceContext, message: str) -> Health:
    blocked = deletion_blocked(context)
    return _health(context, State.DELETING, blocked.headline if blocked else message, [blocked] if blocked else [])


def _health(context: ServiceContext, state: State, message: str, findings: Iterable[Finding] = ()) -> Health:
    findings = list(findings)
    service = context.service
    since = next((one.cause.since for one in findings if one.cause.since is not None), None)
    if since is None and service is not None:
        since = fields.when(service.ready, "lastTransitionTime") or service.created
    running, wanted, most = replica_counts(context)
    return Health(
        state=state,
        message=message,
        causes=tuple(one.cause for one in findings),
        parts=parts(context),
        replicas_running=running,
        replicas_wanted=wanted,
        replicas_max=most,
        endpoints=context.endpoints,
        since=since,
        observed_at=context.now,
    )


def _serving(context: ServiceContext) -> bool:
    """Whether requests are answered now: the service has addresses, and an application of the active cluster runs."""
    active = context.active
    if active is None or context.endpoints == 0 or context.service is None:
        return False
    if active.serve.error and context.service.upgrading:
        # The operator blanks its copy during an upgrade; then Ready and a head that is well have to do.
        return context.service.ready.get("status") == "True" and active.head is not None and active.head.ready
    if active.serve.from_status and (active.head is None or not active.head.ready):
        return False
    return active.serving


def _is_suspended(context: ServiceContext) -> bool:
    if context.service is not None and context.service.suspended:
        return True
    items = [cluster.item for cluster in context.clusters if cluster.item is not None]
    return bool(items) and all(suspended(item) for item in items)


def _first(results: Iterable[Finding | None]) -> Finding | None:
    return next((one for one in results if one is not None), None)
