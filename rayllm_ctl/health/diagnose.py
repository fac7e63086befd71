"""From a Snapshot to the Health of one service."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from rayllm_ctl.health import fields
from rayllm_ctl.health.clusterspec import suspended
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
from rayllm_ctl.health.scene import Scene
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
    scene = Scene(snapshot, name, namespace)
    if scene.service is None:
        return _absent(scene)
    if scene.service.deleted is not None:
        return _deleting(scene, f"{name} is being deleted")
    found = _findings(scene)
    if not found and not _serving(scene) and not _is_suspended(scene):
        found = [one for one in [halted(scene)] if one is not None]
    if found:
        return _troubled(scene, found)
    if _is_suspended(scene):
        return _health(scene, State.SUSPENDED, "suspended: its pods are gone until it is resumed")
    return _well(scene)


def _findings(scene: Scene) -> list[Finding]:
    service = _first(rule(scene) for rule in SERVICE_RULES)
    if service is not None and service.cause.code in _ALONE:
        return [service]
    if _is_suspended(scene):
        return [service] if service else []
    found = [service] if service else []
    for cluster in scene.clusters:
        mine = _cluster_findings(scene, cluster, explained=service is not None)
        blocked = upgrade_blocked(scene, tuple(mine)) if cluster.role == "pending" else None
        found += [blocked, *mine] if blocked else mine
    last = (rule(scene) for rule in LAST_RULES)
    found = _merged([*found, *(one for one in last if one is not None)])
    return found if service is not None or not scene.changed else [_provisional(one) for one in found]


def _provisional(one: Finding) -> Finding:
    """A cause that a change may be about to mend: what is seen is still what was asked for before it."""
    return dataclasses.replace(one, cause=dataclasses.replace(one.cause, terminal=False))


def _cluster_findings(scene: Scene, cluster: RayCluster, explained: bool) -> list[Finding]:
    """The causes of one cluster. `explained`: the service has said what is wrong, so consequences are not asked."""
    found = [one for one in [_first(rule(scene, cluster) for rule in CLUSTER_RULES)] if one]
    for pod in cluster.pods:
        if pod.deleted is None:
            cause = _first(rule(scene, pod) for rule in POD_RULES)
            found += [cause] if cause else []
    found = found or [one for rule in AFTERMATH_RULES if (one := rule(scene, cluster)) is not None]
    failed = (application_failed(scene, cluster, app) for app in cluster.serve.applications)
    found += [one for one in failed if one is not None]
    if found or explained:
        return found
    consequence = _first(rule(scene, cluster) for rule in CONSEQUENCE_RULES)
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


def _troubled(scene: Scene, findings: list[Finding]) -> Health:
    first = findings[0]
    if _serving(scene) or (first.cause.code == "HeadDown" and scene.endpoints > 0):
        state = State.DEGRADED
    elif first.cause.code in _WAITS_FOR_THE_CLUSTER and not first.cause.terminal:
        state = State.STUCK
    else:
        state = State.FAILED
    return _health(scene, state, first.headline, findings)


def _well(scene: Scene) -> Health:
    """Nothing is wrong: ready, on its way, or not enough is known."""
    service = scene.service
    assert service is not None
    active = scene.active
    if _serving(scene) and active is not None:
        if scene.pending is not None:
            return _progressing(scene, f"serves; an upgrade is on its way: {step(scene, scene.pending)}")
        if scene.changed:
            return _progressing(scene, "serves; a change waits for the KubeRay operator")
        if not active.complete:
            return _progressing(scene, f"serves; {step(scene, active)}")
        if any(not pod.up for pod in active.workers):
            return _progressing(scene, f"serves; more workers are on their way: {step(scene, active)}")
        return _ready(scene, active)
    if not scene.clusters:
        if scene.age(service.created) < _YOUNG:
            return _progressing(scene, "the KubeRay operator has yet to make the Ray cluster")
        return _unknown(scene, "no Ray cluster of the service can be seen")
    newest = scene.clusters[-1]
    if not newest.pods and newest.serve.error and scene.age(service.created) > _YOUNG:
        return _unknown(scene, "neither its pods nor Serve can be seen")
    return _progressing(scene, step(scene, newest))


def _unknown(scene: Scene, message: str) -> Health:
    """Too little is known; what could not be read is the likely reason."""
    return _health(scene, State.UNKNOWN, "; ".join([message, *scene.snapshot.notes[:2]]))


def _ready(scene: Scene, cluster: RayCluster) -> Health:
    asleep = [one for one in cluster.models if one.target == 0 and one.autoscaled]
    if not asleep:
        return _health(scene, State.READY, "serves")
    names = ", ".join(f"{one.app}/{one.name}" for one in asleep)
    note = finding(
        "ScaledToZero",
        f"application/{asleep[0].app}",
        f"{names} has no replica now; the first request starts one",
        headline="serves on demand: scaled to zero",
        evidence=tuple(f"{one.app}/{one.name}: {one.status}, target 0, min_replicas {one.low}" for one in asleep),
        hint=(f"rayllm-ctl chat {scene.name} -n {scene.namespace}   (starts a replica)",
              "rayllm-ctl deploy … --min-replicas 1   (keep one ready)"),
    )  # fmt: skip
    return _health(scene, State.READY, note.headline, [note])


def _progressing(scene: Scene, message: str) -> Health:
    service = scene.service
    since = fields.when(service.ready, "lastTransitionTime") or service.created if service else None
    note = finding(
        "StillStarting",
        f"rayservice/{scene.name}",
        message,
        headline=message,
        evidence=(f"{scene.age(since):.0f} s so far" if since else "",),
        hint=(f"rayllm-ctl watch {scene.name} -n {scene.namespace}",),
        since=since,
    )
    return _health(scene, State.PROGRESSING, message, [note])


def _absent(scene: Scene) -> Health:
    """There is no RayService: its pods may still be on their way out, KubeRay's objects vanish before them."""
    left = [pod for pod in scene.pods if pod.deleted is not None]
    if left or any(fields.deleted(item) is not None for item in scene.ray_clusters):
        return _deleting(scene, f"{scene.name} is deleted; {len(left)} pods are still to end")
    if scene.ray_clusters:
        names = ", ".join(fields.name(item) for item in scene.ray_clusters)
        return _health(
            scene, State.NOT_FOUND, f"there is no RayService {scene.name}, but its RayCluster {names} was left behind"
        )
    if scene.pods:
        return _deleting(scene, f"{scene.name} is deleted; {len(scene.pods)} pods are still to end")
    close = nearest(scene.name, (fields.name(item) for item in scene.of_kind("RayService")))
    meant = f"; did you mean {close}?" if close else ""
    return _health(scene, State.NOT_FOUND, f"there is no RayService {scene.name} in namespace {scene.namespace}{meant}")


