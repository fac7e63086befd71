"""Probes that fail though they should not.

Most failing probes mean nothing: a start, a busy node, or an idle worker. That one is never Ready by design: its
readiness probe asks for a Serve proxy, and only workers with a replica have one.
"""

from __future__ import annotations

import re
from datetime import datetime

from rayllm_ctl.health.context import NEVER, ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.events import ONGOING, ObjectEvent
from rayllm_ctl.health.objects.pod import Container, Pod
from rayllm_ctl.health.objects.raycluster import RUNNING, RayCluster
from rayllm_ctl.health.sentences.exceptions import one_line
from rayllm_ctl.health.serving import has_served
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.serve_state import Replica
from rayllm_ctl.model.text.hint import Hint

_WRONG = re.compile(
    r"statuscode: 4\d\d|command not found|executable file not found|no such file or directory|not implemented|"
    r"invalid header|malformed HTTP|server gave HTTP response to HTTPS|unsupported protocol|strconv|permission denied",
    re.I,
)
"""Answers that no waiting changes: the probe itself does not match the server."""

_TWICE = 2
_START_WITH_RAY_UP = 90.0
"""Seconds after which a head whose dashboard answers should have passed its probe."""

_READY_WITH_REPLICA = 60.0
"""Seconds after the service was ready, the container was started and a replica ran in it, in which a worker should have
passed its probe: Serve starts a proxy where a replica runs, and the probe asks that proxy."""

_AGENT_PORT = 52365
"""Port of Ray's dashboard agent, which KubeRay's own probes ask."""

START = 240.0
"""Seconds that Ray may take to start on a busy node before its failing probes count (recorded: up to 70 s)."""


def probe(context: ServiceContext, pod: Pod) -> Finding | None:
    """A container that runs and is not ready because its probe cannot pass, or has not passed for too long."""
    cluster = context.cluster_of(pod)
    if not pod.up or cluster is None:
        return None
    unhealthy = [
        event for event in context.events.of("Pod", pod.name, "Unhealthy") if context.age(event.last) <= ONGOING
    ]
    for container in pod.containers:
        if container.init or container.state != "running":
            continue
        mine = [event for event in unhealthy if _since_start(event, container) and not _by_design(event, pod, cluster)]
        wrong = [event for event in mine if _is_wrong(event, pod, container, cluster) and event.count >= _TWICE]
        # A container may be ready while its liveness probe, which will kill it, fails.
        telling = [event for event in wrong if not container.ready or event.message.startswith("Liveness")]
        if telling:
            return _failing(context, pod, container, telling[-1], certain=True)
        # A liveness probe that fails kills, which containers.killed_by_probe sees; it keeps no pod from being ready.
        late = [event for event in mine if not event.message.startswith("Liveness")]
        if late and not container.ready and _is_overdue(context, cluster, pod, container):
            return _failing(context, pod, container, late[-1], certain=False)
    return None


def unready_workers(context: ServiceContext, cluster: RayCluster) -> list[Pod]:
    """Workers whose replicas run and whose proxy runs or is about to, but that have never been Ready, if they are all
    that hold replicas: then the head's proxy alone takes requests."""
    holders = [pod for pod in cluster.live_pods if _replicas_of(pod, cluster)]
    never = [pod for pod in holders if not pod.head and _has_proxy(context, cluster, pod) and _never_ready(pod)]
    return never if len(never) == len(holders) else []


def _has_proxy(context: ServiceContext, cluster: RayCluster, pod: Pod) -> bool:
    """Whether the pod has a proxy, or will have one in a moment because its first replica has only just started."""
    if pod.name in cluster.serve.proxies:
        return True
    return bool(cluster.serve.proxies) and context.age(replicas_since(cluster, pod)) <= _READY_WITH_REPLICA


def replicas_since(cluster: RayCluster, pod: Pod) -> datetime | None:
    """When the first of the replicas that run in the pod was started; None if there is none, or it is unknown."""
    return min((one.started for one in _replicas_of(pod, cluster) if one.started is not None), default=None)


def _never_ready(pod: Pod) -> bool:
    """Whether the pod has not been Ready since its container was started; a probe that fails once does not matter."""
    changed = fields.when(pod.condition("Ready"), "lastTransitionTime")
    started = pod.main.started if pod.main else None
    return not pod.ready and (changed is None or started is None or changed <= started)


