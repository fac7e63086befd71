"""Whether the nodes have room for the workers of a service that is not there yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rayllm_ctl.health import fields
from rayllm_ctl.health.node import Node, read_nodes
from rayllm_ctl.health.pod import Pod, is_accelerator, read_pod
from rayllm_ctl.health.quantity import format_number, show
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.health import Object

_NAME = "capacity"


def capacity_check(manifest: Object, nodes: Iterable[Object], pods: Iterable[Object]) -> Checked:
    """Where the fewest workers of a rendered RayService would run now; a warning if not all have a place.

    It is no refusal: an autoscaler may add nodes, and other pods may end.
    """
    [group] = fields.items(manifest, "spec", "rayClusterConfig", "workerGroupSpecs")
    worker = read_pod({"metadata": {}, "spec": fields.mapping(group, "template", "spec")})
    wanted = max(1, fields.integer(group, "minReplicas"))
    ready = [node for node in read_nodes(nodes, pods).values() if node.ready]
    selected = [node for node in ready if node.selected_by(worker)]
    open_to = [node for node in selected if not node.untolerated(worker)]
    if not open_to:
        return Checked(_NAME, None, _kept_out(selected, worker))
    places = _places(open_to, worker, wanted)
    if len(places) < wanted:
        return Checked(_NAME, None, _lacking(open_to, worker, wanted, len(places)))
    return Checked(_NAME, True, _found(places, open_to, worker))


def _places(nodes: Sequence[Node], worker: Pod, wanted: int) -> list[Node]:
    """The node of each worker that has a place, the fullest nodes first."""
    found: list[Node] = []
    for node in sorted(nodes, key=lambda node: sum(a for r, a in node.free.items() if is_accelerator(r))):
        free = dict(node.free)
        while len(found) < wanted and not node.lacks(worker.requests, free):
            found.append(node)
            for resource, amount in {**worker.requests, "pods": 1.0}.items():
                free[resource] = free.get(resource, 0.0) - amount
    return found


def _found(places: Sequence[Node], nodes: Sequence[Node], worker: Pod) -> str:
    names = list(dict.fromkeys(node.name for node in places))
    if len(places) > 1:
        return f"{len(places)} workers fit, on {', '.join(names[:3])}" + (" and others" if len(names) > 3 else "")
    node = places[0]
    for resource in worker.requests:
        if is_accelerator(resource):
            free, whole = (format_number(amounts.get(resource, 0.0)) for amounts in (node.free, node.allocatable))
            return f"node {node.name} has {free} of {whole} {resource} free"
    count = sum(node.fits(worker.requests) for node in nodes)
    return f"{count} nodes could take the worker" if count > 1 else f"on node {node.name}"


def _kept_out(selected: Sequence[Node], worker: Pod) -> str:
    """Why no node is open to the worker; `selected` are those with the right labels."""
    if not selected:
        return "no ready node has the labels that the workers ask for (--node-selector names others)"
    taints = sorted({str(taint) for node in selected for taint in node.untolerated(worker)})
    return f"the workers do not tolerate {', '.join(taints)} of the nodes for them (--toleration)"


def _lacking(nodes: Sequence[Node], worker: Pod, wanted: int, placed: int) -> str:
    """What there is too little of, counted on the node that comes nearest."""
    later = "; an autoscaler may add one" if any(node.autoscaled for node in nodes) else ""
    if placed:
        return f"{placed} of {wanted} workers have a place now{later}"
    nearest = min(nodes, key=lambda node: (len(node.lacks(worker.requests)), -_share(node, worker)))
    lacks = [
        f"{show(name, worker.requests[name])} {name} (free: {show(name, max(0.0, nearest.free.get(name, 0.0)))})"
        for name in nearest.lacks(worker.requests)
        if name in worker.requests
    ]
    return f"no node has room for a worker now: {nearest.name} lacks {', '.join(lacks) or 'room for a pod'}{later}"


def _share(node: Node, worker: Pod) -> float:
    """How much of what the worker asks for the node has free, over the resources that it lacks."""
    return sum(
        max(0.0, node.free.get(resource, 0.0)) / worker.requests[resource]
        for resource in node.lacks(worker.requests)
        if worker.requests.get(resource)
    )
