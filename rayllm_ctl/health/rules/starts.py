"""Pods that a node does not start: the kubelet rejects them, cannot create their sandbox, or they wait for the head."""

from __future__ import annotations

import re
from datetime import datetime

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.events import ONGOING, ObjectEvent
from rayllm_ctl.health.objects.pod import Container, Pod, is_accelerator
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.sentences.exceptions import last_line, one_line
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint

_REJECTED = frozenset(
    {
        "UnexpectedAdmissionError", "NodeAffinity", "NodeName", "NodePorts", "TaintToleration", "MatchNodeSelector",
        "PodFitsHostPorts", "TopologyAffinityError", "SMTAlignmentError", "VolumeAttachmentLimitExceeded",
        "PodOSSelectorNodeLabelDoesNotMatch", "PodOSNotSupported", "InvalidNodeInfo", "UnknownReason",
        "UnexpectedPredicateFailureType", "InitContainerRestartPolicyForbidden",
        "SupplementalGroupsPolicyNotSupported", "AppArmor", "SysctlForbidden", "NodeShutdown",
    }
)  # fmt: skip
"""Reasons of a pod that the kubelet does not admit, and of its event (kubernetes/kubernetes, pkg/kubelet: lifecycle,
cm, nodeshutdown, sysctl). With OutOfcpu, OutOfnvidia.com/gpu and the like."""

_LACKING = "OutOf"
_SAID = "Pod was rejected"
"""How the message of such a pod begins (kubelet.go, rejectPod)."""

_SANDBOX = ("FailedCreatePodSandBox", "FailedCreatePodSandbox", "FailedPodSandBoxStatus", "NetworkNotReady")
_TRIES = 3
_TRANSIENT = 60.0
"""Seconds, or tries, that a sandbox may fail at first: the network plugin of a new node starts beside the pod."""

WAIT_FOR_HEAD = "wait-gcs-ready"
"""The init container in which KubeRay lets a worker wait for Ray on the head."""

UNREACHED = 180.0
"""Seconds for a worker to find a head that is Ready: the check takes a new process every few seconds."""

_ADDRESS = re.compile(r"--address[= ]\"?([\w.$\{\}-]+:\d+)")


@dataclass(frozen=True)
class _Sandbox:
    """What a message of the container runtime means, and what to look at."""

    pattern: re.Pattern[str]
    what: str
    hint: Hint


def _sandbox(pattern: str, what: str, hint: Hint) -> _Sandbox:
    return _Sandbox(re.compile(pattern, re.I), what, hint)


# First match wins. {node} and {ns} stand for the pod's.
_SANDBOXES = (
    _sandbox(
        r"assign an IP|no (?:available )?IP|IP addresses? available|no free (?:ip|address)|address(?:es)? exhausted|"
        r"InsufficientFreeAddresses|ipam|allocate (?:an? )?(?:ip|address)|IPs? (?:are )?(?:exhausted|in use)|range set",
        "has no free IP address",
        Hint("kubectl get pods -A -o wide --field-selector spec.nodeName={node}", "pods that hold its addresses"),
    ),
    _sandbox(
        r"no runtime for|RuntimeHandler|runtime handler|runtimeclass|OCI runtime .*not found",
        "has no such container runtime",
        Hint("kubectl get runtimeclass", "its handler has to be in the node's containerd configuration"),
    ),
    _sandbox(
        r"OOM-killed|memory limit too low",
        "cannot start it within its memory limit",
        Hint("kubectl get pod {pod} -n {ns} -o jsonpath='{{.spec.containers[*].resources}}'"),
    ),
    _sandbox(
        r"sandbox image|pause",
        "cannot pull the image of the sandbox",
        Hint("kubectl describe node {node}", "its container runtime pulls the pause image"),
    ),
    _sandbox(
        r"network|cni|plugin type",
        "has a network plugin that fails",
        Hint("kubectl get pods -A -o wide --field-selector spec.nodeName={node}", "the pod of the network plugin"),
    ),
    _sandbox(r"", "cannot create it", Hint("kubectl describe node {node}")),
)


def rejected(context: ServiceContext, pod: Pod) -> Finding | None:
    """A pod that its node's kubelet did not admit, and that nobody has removed yet."""
    reason, message = fields.text(pod.item, "status", "reason"), fields.text(pod.item, "status", "message")
    if pod.phase != "Failed" or not (_is_rejection(reason) or message.startswith(_SAID)):
        return None
    events = [one for one in context.events.of("Pod", pod.name) if one.reason == reason]
    quoted = events[-1].quoted() if events else ""
    evidence = (f"{pod.subject}: phase Failed, reason {reason}: {one_line(message, 400)}", quoted)
    said = message.partition(": ")[2] if message.startswith(_SAID) else message
    since = events[0].first if events else pod.created
    return _rejection(pod.name, pod.node, reason, said or reason, evidence, since)


def rejected_before(context: ServiceContext, cluster: RayCluster, remembered: float) -> Finding | None:
    """Pods that a kubelet rejected and KubeRay has deleted, while none that replaces them runs."""
    live = {pod.name for pod in cluster.live_pods}
    found = [
        event
        for event in context.events
        if event.kind == "Pod" and event.name.startswith(f"{cluster.name}-") and event.name not in live
        and _is_rejection(event.reason) and context.age(event.last) <= remembered
    ]  # fmt: skip
    if not found:
        return None
    last = found[-1]
    group = last.name.rpartition("-")[0]
    others = [pod for pod in cluster.live_pods if pod.name.rpartition("-")[0] == group]
    again = len({event.name for event in found if event.name.rpartition("-")[0] == group}) > 1
    if any(pod.up for pod in others) or (others and not again):
        return None
    evidence = tuple(event.quoted() for event in found[-2:])
    return _rejection(last.name, _node_of(context, last), last.reason, last.message, evidence, found[0].first)