def _since_start(event: ObjectEvent, container: Container) -> bool:
    return event.last is None or container.started is None or event.last >= container.started


def _by_design(event: ObjectEvent, pod: Pod, cluster: RayCluster) -> bool:
    """Whether a worker's readiness probe fails because Serve has nothing to offer there: no replica, no application; or
    failed before the first replica was there."""
    if not cluster.by_serve or pod.head or not event.message.startswith("Readiness"):
        return False
    if _WRONG.search(event.message):
        return False
    held = replicas_since(cluster, pod)
    return not _replicas_of(pod, cluster) or (held is not None and event.last is not None and event.last < held)


def _is_wrong(event: ObjectEvent, pod: Pod, container: Container, cluster: RayCluster) -> bool:
    """Whether the probe can never pass: by its answer, or because it asks a port where nothing of Ray listens."""
    if _WRONG.search(event.message):
        return True
    if pod.head or "connection refused" not in event.message or pod.name not in cluster.serve.proxies:
        return False
    port = _port(event, container)
    named = {fields.integer(one, "containerPort") for one in fields.items(container.spec, "ports")}
    return port is not None and port not in {cluster.serve.port, _AGENT_PORT, *named}


def _port(event: ObjectEvent, container: Container) -> int | None:
    """The port that the failing probe asks; None if it is written as a name, or the probe runs a command."""
    which = event.message.split(" probe", 1)[0].lower()
    asked = fields.mapping(container.spec, f"{which}Probe")
    found = next((fields.at(asked, how, "port") for how in ("httpGet", "tcpSocket") if how in asked), None)
    return found if isinstance(found, int) else None


def _is_overdue(context: ServiceContext, cluster: RayCluster, pod: Pod, container: Container) -> bool:
    """Whether the container should have been ready by now."""
    served = fields.when(context.service.ready, "lastTransitionTime") if context.service else None
    ages = context.age(served), context.age(container.started), context.age(replicas_since(cluster, pod))
    if min(ages) > _READY_WITH_REPLICA and pod in unready_workers(context, cluster) and has_served(context):
        return True
    # A worker may have been idle for long before its first replica: until then its probe fails by design.
    held = context.age(replicas_since(cluster, pod)) if cluster.by_serve and not pod.head else NEVER
    return min(context.age(container.started), held) > max(_patience(cluster, pod), _start_limit(container))


def _replicas_of(pod: Pod, cluster: RayCluster) -> list[Replica]:
    """The replicas of running applications that run in the pod."""
    return [
        replica
        for app in cluster.serve.applications
        if app.status == "RUNNING"
        for deployment in app.deployments
        for replica in deployment.replicas
        if replica.pod == pod.name and replica.state in RUNNING
    ]


def _patience(cluster: RayCluster, pod: Pod) -> float:
    return _START_WITH_RAY_UP if pod.head and not cluster.serve.error and not cluster.serve.from_status else START


def _start_limit(container: Container) -> float:
    """Seconds that the container's own startup probe gives it; 0 where it has none."""
    probe = fields.mapping(container.spec, "startupProbe")
    period, failures = fields.integer(probe, "periodSeconds", default=10), fields.integer(probe, "failureThreshold")
    return float(fields.integer(probe, "initialDelaySeconds") + period * failures)


def _failing(context: ServiceContext, pod: Pod, container: Container, event: ObjectEvent, certain: bool) -> Finding:
    which = event.message.split(" probe", 1)[0].lower()
    asked = fields.mapping(container.spec, f"{which}Probe", "httpGet")
    target = f" (GET {asked.get('path', '/')} on port {asked.get('port', '')})" if asked else ""
    said = one_line(event.message.partition(":")[2] or event.message, 300)
    return finding(
        "ProbeFailing",
        pod.subject,
        f"container {container.name} of {pod.subject} runs, but its {which} probe{target} fails: {said}",
        headline=f"the {which} probe of the {pod.role} fails",
        evidence=(event.quoted(), f"{pod.subject}: {container.name} running, not ready"),
        hint=(Hint(f"kubectl get pod {pod.name} -n {context.namespace} "
                   f"-o jsonpath='{{.spec.containers[0].{which}Probe}}'"),
              Hint(f"kubectl describe pod {pod.name} -n {context.namespace}")),
        terminal=certain and event.count > _TWICE,
        since=event.first,
        key=(pod.cluster, pod.group, container.name, which),
    )  # fmt: skip
