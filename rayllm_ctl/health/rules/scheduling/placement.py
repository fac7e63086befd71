"""Why no node takes a pod, by the nodes as they are: labels first, then free resources, then taints."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from datetime import datetime

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.node import CORDONED, Node, required_terms
from rayllm_ctl.health.objects.pod import Pod, is_accelerator
from rayllm_ctl.health.objects.quantity import show
from rayllm_ctl.model.kube.labels import COMPONENT
from rayllm_ctl.model.kube.model_downloads import DOWNLOAD_COMPONENT
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint

_CERTAIN = 15.0
"""Seconds after which "no node of this cluster can take it" is believed: a cluster autoscaler looks every 10 s."""

_BETWEEN_PODS = re.compile(
    r"didn't (?:match|satisfy) (?:pod|Pod)(?:'s)? (?:anti-affinity|affinity|topology spread)[^,.]*"
)
_ORDER = ("cpu", "memory", "ephemeral-storage", "pods")
_LINES = 6
"""Nodes that are listed one by one."""


def by_nodes(context: ServiceContext, pod: Pod, sentence: str) -> Finding | None:
    """The cause by labels, taints and free resources; None if the figures say that one fits."""
    nodes = sorted(context.nodes.values(), key=lambda node: node.name)
    selected = [node for node in nodes if node.selected_by(pod)]
    if not selected:
        return _mismatch(context, pod, nodes, _requirements(pod), sentence)
    down = [node for node in selected if not node.ready]
    usable = [node for node in selected if node.ready]
    open_ = [node for node in usable if not node.untolerated(pod)]
    if any(node.fits(pod.requests) for node in open_):
        # One fits by the figures: what is left are rules between pods, or figures that are too old.
        found = _BETWEEN_PODS.search(sentence)
        return _mismatch(context, pod, nodes, found[0], sentence) if found else None
    roomy = [node for node in usable if node.fits(pod.requests)]
    if roomy:
        full = [node for node in open_ if node.could_fit(pod.requests)]
        if full and holdings(context, pod.cluster, accelerators(pod), {node.name for node in full}):
            # It may use these nodes, and its own service does: no toleration is missing.
            return _insufficient(context, pod, full, sentence)
        return _tainted(context, pod, roomy, full, sentence)
    lost = [node for node in down if node.fits(pod.requests)]
    if lost:
        return _nodes_down(pod, lost, sentence)
    return _insufficient(context, pod, open_ or usable or selected, sentence)


def accelerators(pod: Pod) -> tuple[str, ...]:
    """The accelerator resources that the pod asks for; what else it asks for where there are none."""
    found = tuple(name for name, amount in pod.requests.items() if is_accelerator(name) and amount > 0)
    return found or tuple(name for name, amount in pod.requests.items() if amount > 0)


def holdings(
    context: ServiceContext, without: str, resources: Sequence[str], nodes: Container[str] | None = None
) -> dict[str, tuple[Pod, ...]]:
    """Pods of the service's other RayClusters that hold `resources`, by RayCluster. nodes: only those on these."""
    found: dict[str, list[Pod]] = {}
    for pod in context.pods:
        holds = (
            pod.node and pod.phase not in ("Failed", "Succeeded") and any(pod.requests.get(one) for one in resources)
        )
        if holds and pod.cluster != without and (nodes is None or pod.node in nodes):
            found.setdefault(pod.cluster, []).append(pod)
    return {name: tuple(pods) for name, pods in sorted(found.items())}