def no_sandbox(context: ServiceContext, pod: Pod) -> Finding | None:
    """A pod whose sandbox the node cannot create: no network, no address, no such runtime."""
    if not pod.node or not pod.alive or _has_started(pod):
        return None
    failed = [one for one in context.events.of("Pod", pod.name, *_SANDBOX) if context.age(one.last) <= ONGOING]
    if not failed or _went_on(context, pod, failed[-1]):
        return None
    if sum(one.count for one in failed) < _TRIES and context.age(failed[0].first) < _TRANSIENT:
        return None
    event = failed[-1]
    kind = next(one for one in _SANDBOXES if one.pattern.search(event.message))
    return finding(
        "PodSandboxFailed",
        pod.subject,
        f"node {pod.node} {kind.what} for {pod.subject}: {one_line(event.message, 400)}",
        headline=f"node {pod.node} {kind.what}",
        evidence=(event.quoted()[:600], f"{pod.subject}: no container has started"),
        hint=(
            kind.hint.format(node=pod.node, ns=context.namespace, pod=pod.name),
            Hint(f"kubectl cordon {pod.node}", "so that the next pod starts on another node"),
        ),
        since=failed[0].first,
        key=(pod.cluster, kind.what),
    )


def head_unreachable(context: ServiceContext, pod: Pod) -> Finding | None:
    """A worker that waits for Ray on a head that has been Ready for minutes: DNS, or a network policy."""
    cluster = context.cluster_of(pod)
    head = cluster.head if cluster is not None else None
    if pod.head or head is None or not head.ready:
        return None
    waits = next((one for one in pod.containers if one.init and one.name == WAIT_FOR_HEAD), None)
    if waits is None or waits.state != "running" or waits.started is None:
        return None
    ready = fields.when(head.condition("Ready"), "lastTransitionTime")
    since = max((moment for moment in (ready, waits.started) if moment is not None), default=None)
    if context.age(since) < UNREACHED:
        return None
    address = _address(context, pod, waits)
    said = last_line(context.container_log(pod.name, waits.name, current=True))
    host = address.rpartition(":")[0]
    waited = format_duration(context.age(since))
    return finding(
        "HeadUnreachable",
        pod.subject,
        f"{pod.subject} has waited {waited} for Ray at {address}, though {head.subject} is "
        "Ready: the name does not resolve there, or the connection is blocked",
        headline="workers do not reach the head",
        evidence=(
            f"{pod.subject}: init container {waits.name} running since {waits.started:%H:%M:%S}",
            f"{head.subject}: Ready" + (f" since {ready:%H:%M:%S}" if ready else ""),
            f"log of {waits.name}: {said}" if said else "",
        ),
        hint=(
            Hint(
                f"kubectl exec -n {context.namespace} {pod.name} -c {waits.name} -- getent hosts {host}",
                "the cluster domain: the operator's variable CLUSTER_DOMAIN",
            ),
            Hint(
                f"kubectl get networkpolicy -n {context.namespace}",
                f"one that keeps workers from port {address.rpartition(':')[2]} of the head",
            ),
        ),
        since=since,
        key=(pod.cluster, "head"),
    )


def _is_rejection(reason: str) -> bool:
    return reason in _REJECTED or reason.startswith(_LACKING)


def _rejection(
    pod: str,
    node: str,
    reason: str,
    said: str,
    evidence: tuple[str, ...],
    since: datetime | None,
) -> Finding:
    where = f"node {node}" if node else "its node"
    look = node or "NODE"
    devices = "device" in said.lower() or is_accelerator(reason.removeprefix(_LACKING))
    plugin = "the pod of the device plugin" if devices else "the pods on it"
    return finding(
        "NodeRejectedPod",
        f"pod/{pod}",
        f"{where} rejected pod/{pod} ({reason}): {one_line(said, 400)}",
        headline=f"{where} rejects pods: {reason}",
        evidence=evidence,
        hint=(
            Hint(f"kubectl describe node {look}", "Allocatable, Conditions, Allocated resources"),
            Hint(f"kubectl get pods -A -o wide --field-selector spec.nodeName={look}", plugin),
        ),
        since=since,
        key=("rejected", node, reason),
    )


def _went_on(context: ServiceContext, pod: Pod, failed: ObjectEvent) -> bool:
    """Whether the kubelet has come to the pod's images since: Kubernetes before 1.29 has no condition for it."""
    later = context.events.last("Pod", pod.name, "Pulling", "Pulled", "Created", "Started")
    return later is not None and later.last is not None and failed.last is not None and later.last > failed.last


def _has_started(pod: Pod) -> bool:
    """Whether a container of the pod runs or has run: then there is a sandbox."""
    if pod.condition("PodReadyToStartContainers").get("status") == "True":
        return True
    return any(one.state in ("running", "terminated") or one.restarts or one.last_ended for one in pod.containers)


def _node_of(context: ServiceContext, event: ObjectEvent) -> str:
    """The node that a pod of which only events are left was bound to."""
    bound = context.events.last("Pod", event.name, "Scheduled")
    found = re.search(r" to (\S+)$", bound.message) if bound else None
    return found[1] if found else ""


def _address(context: ServiceContext, pod: Pod, container: Container) -> str:
    """Where the worker looks for Ray."""
    for argument in (*fields.words(container.spec, "args"), *fields.words(container.spec, "command")):
        found = _ADDRESS.search(argument)
        if found and "$" not in found[1]:
            return found[1]
    named = {fields.text(one, "name"): fields.text(one, "value") for one in fields.items(container.spec, "env")}
    return f"{named.get('FQ_RAY_IP') or f'{pod.cluster}-head-svc.{context.namespace}.svc'}:6379"
