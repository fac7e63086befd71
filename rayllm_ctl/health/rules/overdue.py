"""Starts that take far longer than usual, though no rule knows why: no state lasts without a limit in time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects import rayjob
from rayllm_ctl.health.objects.events import ONGOING, ObjectEvent
from rayllm_ctl.health.objects.image_pulls import pulling
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.progress import step
from rayllm_ctl.health.rules.probes import replicas_since, unready_workers
from rayllm_ctl.health.rules.starts import WAIT_FOR_HEAD
from rayllm_ctl.health.statustree import stage_since
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.model_downloads import COPY_CONTAINER, WAIT_CONTAINER
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint

LIMIT = 3600.0
"""Seconds for one step of a start where the plan gives it no more: what Ray gives an engine to start."""

_START_LIMIT = "RAYLLM_ENGINE_START_TIMEOUT_S"
"""Environment variable of pods whose plan gives the engine more."""

WARNED = 600.0
"""The same for repeated warnings that no rule knows."""

_ON_THEIR_WAY = ("NOT_STARTED", "DEPLOYING")
_AGAIN = 3
_SPREAD = 300.0
"""Warnings repeat if there are three, over five minutes."""

_USUAL = frozenset({"Unhealthy", "FailedScheduling", "BackOff", "FailedToUpdateServeApplications"})
"""Reasons of warnings that rules of their own judge, or that a start has by design."""


@dataclass(frozen=True)
class _Step:
    """The step that does not proceed: what it is about, by which cause it is called, and since when.

    `what`: the step in words, where `progress.step` does not say it.
    """

    code: str
    subject: str
    began: datetime | None
    pod: Pod | None = None
    what: str = ""


def overdue(context: ServiceContext, *, seen: bool = True) -> Finding | None:
    """The step of the newest cluster's start that has gone on for too long.

    seen: False where too little can be read, so that only warnings tell that it does not proceed.
    """
    cluster = context.clusters[-1] if context.clusters else None
    if cluster is None:
        return None
    now = _unseen_change(context) or (_settling(context, cluster) if cluster.complete else _step(context, cluster))
    if now is None or now.began is None:
        return None
    waited, limit = context.age(now.began), start_limit(cluster)
    warnings = _repeated(context, _events(context, cluster, now), now.began)
    if not (waited >= limit and seen) and not (warnings and waited >= WARNED):
        return None
    what = now.what or step(context, cluster)
    events = [one.quoted()[:500] for one in warnings[-3:]]
    why = f": {warnings[-1].reason}: {' '.join(warnings[-1].message.split())[:300]}" if warnings else ""
    look = (
        Hint(f"kubectl describe pod {now.pod.name} -n {context.namespace}")
        if now.pod is not None
        else Hint(f"kubectl get events -n {context.namespace} --sort-by=.lastTimestamp")
    )
    return finding(
        now.code,
        now.subject,
        f"{what}, for {format_duration(waited)}: a step of a start takes {format_duration(limit)} at most{why}"
        if waited >= limit
        else f"{what}, for {format_duration(waited)}, with warnings that come again{why}",
        headline=f"no progress for {format_duration(waited)}: {what}",
        evidence=(*events, f"{now.subject}: since {now.began:%Y-%m-%d %H:%M:%S}"),
        hint=(look, *_logs(context)),
        since=now.began,
        waits=True,
    )


def _logs(context: ServiceContext) -> tuple[Hint, ...]:
    if context.kind == rayjob.KIND:
        return (Hint(f"rayllm-ctl batch logs {context.name} -n {context.namespace}"),)
    return (
        Hint(f"rayllm-ctl logs {context.name} -n {context.namespace}"),
        Hint(f"rayllm-ctl events {context.name} -n {context.namespace}"),
    )


def repeated_warnings(context: ServiceContext, pods: Iterable[Pod]) -> list[ObjectEvent]:
    """Repeated warnings about pods that no rule judges: oldest first."""
    return [event for pod in pods for event in _repeated(context, context.events.of("Pod", pod.name), pod.created)]


def _events(context: ServiceContext, cluster: RayCluster, now: _Step) -> list[ObjectEvent]:
    """The events about what the step is about: a pod, or else the RayCluster and the service."""
    if now.pod is not None:
        return context.events.of("Pod", now.pod.name)
    return [*context.events.of(context.kind, context.name), *context.events.of(kuberay.RAY_CLUSTER, cluster.name)]


def _repeated(context: ServiceContext, events: Iterable[ObjectEvent], since: datetime | None) -> list[ObjectEvent]:
    about = [
        one
        for one in events
        if one.warning and one.reason not in _USUAL and (since is None or one.last is None or one.last >= since)
    ]
    by_reason: dict[str, list[ObjectEvent]] = {}
    for event in about:
        by_reason.setdefault(event.reason, []).append(event)
    return [event for events in by_reason.values() if _repeats(context, events) for event in events]


def _repeats(context: ServiceContext, events: list[ObjectEvent]) -> bool:
    first = min((one.first for one in events if one.first is not None), default=None)
    last = max((one.last for one in events if one.last is not None), default=None)
    if first is None or last is None or context.age(last) > ONGOING:
        return False
    return sum(one.count for one in events) >= _AGAIN and (last - first).total_seconds() >= _SPREAD


def _unseen_change(context: ServiceContext) -> _Step | None:
    """A change that the operator has not looked at, where the object says when it was made."""
    service = context.service
    if service is None or not service.observed or not context.changed:
        return None
    changes = [
        moment
        for entry in fields.items(service.item, "metadata", "managedFields")
        if entry.get("subresource") != "status" and (moment := fields.when(entry, "time")) is not None
    ]
    made = max(changes, default=None)
    return _Step("OperatorNotReconciling", service.subject, made, what="a change is waiting for the KubeRay operator")


def _settling(context: ServiceContext, cluster: RayCluster) -> _Step | None:
    """What is still to come where all applications run, or all servers: addresses, and workers that take requests."""
    service = context.service
    running = [
        replica.started for one in cluster.serve.deployments for replica in one.replicas if replica.started is not None
    ]
    if service is not None and not context.endpoints:
        what = f"running; waiting for an address of service/{context.serve_service}"
        return _Step("OperatorNotReconciling", service.subject, max(running, default=None), what=what)
    unready = unready_workers(context, cluster)
    if not unready:
        return None
    what = f"serving through the head only; not ready yet: {unready[0].subject}"
    return _Step("ProbeFailing", unready[0].subject, replicas_since(cluster, unready[0]), unready[0], what)


def _step(context: ServiceContext, cluster: RayCluster) -> _Step | None:
    """The first part of the start that is not through, as `progress.step` goes through them."""
    made = fields.created(cluster.item or {})
    head = cluster.head
    if head is None:
        return _Step("OperatorNotReconciling", cluster.subject, made)
    if not head.ready:
        return _of_pod(context, head)
    waiting = next((pod for pod in cluster.workers if not pod.up), None)
    if waiting is not None:
        return _of_pod(context, waiting)
    if len(cluster.workers) < cluster.workers_wanted:
        changed = fields.when(head.condition("Ready"), "lastTransitionTime")
        return _Step("OperatorNotReconciling", cluster.subject, changed or made)
    if not cluster.by_serve:
        slow = next((pod for pod in (*cluster.servers, *cluster.workers) if not pod.ready), None)
        return _Step("ProbeFailing", slow.subject, stage_since(slow), slow) if slow is not None else None
    return _of_serve(cluster, head)


def _of_pod(context: ServiceContext, pod: Pod) -> _Step | None:
    """The step of a pod that does not run, or of a head that is not ready."""
    began = stage_since(pod)
    if not pod.node:
        return _Step("InsufficientResources", pod.subject, began, pod)
    if pod.up:
        return _Step("ProbeFailing", pod.subject, began, pod)
    if pulling(context, pod):
        return _Step("ImagePullFailed", pod.subject, began, pod)
    init = next((one for one in pod.containers if one.init and one.state == "running"), None)
    if init is not None:
        waits = {WAIT_FOR_HEAD: "HeadUnreachable", WAIT_CONTAINER: "DownloadFailed", COPY_CONTAINER: "DownloadStuck"}
        code = waits.get(init.name, "ContainerCrash")
        return _Step(code, pod.subject, init.started or began, pod)
    claims = [one for one in fields.items(pod.item, "spec", "volumes") if "persistentVolumeClaim" in one]
    return _Step("VolumeNotReady" if claims else "PodSandboxFailed", pod.subject, began, pod)


def _of_serve(cluster: RayCluster, head: Pod) -> _Step | None:
    """The step of applications, where all pods are there."""
    ready = fields.when(head.condition("Ready"), "lastTransitionTime")
    if not cluster.serve.applications:
        # Where Serve cannot be asked, the operator's copy of its applications stands in: there is none either.
        return _Step("OperatorNotReconciling", cluster.subject, ready, head)
    if cluster.serve.from_status and cluster.role == "pending":
        # The operator's copy has no replicas: a first start counts from the last pod that came.
        up = [pod.main.started for pod in cluster.pods if pod.main is not None and pod.main.started is not None]
        slow = next((app for app in cluster.serve.applications if app.status in _ON_THEIR_WAY), None)
        began = max((moment for moment in (*up, ready) if moment is not None), default=None)
        return _Step("ApplicationFailed", f"application/{slow.name}", began) if slow is not None else None
    starting = [
        (deployment, replica)
        for deployment in cluster.serve.deployments
        for replica in deployment.replicas
        if replica.state == "STARTING" and replica.started is not None
    ]
    if not starting:
        # Serve builds the application, or installs what it needs, and starts no replica until then.
        slow = next((app for app in cluster.serve.applications if app.status in _ON_THEIR_WAY), None)
        return _Step("ApplicationFailed", f"application/{slow.name}", slow.deployed) if slow is not None else None
    deployment, replica = min(starting, key=lambda one: one[1].started.timestamp() if one[1].started else 0.0)
    subject = f"application/{deployment.app}"
    if not replica.pod:
        return _Step("ReplicaUnschedulable", subject, replica.started)
    pod = next((one for one in cluster.pods if one.name == replica.pod), None)
    return _Step("ApplicationFailed", subject, replica.started, pod)


def start_limit(cluster: RayCluster) -> float:
    """Seconds for a step: what the plan gives the engine, by the pods' environment or the server's startup probe."""
    found = [LIMIT]
    for pod in cluster.pods:
        main = pod.main
        if main is None:
            continue
        for variable in fields.items(main.spec, "env"):
            if variable.get("name") == _START_LIMIT and fields.text(variable, "value").isdigit():
                found.append(float(fields.text(variable, "value")))
        if pod.group == kuberay.SERVERS:
            probe = fields.mapping(main.spec, "startupProbe")
            found.append(float(fields.integer(probe, "periodSeconds") * fields.integer(probe, "failureThreshold")))
    return max(found)