def _insufficient(context: ServiceContext, pod: Pod, nodes: Sequence[Node], sentence: str) -> Finding:
    """No node has enough free. Nodes with the accelerator count first: that a CPU node has no GPU explains nothing."""
    wanted = [name for name in pod.requests if is_accelerator(name) and pod.requests[name] > 0]
    with_it = [node for node in nodes if all(node.allocatable.get(name, 0) > 0 for name in wanted)]
    nodes = with_it or nodes
    fewest = min(len(node.lacks(pod.requests)) for node in nodes)
    lacking = {name for node in nodes for name in node.lacks(pod.requests) if len(node.lacks(pod.requests)) == fewest}
    order = sorted(
        lacking, key=lambda name: (not is_accelerator(name), _ORDER.index(name) if name in _ORDER else 9, name)
    )
    resource = order[0]
    need = pod.requests.get(resource, 1.0)
    best = max(nodes, key=lambda node: (node.free.get(resource, 0.0), node.name))
    free = show(resource, best.free.get(resource, 0.0))
    largest = max(node.allocatable.get(resource, 0.0) for node in nodes)
    never = not any(node.could_fit(pod.requests) for node in nodes)
    grows = any(node.autoscaled for node in context.nodes.values())
    outlook = "no node of this cluster is large enough" if never else "it waits until enough is freed"
    if grows:
        outlook += ", unless a node autoscaler adds one"
    gpu = is_accelerator(resource)
    amount = f"{show(resource, need)} {resource}" if gpu else f"{resource} {show(resource, need)}"
    return finding(
        "InsufficientGPU" if gpu else "InsufficientResources",
        pod.subject,
        f"{pod.subject} needs {amount} on one node; the most free on one node is {free} ({best.name}), "
        f"the largest node has {show(resource, largest)}: {outlook}",
        headline=f"no node has {show(resource, need)} free GPUs"
        if gpu
        else f"no node has {resource} {show(resource, need)} free",
        evidence=(*_free_lines(nodes, resource), scheduling_event(context, pod, sentence)),
        hint=_resource_hints(context, pod, resource, _node_to_look_at(nodes, pod, resource), never),
        terminal=never and not grows and context.age(unscheduled_since(pod)) >= _CERTAIN,
        since=unscheduled_since(pod),
        key=(pod.cluster, pod.group, resource),
    )


def _free_lines(nodes: Sequence[Node], resource: str) -> list[str]:
    """A line per node: what is free, and who holds the rest. The nodes with most free first, _LINES at most."""
    lines = []
    for node in sorted(nodes, key=lambda node: (-node.free.get(resource, 0.0), node.name))[:_LINES]:
        holders = sorted(
            ((requests.get(resource, 0.0), name) for name, requests in node.holders.items() if requests.get(resource)),
            reverse=True,
        )
        held = ", ".join(f"{name} holds {show(resource, amount)}" for amount, name in holders[:3])
        free, total = show(resource, node.free.get(resource, 0.0)), show(resource, node.allocatable.get(resource, 0.0))
        lines.append(f"{node.name}: {free} of {total} {resource} free" + (f" ({held})" if held else ""))
    if len(nodes) > _LINES:
        lines.append(f"and {len(nodes) - _LINES} more nodes")
    return lines


def _node_to_look_at(nodes: Sequence[Node], pod: Pod, resource: str) -> str:
    """The node where the least has to be freed for the pod; of nodes that are all too small, the one with most free."""
    enough = [node for node in nodes if node.could_fit(pod.requests)] or nodes
    return max(enough, key=lambda node: (node.free.get(resource, 0.0), node.name)).name


def _resource_hints(context: ServiceContext, pod: Pod, resource: str, node: str, never: bool) -> tuple[Hint, ...]:
    model, gpu = context.service.model if context.service else "", is_accelerator(resource)
    asked = Hint(f"kubectl get pods -A -o wide --field-selector spec.nodeName={node}", f"who holds {resource}")
    if gpu and model and "," not in model:  # of several, what the planner is asked for is in the spec file
        return (Hint(f"rayllm-ctl plan --model {model}", "what fits with fewer GPUs"), *(() if never else (asked,)))
    if gpu:
        return (Hint("rayllm-ctl plan --model MODEL --tp N", "what fits with fewer GPUs"), *(() if never else (asked,)))
    flag = {"cpu": "--cpu", "memory": "--memory"}.get(resource)
    sized = not pod.head and fields.label(pod.item, COMPONENT) != DOWNLOAD_COMPONENT
    smaller = (Hint(f"{context.deploy} {flag} QUANTITY", f"ask for less {resource}"),) if flag and sized else ()
    return (*smaller, *(() if never and smaller else (asked,)))


