"""A service that has served and now lacks every replica of a deployment: why, since when, and what is being done.

Kubernetes, KubeRay and Serve replace what is lost by themselves, so nothing else need be wrong. Serve's status alone
does not tell: of a deleted worker it goes on saying HEALTHY, and KubeRay's Ready stays True while the head's proxy is
up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from rayllm_ctl.health import fields
from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.progress import step
from rayllm_ctl.health.raycluster import RUNNING, RayCluster
from rayllm_ctl.health.rules.head import REPLACED
from rayllm_ctl.health.serve import Application, Deployment
from rayllm_ctl.health.serving import has_served
from rayllm_ctl.model import kuberay
from rayllm_ctl.model.health import format_count

_WAVE = timedelta(seconds=120)
"""Losses that follow one another within this time are one outage: workers end a while after their head."""

_RESUBMITTED = timedelta(seconds=120)
"""Time for KubeRay to give a new head its Serve configuration: it takes some seconds once the dashboard answers."""

_ENDS = {"Killing": "deleted", "Evicted": "evicted", "Preempted": "preempted", "TaintManagerEviction": "evicted"}
"""Reasons of events about a pod that ends, and what became of it."""

_POD_NAME = re.compile(r"[Pp]od (?:[^/\s]+/)?(?P<name>[^;\s]+)")
_FINISHED = re.compile(r"FinishedAt:(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \+0000")


@dataclass(frozen=True)
class _Loss:
    """A pod, or its Ray container, that went away."""

    moment: datetime
    what: str
    head: bool
    evidence: str


def outage(context: ServiceContext, cluster: RayCluster) -> Finding | None:
    """What the active cluster lost, if a deployment that had replicas has none, or nothing answers.

    None during a first start, during a rollout or a wake-up, which are meant to be so, and while no operator is there
    to mend it.
    """
    service = context.service
    if service is None or cluster.role != "active" or not has_served(context) or context.operator.running is False:
        return None
    gone = lost_deployments(cluster)
    losses = _losses(context, cluster, gone)
    headless = bool(losses) and losses[0].head and not cluster.serve.deployments
    unreachable = context.endpoints == 0 and service.ready.get("status") == "False"
    if not (gone or headless or unreachable):
        return None
    if not losses and any(one.status == "UNHEALTHY" for one in gone):
        return None
    first = losses[0] if losses else None
    since = outage_since(context)
    names = ", ".join(f"{one.app}/{one.name}" for one in gone)
    what = f"no replica of {names} is running" if gone else "no application is running"
    now = step(context, cluster)
    head = first is not None and first.head
    return finding(
        "HeadDown" if head else "ReplicaUnhealthy",
        f"application/{gone[0].app}" if gone and not head else cluster.subject,
        what + (f": {first.what}" if first else "") + f"; now: {now}",
        headline=f"not serving: {now}",
        evidence=(
            f"not serving since {since:%H:%M:%S} ({context.age(since):.0f} s)" if since else "",
            *(f"{one.app}/{one.name}: {one.status}, {format_count(0, one.target)} replicas running" for one in gone),
            f"service/{kuberay.serve_service(context.name)}: no ready address" if unreachable else "",
            first.evidence if first else "",
        ),
        hint=(
            f"rayllm-ctl watch {context.name} -n {context.namespace}",
            f"kubectl get pods -n {context.namespace} -l {kuberay.CLUSTER}={cluster.name}",
        ),
        since=since,
        recovers=True,
    )


def outage_since(context: ServiceContext) -> datetime | None:
    """When a service that has served stopped to: the first of the latest losses, as far as objects and events tell."""
    cluster, service = context.active, context.service
    if cluster is None or service is None or not has_served(context):
        return None
    gone = lost_deployments(cluster)
    moments = [loss.moment for loss in _losses(context, cluster, gone)[:1]]
    if service.ready.get("status") == "False":
        moments += _known(fields.when(service.ready, "lastTransitionTime"))
    if not moments:
        moments = [moment for one in gone for replica in one.replicas for moment in _known(replica.started)]
    return min(moments, default=None)


def lost_deployments(cluster: RayCluster) -> list[Deployment]:
    """Deployments that should have a replica and have none, and neither a rollout nor a wake-up is the reason."""
    return [
        one
        for app in cluster.serve.applications
        for one in app.deployments
        if not cluster.running(one)
        and (one.target or one.low or cluster.serve.from_status)
        and not is_waking(one)
        and not is_rolling_out(cluster, app, one)
    ]


def is_waking(deployment: Deployment) -> bool:
    """Whether the first replica of a deployment that was scaled to zero is on its way."""
    return deployment.autoscaled and deployment.low == 0 and deployment.trigger == "AUTOSCALING"


def is_rolling_out(cluster: RayCluster, app: Application, deployment: Deployment) -> bool:
    """Whether a changed configuration replaces the deployment's replicas. A new head gets the old one again, soon."""
    if deployment.trigger != "CONFIG_UPDATE_STARTED" or app.deployed is None:
        return False
    main = cluster.head.main if cluster.head else None
    return main is not None and main.started is not None and app.deployed > main.started + _RESUBMITTED


