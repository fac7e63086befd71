"""Nodes that die under pods, and pods evicted by their node."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.losses import deleted_on_purpose
from rayllm_ctl.health.objects.events import ObjectEvent
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.rules.containers import memory_hints
from rayllm_ctl.health.rules.starts import rejected_before
from rayllm_ctl.health.sentences.exceptions import one_line
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint

REMEMBERED = 600.0
"""Seconds within which the loss of a pod still explains why a service is not whole: a model's start takes minutes."""

_ENDED = re.compile(r"ContainerStateTerminated\{ExitCode:(?P<code>\d+),Signal:\d+,Reason:(?P<reason>\w*),")
_STARTED = re.compile(r"StartedAt:(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4})")
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
"""What containerd gives as the start of a container that could not be started."""
_POD_NAME = re.compile(r"(?:worker|head) Pod (?:[^/\s]+/)?(?P<name>[^;\s]+)")


def node_lost(context: ServiceContext, pod: Pod) -> Finding | None:
    """The pod's node is not ready, gone or silent; the pod itself keeps saying Running."""
    if not context.node_down(pod):
        return None
    node = context.nodes.get(pod.node)
    evidence: tuple[str, ...]
    if node is None and (context.nodes or pod.node not in context.silent_nodes):
        state = short = "is gone"
        since, look = pod.created, Hint("kubectl get nodes")
        evidence = (f"node {pod.node}: there is no such Node",)
    elif node is None or node.ready:
        state = short = "does not answer"
        since, look = None, Hint(f"kubectl describe node {pod.node}")
        evidence = (f"node {pod.node}: its kubelet does not answer", f"Serve: {context.silent_nodes[pod.node]}")
    else:
        state, short = f"is NotReady ({node.not_ready_reason or 'no reason given'})", "is down"
        since, look = node.not_ready_since, Hint(f"kubectl describe node {pod.node}")
        evidence = (f"node {pod.node}: not Ready: {node.not_ready_reason}",)
    return finding(
        "NodeLost",
        f"node/{pod.node}",
        f"node {pod.node} {state}; {pod.subject} was on it",
        headline=f"node {pod.node} {short}",
        evidence=(*evidence, f"{pod.subject}: phase {pod.phase}, node {pod.node}"),
        hint=(
            look,
            Hint(f"kubectl delete pod {pod.name} -n {context.namespace} --force --grace-period=0", "if it is lost"),
        ),
        since=since,
        key=(pod.node,),
    )


def evicted(context: ServiceContext, pod: Pod) -> Finding | None:
    """A pod that the kubelet has evicted and nobody has removed yet."""
    if fields.text(pod.item, "status", "reason") != "Evicted":
        return None
    return _evicted(context, pod.name, fields.text(pod.item, "status", "message"), pod.created, "")


def lost_pods(context: ServiceContext, cluster: RayCluster) -> Finding | None:
    """Pods that were lost lately and of which only events are left, while the cluster is not whole again.

    KubeRay deletes an evicted or failed pod at once and makes a new one.
    """
    if cluster.complete:
        return None
    about = [event for event in context.events if event.kind == "Pod" and event.name.startswith(f"{cluster.name}-")]
    thrown = [
        event for event in about if event.reason in ("Evicted", "Preempted") and context.age(event.last) <= REMEMBERED
    ]
    alive = {pod.name for pod in cluster.live_pods}
    thrown = [event for event in thrown if event.name not in alive]
    if thrown:
        event = thrown[-1]
        return _evicted(context, event.name, event.message, event.first, event.quoted())
    return rejected_before(context, cluster, REMEMBERED) or _died(context, cluster)


def _evicted(context: ServiceContext, pod: str, message: str, since: datetime | None, quoted: str) -> Finding:
    told = one_line(message, 300) or "no reason given"
    resource = "ephemeral storage" if "storage" in told else "memory" if "memory" in told else "its place"
    return finding(
        "Evicted",
        f"pod/{pod}",
        f"pod/{pod} was evicted for {resource}: {told}",
        headline=f"a pod was evicted for {resource}",
        evidence=(quoted or f"pod/{pod}: phase Failed, reason Evicted: {told}",),
        hint=(Hint(f"kubectl edit {context.resource} -n {context.namespace}", f"requests and limits of {resource}"),
              Hint(f"kubectl get events -n {context.namespace} --field-selector reason=Evicted")),
        since=since,
        key=("evicted", resource),
    )  # fmt: skip


def _died(context: ServiceContext, cluster: RayCluster) -> Finding | None:
    """Pods that KubeRay deleted because Ray's container in them had ended (with the autoscaler they never restart)."""
    deleted = [
        (event, found)
        for event in context.events.of("RayCluster", cluster.name, "DeletedWorkerPod", "DeletedHeadPod")
        if context.age(event.last) <= REMEMBERED
        and (found := _ENDED.search(event.message)) is not None
        and int(found["code"]) != 0
        and not ((named := _POD_NAME.search(event.message)) and deleted_on_purpose(context, cluster, named["name"]))
    ]
    if not deleted:
        return None
    attempts = _attempts(deleted)
    event, found = deleted[-1]
    named = _POD_NAME.search(event.message)
    pod = named["name"] if named else cluster.name
    if found["reason"] == "OOMKilled":
        sample = next((one for one in cluster.live_pods if one.head == (event.reason == "DeletedHeadPod")), None)
        limit = sample.memory_limit if sample else ""
        return finding(
            "OOMKilled",
            f"pod/{pod}",
            f"pod/{pod} was OOMKilled" + (f": its memory limit is {limit}" if limit else ""),
            headline="a pod was OOMKilled",
            evidence=(event.quoted(),),
            hint=memory_hints(context, sample),
            terminal=len(attempts) > 1,
            since=event.first,
            key=("died", "OOMKilled"),
        )
    if len(attempts) < 2:
        return None
    return finding(
        "ContainerCrash",
        f"pod/{pod}",
        f"pods of {cluster.name} keep terminating with exit code {found['code']}, the last one pod/{pod}",
        headline="pods keep terminating",
        evidence=(attempts[-2][0].quoted(), event.quoted()),
        hint=(Hint(f"kubectl get events -n {context.namespace} --field-selector involvedObject.name={cluster.name}"),),
        terminal=len(attempts) > 2,
        since=attempts[0][0].first,
        key=("died", "crash"),
    )


def _attempts(deleted: list[tuple[ObjectEvent, re.Match[str]]]) -> list[tuple[ObjectEvent, re.Match[str]]]:
    """Those of `deleted` that failed one after another; pods that ran at the same time and ended count as one.

    Workers that start together on a busy node end together where they need longer than the 30 s that Ray gives a node
    to start; KubeRay replaces them.
    """
    attempts: list[tuple[ObjectEvent, re.Match[str]]] = []
    for event, found in deleted:
        ended = attempts[-1][0].last if attempts else None
        started = _started(event.message)
        if ended is None or started is None or not _NEVER < started < ended:
            attempts.append((event, found))
    return attempts


def _started(message: str) -> datetime | None:
    """When the container started that an event of KubeRay's calls terminated."""
    found = _STARTED.search(message)
    try:
        return datetime.strptime(found["time"], "%Y-%m-%d %H:%M:%S %z") if found else None
    except ValueError:
        return None