def _tainted(context: ServiceContext, pod: Pod, nodes: Sequence[Node], full: Sequence[Node], sentence: str) -> Finding:
    """Nodes with room are tainted. full: others that would take the pod if enough was freed on them."""
    taints = sorted({str(taint) for node in nodes for taint in node.untolerated(pod)})
    keys = {taint.key for node in nodes for taint in node.untolerated(pod)}
    names = ", ".join(node.name for node in nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
    cordoned = keys == {CORDONED}
    grows = any(node.autoscaled for node in nodes)
    what = "cordoned" if cordoned else "tainted"
    toleration = next((taint for taint in taints if not taint.startswith(CORDONED)), "")
    node = nodes[0].name
    tolerate = f"{context.deploy} --toleration {toleration}"
    if context.of_fetch:
        tolerate = f"kubectl taint nodes {node} {toleration}-"
    return finding(
        "UntoleratedTaint",
        pod.subject,
        f"the nodes with capacity for {pod.subject} are {what}: {names}; it does not tolerate {', '.join(taints)}"
        + (f"; it waits until enough is freed on {full[0].name}" if full else ""),
        headline=f"the nodes with capacity are {what}",
        evidence=(
            *(f"{node.name}: {', '.join(str(taint) for taint in node.taints)}" for node in nodes[:_LINES]),
            scheduling_event(context, pod, sentence),
        ),
        hint=(Hint(f"kubectl uncordon {node}" if cordoned else tolerate),),
        terminal=not (cordoned or grows or full) and context.age(unscheduled_since(pod)) >= _CERTAIN,
        since=unscheduled_since(pod),
        key=(pod.cluster, *taints),
    )  # fmt: skip


def _mismatch(context: ServiceContext, pod: Pod, nodes: Sequence[Node], asked: str, sentence: str) -> Finding:
    grows = any(node.autoscaled for node in nodes)
    selected = any(node.selected_by(pod) for node in nodes)
    keys = _label_keys(pod)
    have = [
        f"{key}: " + (", ".join(sorted({node.labels[key] for node in nodes if key in node.labels})) or "on no node")
        for key in keys
    ]
    what = (
        f"pod affinity or anti-affinity keeps {pod.subject} off every node"
        if selected
        else f"no node matches what {pod.subject} requires"
    )
    return finding(
        "NodeSelectorMismatch",
        pod.subject,
        f"{what}: {asked}" + (f"; the nodes have {'; '.join(have)}" if have and not selected else ""),
        headline="no node satisfies the pod's affinity" if selected else "no node has the labels asked for",
        evidence=(f"{pod.subject}: {asked}", *have, scheduling_event(context, pod, sentence)),
        hint=(Hint(f"kubectl get nodes -L {','.join(keys)}"),)
        if keys
        else (Hint(f"kubectl describe pod {pod.name} -n {context.namespace}"),),
        terminal=not selected and not grows and context.age(unscheduled_since(pod)) >= _CERTAIN,
        since=unscheduled_since(pod),
        key=(pod.cluster, pod.group, asked),
    )


def _nodes_down(pod: Pod, nodes: Sequence[Node], sentence: str) -> Finding:
    names = ", ".join(node.name for node in nodes)
    return finding(
        "NodeLost",
        f"node/{nodes[0].name}",
        f"the only nodes with capacity for {pod.subject} are down: {names}",
        headline=f"node {nodes[0].name} is down",
        evidence=(*(f"node {node.name}: NotReady ({node.not_ready_reason})" for node in nodes), sentence),
        hint=(Hint(f"kubectl describe node {nodes[0].name}"),),
        since=nodes[0].not_ready_since or unscheduled_since(pod),
        key=[node.name for node in nodes],
    )


def _requirements(pod: Pod) -> str:
    selector = fields.mapping(pod.item, "spec", "nodeSelector")
    asked = [f"{key}={value}" for key, value in sorted(selector.items())]
    for term in required_terms(pod):
        parts = [
            " ".join(
                filter(
                    None,
                    (fields.text(one, "key"), fields.text(one, "operator"), ", ".join(fields.words(one, "values"))),
                )
            )
            for one in (*fields.items(term, "matchExpressions"), *fields.items(term, "matchFields"))
        ]
        asked.append(" and ".join(parts))
    return "node selector or affinity " + " or ".join(asked)


def _label_keys(pod: Pod) -> list[str]:
    keys = {str(key) for key in fields.mapping(pod.item, "spec", "nodeSelector")}
    for term in required_terms(pod):
        keys |= {fields.text(one, "key") for one in fields.items(term, "matchExpressions")}
    return sorted(keys - {""})


def unscheduled_since(pod: Pod) -> datetime | None:
    """When the scheduler first found no node."""
    return fields.when(pod.condition("PodScheduled"), "lastTransitionTime") or pod.created


def scheduling_event(context: ServiceContext, pod: Pod, sentence: str) -> str:
    """The scheduler's newest event about the pod as evidence, or its sentence."""
    event = context.events.last("Pod", pod.name, "FailedScheduling")
    return event.quoted() if event else f"{pod.subject}: {sentence}"