def _losses(context: ServiceContext, cluster: RayCluster, gone: list[Deployment]) -> list[_Loss]:
    """What was lost last, oldest first. What was lost before a lost replica was even started is none of it."""
    found = [*_ended_pods(context, cluster), *_ended_containers(cluster)] or _replaced_pods(context, cluster)
    lost = [replica for one in gone for replica in (*one.dead, *(now for now in one.replicas if now.state in RUNNING))]
    floor = max((replica.started for replica in lost if replica.started is not None), default=None)
    recent = sorted(
        (loss for loss in found if floor is None or loss.moment >= floor), key=lambda loss: loss.moment, reverse=True
    )
    wave: list[_Loss] = []
    for loss in recent:
        if wave and wave[-1].moment - loss.moment > _WAVE:
            break
        wave.append(loss)
    return wave[::-1]


def _ended_pods(context: ServiceContext, cluster: RayCluster) -> list[_Loss]:
    """Pods that are gone, of which events are left. A pod answers until its container ends, 30 s after its deletion."""
    present = {pod.name for pod in cluster.pods if pod.running}
    ends = dict(_container_ends(context, cluster))
    return [
        _Loss(
            ends.get(event.name, event.first),
            f"pod/{event.name} was {_ENDS[event.reason]}",
            _is_head(cluster, event.name),
            event.quoted(),
        )
        for event in context.events
        if event.kind == "Pod" and event.name.startswith(f"{cluster.name}-") and event.name not in present
        and event.reason in _ENDS and event.first is not None
    ]  # fmt: skip


def _container_ends(context: ServiceContext, cluster: RayCluster) -> Iterator[tuple[str, datetime]]:
    """Pod and the time its Ray container ended, by KubeRay's events of the pods that it removed."""
    for event in context.events.of("RayCluster", cluster.name, "DeletedWorkerPod", "DeletedHeadPod"):
        pod, finished = _POD_NAME.search(event.message), _FINISHED.search(event.message)
        if pod and finished:
            yield pod["name"], datetime.fromisoformat(f"{finished['time']}+00:00")


def _ended_containers(cluster: RayCluster) -> list[_Loss]:
    """Pods in which Ray was started again."""
    found = []
    for pod in cluster.live_pods:
        ended = pod.main.last_ended if pod.main else None
        if pod.main is not None and ended is not None and ended.finished is not None:
            line = f"{pod.subject}: {pod.main.name} ended with exit code {ended.code} ({ended.reason or 'no reason'})"
            what = f"container {pod.main.name} of {pod.subject} was restarted"
            found.append(_Loss(ended.finished, what, pod.head, line))
    return found


def _replaced_pods(context: ServiceContext, cluster: RayCluster) -> list[_Loss]:
    """Pods younger than what they belong to, where no event tells what was there before."""
    made = fields.created(cluster.item or {})
    ready = fields.when(context.service.ready, "lastTransitionTime") if context.service else None
    found = []
    for pod in cluster.live_pods:
        before = made + timedelta(seconds=REPLACED) if pod.head and made else None if pod.head else ready
        if pod.created is not None and before is not None and pod.created > before:
            line = f"{pod.subject}: created {pod.created:%H:%M:%S}"
            found.append(_Loss(pod.created, f"the {pod.role} pod was replaced by {pod.subject}", pod.head, line))
    return found


def _is_head(cluster: RayCluster, pod: str) -> bool:
    return re.fullmatch(rf"{re.escape(cluster.name)}-head-[a-z0-9]{{5}}", pod) is not None


def _known(moment: datetime | None) -> list[datetime]:
    return [] if moment is None else [moment]
