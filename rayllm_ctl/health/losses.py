"""Pods and containers that a RayCluster lost, and when: by the objects that replaced them, and by events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.model.observed import fields

WAVE = timedelta(seconds=120)
"""Losses that follow one another within this time are one: workers end up to 90 s after their head."""

_REPLACED = timedelta(seconds=20)
"""Time by which a head pod is younger than its cluster if it is not the cluster's first."""

_ENDS = {"Killing": "deleted", "Evicted": "evicted", "Preempted": "preempted", "TaintManagerEviction": "evicted"}
"""Reasons of events about a pod that ends, and its outcome."""

_SCALED_DOWN = re.compile(
    r"Deleted (?:worker )?pod \S+/(?P<pod>\S+?)(?: for group \S+: (?:autoscaler scale-down request|scaling down))?",
    re.IGNORECASE,
)
"""KubeRay's words for a pod that the autoscaler gave up (workersToDelete), or that is one too many. Of one that has
ended it says how: raycluster_controller.go of 1.6.2, reconcilePods and reconcileMultiHostWorkerGroup."""


@dataclass(frozen=True)
class Loss:
    """A pod that went away, or in which Ray was started again. `moment`: of its deletion, or of the end of Ray."""

    moment: datetime
    pod: str
    what: str
    head: bool
    evidence: str


def latest_losses(
    context: ServiceContext,
    cluster: RayCluster,
    floor: datetime | None = None,
    without: frozenset[str] = frozenset(),
) -> list[Loss]:
    """What was lost last, oldest first: losses close to one another, none before `floor`, none of pods in `without`."""
    found = [*_ended_pods(context, cluster), *_ended_containers(cluster)] or list(_replaced_pods(context, cluster))
    wave: list[Loss] = []
    for loss in sorted(found, key=lambda one: one.moment, reverse=True):
        if loss.pod in without:
            continue
        if (floor is not None and loss.moment < floor) or (wave and wave[-1].moment - loss.moment > WAVE):
            break
        wave.append(loss)
        if loss.head:
            break  # Everything ends with the head; what was lost before it is another matter.
    return wave[::-1]


def scaled_down(context: ServiceContext, cluster: RayCluster) -> frozenset[str]:
    """Workers that KubeRay removed because fewer are wanted: nearly always because Ray's autoscaler found them idle."""
    events = context.events.of("RayCluster", cluster.name, "DeletedWorkerPod")
    return frozenset(found["pod"] for event in events if (found := _SCALED_DOWN.fullmatch(event.message)))


def deleted_on_purpose(context: ServiceContext, cluster: RayCluster, pod: str) -> bool:
    """Whether the pod was deleted or evicted, or is a worker that ended because its head had gone away."""
    ends = [loss for loss in _ended_pods(context, cluster) if loss.pod == pod]
    if ends or _is_head(cluster, pod):
        return bool(ends)
    heads = [loss.moment for loss in (*_ended_pods(context, cluster), *_replaced_pods(context, cluster)) if loss.head]
    removed = context.events.of("RayCluster", cluster.name, "DeletedWorkerPod")
    moments = [event.last for event in removed if pod in event.message and event.last is not None]
    return any(head <= moment <= head + WAVE for head in heads for moment in moments)


def _ended_pods(context: ServiceContext, cluster: RayCluster) -> list[Loss]:
    """Pods that are gone, of which events are left, and pods that are on their way out."""
    live = {pod.name for pod in cluster.live_pods}
    found = [
        Loss(
            event.first,
            event.name,
            f"pod/{event.name} was {_ENDS[event.reason]}",
            _is_head(cluster, event.name),
            f"{event.subject}: {event.quoted()}",
        )
        for event in context.events
        if event.kind == "Pod" and event.name.startswith(f"{cluster.name}-") and event.name not in live
        and event.reason in _ENDS and event.first is not None
    ]  # fmt: skip
    known = {loss.pod for loss in found}
    for pod in cluster.pods:
        if pod.deleted is not None and pod.name not in known:
            grace = timedelta(seconds=fields.integer(pod.item, "metadata", "deletionGracePeriodSeconds"))
            line = f"{pod.subject}: metadata.deletionTimestamp {pod.deleted:%H:%M:%S}"
            found.append(Loss(pod.deleted - grace, pod.name, f"{pod.subject} was deleted", pod.head, line))
    return found


def _ended_containers(cluster: RayCluster) -> Iterator[Loss]:
    """Pods in which Ray was started again."""
    for pod in cluster.live_pods:
        ended = pod.main.last_ended if pod.main else None
        if pod.main is not None and ended is not None and ended.finished is not None:
            line = f"{pod.subject}: {pod.main.name} ended with exit code {ended.code} ({ended.reason or 'no reason'})"
            what = f"container {pod.main.name} of {pod.subject} was restarted"
            yield Loss(ended.finished, pod.name, what, pod.head, line)


def _replaced_pods(context: ServiceContext, cluster: RayCluster) -> Iterator[Loss]:
    """Pods younger than what they belong to, where no event says what was there before."""
    made = fields.created(cluster.item or {})
    ready = fields.when(context.service.ready, "lastTransitionTime") if context.service else None
    for pod in cluster.live_pods:
        before = made + _REPLACED if pod.head and made else None if pod.head else ready
        if pod.created is not None and before is not None and pod.created > before:
            line = f"{pod.subject}: created {pod.created:%H:%M:%S}"
            yield Loss(pod.created, pod.name, f"the {pod.role} pod was replaced by {pod.subject}", pod.head, line)


def _is_head(cluster: RayCluster, pod: str) -> bool:
    return re.fullmatch(rf"{re.escape(cluster.name)}-head-[a-z0-9]{{5}}", pod) is not None
