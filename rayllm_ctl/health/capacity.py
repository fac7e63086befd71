"""Whether the nodes have capacity for the workers of a service that is not there yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.objects.cluster_spec import GroupSpec, read_cluster_spec
from rayllm_ctl.health.objects.node import Node, read_nodes
from rayllm_ctl.health.objects.pod import Pod, is_accelerator, read_pod
from rayllm_ctl.health.objects.quantity import format_number, pod_requests, show
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.kube.cluster_spec import cluster_spec
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object

_NAME = "capacity"


def capacity_check(manifest: Object, nodes: Iterable[Object], pods: Iterable[Object]) -> Checked:
    """Where the fewest workers of a rendered RayService or RayCluster would run now; a warning if not all fit.

    At least one worker of each group is counted. It is not a refusal: an autoscaler may add nodes, other pods may end.
    """
    groups = _groups(cluster_spec(manifest))
    if not groups:
        return Checked(_NAME, True, "no worker groups")
    ready = [node for node in read_nodes(nodes, pods).values() if node.ready]
    free = {node.name: dict(node.free) for node in ready}
    found = [_group_check(group, item, ready, free) for group, item in groups]
    if len(found) == 1:
        return Checked(_NAME, found[0].ok, found[0].detail)
    details = [f"group {group.name}: {one.detail}" for (group, _), one in zip(groups, found, strict=True)]
    return Checked(_NAME, True if all(one.ok for one in found) else None, "; ".join(details))


def first_requests(manifest: Object) -> dict[str, str]:
    """What the pods of a rendered RayService or RayCluster ask for when it starts, by resource, for people.

    The head, and the fewest workers as `capacity_check` counts them.
    """
    spec = cluster_spec(manifest)
    total = pod_requests(fields.mapping(spec, "headGroupSpec", "template"))
    for group, item in _groups(spec):
        for resource, amount in pod_requests(fields.mapping(item, "template")).items():
            total[resource] = total.get(resource, 0.0) + amount * _first_workers(group)
    return {resource: show(resource, total[resource]) for resource in sorted(total, key=_accelerators_first)}


def _accelerators_first(resource: str) -> tuple[bool, str]:
    return not is_accelerator(resource), resource


def _groups(spec: Object) -> list[tuple[GroupSpec, Object]]:
    """The worker groups of a RayCluster's spec, as they are read and as they are written."""
    return list(zip(read_cluster_spec(spec).groups, fields.items(spec, "workerGroupSpecs"), strict=True))


def _first_workers(group: GroupSpec) -> int:
    return max(1, group.low) * group.hosts


@dataclass(frozen=True)
class _Outcome:
    """Whether all workers of a group fit (None: not now), and where."""

    ok: bool | None
    detail: str


def _group_check(
    group: GroupSpec, item: Mapping[str, object], ready: Sequence[Node], free: Mapping[str, dict[str, float]]
) -> _Outcome:
    """The places of one group's workers. `free`, by node, shrinks by what they take."""
    worker = read_pod({"metadata": {}, "spec": fields.mapping(item, "template", "spec")})
    wanted = _first_workers(group)
    selected = [node for node in ready if node.selected_by(worker)]
    open_to = [node for node in selected if not node.untolerated(worker)]
    if not open_to:
        return _Outcome(None, _kept_out(selected, worker))
    before = {node.name: dict(free[node.name]) for node in open_to}
    places = _places(open_to, worker, wanted, free)
    if len(places) < wanted:
        return _Outcome(None, _lacking(open_to, worker, wanted, len(places), before))
    return _Outcome(True, _found(places, open_to, worker, before))


def _places(nodes: Sequence[Node], worker: Pod, wanted: int, free: Mapping[str, dict[str, float]]) -> list[Node]:
    """The node of each worker that fits, the fullest nodes first."""
    found: list[Node] = []
    fullest = sorted(nodes, key=lambda node: sum(a for r, a in free[node.name].items() if is_accelerator(r)))
    for node in fullest:
        left = free[node.name]
        while len(found) < wanted and not node.lacks(worker.requests, left):
            found.append(node)
            for resource, amount in {**worker.requests, "pods": 1.0}.items():
                left[resource] = left.get(resource, 0.0) - amount
    return found


def _found(places: Sequence[Node], nodes: Sequence[Node], worker: Pod, free: Mapping[str, Mapping[str, float]]) -> str:
    names = list(dict.fromkeys(node.name for node in places))
    if len(places) > 1:
        return f"{len(places)} workers fit, on {', '.join(names[:3])}" + (" and others" if len(names) > 3 else "")
    node = places[0]
    for resource in worker.requests:
        if is_accelerator(resource):
            offers = (free[node.name], node.allocatable)
            now, whole = (format_number(offer.get(resource, 0.0)) for offer in offers)
            return f"node {node.name} has {now} of {whole} {resource} free"
    count = sum(not node.lacks(worker.requests, free[node.name]) for node in nodes)
    return f"{count} nodes have capacity for the worker" if count > 1 else f"on node {node.name}"


def _kept_out(selected: Sequence[Node], worker: Pod) -> str:
    """Why no node is open to the worker; `selected` are those with the right labels."""
    if not selected:
        return "no ready node has the labels that the workers ask for (--node-selector names others)"
    taints = sorted({str(taint) for node in selected for taint in node.untolerated(worker)})
    return f"the workers do not tolerate the taint {', '.join(taints)} of the nodes that match (--toleration)"


def _lacking(
    nodes: Sequence[Node], worker: Pod, wanted: int, placed: int, free: Mapping[str, Mapping[str, float]]
) -> str:
    """What there is too little of, counted on the node that comes nearest."""
    later = "; an autoscaler may add one" if any(node.autoscaled for node in nodes) else ""
    if placed:
        return f"{placed} of {wanted} workers fit now{later}"

    def lacks(node: Node) -> tuple[str, ...]:
        return node.lacks(worker.requests, free[node.name])

    def share(node: Node) -> float:
        """How much of what the worker asks for the node has free, over the resources that are insufficient."""
        asked = [resource for resource in lacks(node) if worker.requests.get(resource)]
        return sum(max(0.0, free[node.name].get(one, 0.0)) / worker.requests[one] for one in asked)

    nearest = min(nodes, key=lambda node: (len(lacks(node)), -share(node)))
    left = free[nearest.name]
    missing = [
        f"{name} ({show(name, worker.requests[name])} requested, {show(name, max(0.0, left.get(name, 0.0)))} free)"
        for name in lacks(nearest)
        if name in worker.requests
    ]
    return (
        f"no node has capacity for a worker now: {nearest.name} has insufficient {', '.join(missing) or 'pods'}{later}"
    )