def _deleting(scene: Scene, message: str) -> Health:
    blocked = deletion_blocked(scene)
    return _health(scene, State.DELETING, blocked.headline if blocked else message, [blocked] if blocked else [])


def _health(scene: Scene, state: State, message: str, findings: Iterable[Finding] = ()) -> Health:
    findings = list(findings)
    service = scene.service
    since = next((one.cause.since for one in findings if one.cause.since is not None), None)
    if since is None and service is not None:
        since = fields.when(service.ready, "lastTransitionTime") or service.created
    running, wanted, most = replica_counts(scene)
    return Health(
        state=state,
        message=message,
        causes=tuple(one.cause for one in findings),
        parts=parts(scene),
        replicas_running=running,
        replicas_wanted=wanted,
        replicas_max=most,
        endpoints=scene.endpoints,
        since=since,
        observed_at=scene.now,
    )


def _serving(scene: Scene) -> bool:
    """Whether requests are answered now: the service has addresses, and an application of the active cluster runs."""
    active = scene.active
    if active is None or scene.endpoints == 0 or scene.service is None:
        return False
    if active.serve.error and scene.service.upgrading:
        # The operator blanks its copy during an upgrade; then Ready and a head that is well have to do.
        return scene.service.ready.get("status") == "True" and active.head is not None and active.head.ready
    if active.serve.from_status and (active.head is None or not active.head.ready):
        return False
    return active.serving


def _is_suspended(scene: Scene) -> bool:
    if scene.service is not None and scene.service.suspended:
        return True
    items = [cluster.item for cluster in scene.clusters if cluster.item is not None]
    return bool(items) and all(suspended(item) for item in items)


def _first(results: Iterable[Finding | None]) -> Finding | None:
    return next((one for one in results if one is not None), None)
