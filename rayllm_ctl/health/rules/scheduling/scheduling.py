"""Pods that no node takes.

The scheduler's sentence names no taints and no figures, so the reason is worked out from the nodes, and read from the
sentence only where nodes cannot be read.
"""

from __future__ import annotations

import re

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.objects.quantity import show
from rayllm_ctl.health.rules.scheduling.node_scaling import growing, with_answer
from rayllm_ctl.health.rules.scheduling.placement import by_nodes, scheduling_event, unscheduled_since
from rayllm_ctl.health.rules.storage import unbound
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint

SETTLE = 5.0
"""Seconds that a gate or a scheduler may take without anything being wrong: Kueue admits within one or two."""

UNSEEN = 60.0
"""Seconds after which a pod that no scheduler has looked at counts as overlooked."""


def gated(context: ServiceContext, pod: Pod) -> Finding | None:
    """Scheduling gates: Kueue, or whoever put them there, has to take them away."""
    gates = [fields.text(gate, "name") for gate in fields.items(pod.item, "spec", "schedulingGates")]
    scheduled = pod.condition("PodScheduled")
    if pod.node or not (gates or scheduled.get("reason") == "SchedulingGated") or context.age(pod.created) < SETTLE:
        return None
    names = ", ".join(gates) or "unknown"
    kueue = any("kueue" in gate for gate in gates)
    return finding(
        "SchedulingGated",
        pod.subject,
        f"{pod.subject} is held by the scheduling gate {names}; it is not scheduled until the gate is removed",
        headline=f"pods are held by the gate {names}",
        evidence=(f"{pod.subject}: spec.schedulingGates: {names}", _condition(pod)),
        hint=(Hint(f"kubectl get workloads.kueue.x-k8s.io -n {context.namespace}"),) if kueue
        else (Hint(f"kubectl get pod {pod.name} -n {context.namespace} -o jsonpath='{{.spec.schedulingGates}}'"),),
        since=pod.created,
        key=gates,
    )  # fmt: skip


def overlooked(context: ServiceContext, pod: Pod) -> Finding | None:
    """No scheduler has looked at the pod: the one it names does not run."""
    if pod.node or pod.condition("PodScheduled") or context.age(pod.created) < UNSEEN:
        return None
    if context.events.of("Pod", pod.name):
        return None
    scheduler = fields.text(pod.item, "spec", "schedulerName") or "default-scheduler"
    return finding(
        "SchedulingGated",
        pod.subject,
        f"no scheduler has processed {pod.subject}; its scheduler {scheduler} does not appear to be running",
        headline=f"the scheduler {scheduler} does not answer",
        evidence=(f"{pod.subject}: spec.schedulerName {scheduler}, no condition PodScheduled, no event",),
        hint=(Hint(f"kubectl get pods -A | grep {scheduler}"),),
        since=pod.created,
        key=(scheduler,),
    )


def unschedulable(context: ServiceContext, pod: Pod) -> Finding | None:
    """The scheduler finds no node: why, by the nodes as they are."""
    scheduled = pod.condition("PodScheduled")
    if pod.node or scheduled.get("status") != "False" or scheduled.get("reason") == "SchedulingGated":
        return None
    sentence = fields.text(scheduled, "message")
    if growing(context, pod):
        return None
    bound = unbound(context, pod, sentence)
    if bound is not None:
        return bound
    found = by_nodes(context, pod, sentence) if context.nodes else None
    return with_answer(context, pod, found or _by_sentence(context, pod, sentence))


_SENTENCES: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("InsufficientGPU", re.compile(r"Insufficient (\S*(?:gpu|mig-|tpu|gaudi|neuron)[^,. ]*)"),
     "no node has the GPUs free"),
    ("InsufficientResources", re.compile(r"Insufficient \S+|Too many pods|didn't have free ports"),
     "no node has the resources free"),
    ("NodeSelectorMismatch", re.compile(r"(didn't match Pod's node affinity/selector|didn't match pod [^,.]+)"),
     "no node has the labels asked for"),
    ("UntoleratedTaint", re.compile(r"(had (?:untolerated )?taint[^,.]*|were unschedulable)"),
     "the nodes are tainted or cordoned"),
)  # fmt: skip


def _by_sentence(context: ServiceContext, pod: Pod, sentence: str) -> Finding:
    """What the scheduler wrote, without figures: nodes or other pods cannot be read, or contradict it."""
    head = sentence.split(" preemption:")[0]
    code, headline = next(
        ((code, headline) for code, pattern, headline in _SENTENCES if pattern.search(head)),
        ("InsufficientResources", "no node takes a pod"),
    )
    wanted = ", ".join(f"{name} {show(name, amount)}" for name, amount in sorted(pod.requests.items()))
    return finding(
        code,
        pod.subject,
        f"{pod.subject} ({wanted}) is not scheduled: {head}",
        headline=headline,
        evidence=(scheduling_event(context, pod, sentence),),
        hint=(Hint(f"kubectl describe pod {pod.name} -n {context.namespace}"), Hint("kubectl get nodes")),
        since=unscheduled_since(pod),
        key=(pod.cluster, pod.group, code),
    )


def _condition(pod: Pod) -> str:
    scheduled = pod.condition("PodScheduled")
    return f"{pod.subject}: PodScheduled False, {fields.text(scheduled, 'reason')}: {fields.text(scheduled, 'message')}"
