"""Nodes: what they offer, what is free on them, and whom they admit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rayllm_ctl.cluster.client import Cluster
from rayllm_ctl.cluster.failures import ForbiddenError
from rayllm_ctl.model.quantities import parse_quantity

LIVE_PODS = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Pods that hold resources of a node: scheduled and not ended."""

_ACCELERATORS = (
    "nvidia.com/",
    "amd.com/gpu",
    "google.com/tpu",
    "habana.ai/",
    "aws.amazon.com/neuron",
    "gpu.intel.com/",
)
"""Resource names of accelerators begin so."""

Taint = tuple[str, str, str]
"""Key, value, effect."""


@dataclass(frozen=True)
class NodeRoom:
    """What a node has and what is free of it. Quantities: cores, bytes, GPUs. `free` None: pods may not be listed."""

    name: str
    ready: bool
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Mapping[str, float]
    free: Mapping[str, float] | None


@dataclass(frozen=True)
class NodePool:
    """Nodes that are alike for a GPU service: the same accelerator, product label, number and taints.

    `product` is the value of the label that names the GPU (PRODUCT_LABELS), empty if there is none.
    `free_per_node`: free accelerators by node; empty when pods may not be listed.
    """

    resource: str
    product: str
    per_node: int
    taints: tuple[Taint, ...]
    nodes: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    free_per_node: Mapping[str, int] = field(default_factory=dict)


PRODUCT_LABELS = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "k8s.amazonaws.com/accelerator",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-tpu-accelerator",
)
"""Node labels that name the accelerator, most exact first."""


def node_rooms(cluster: Cluster) -> list[NodeRoom]:
    """Every node with what is free on it, by name. ForbiddenError if nodes may not be listed."""
    nodes = cluster.list("Node")
    try:
        used: dict[str, dict[str, float]] | None = _used(cluster.list("Pod", field_selector=LIVE_PODS))
    except ForbiddenError:
        used = None
    rooms = [_room(node, used) for node in nodes]
    return sorted(rooms, key=lambda room: room.name)


def node_pools(cluster: Cluster) -> list[NodePool]:
    """Ready and uncordoned nodes with accelerators, grouped. Empty if nodes may not be listed."""
    try:
        rooms = node_rooms(cluster)
    except ForbiddenError:
        return []
    groups: dict[tuple[str, str, int, tuple[Taint, ...]], list[NodeRoom]] = defaultdict(list)
    for room in rooms:
        for resource, count in room.allocatable.items():
            if room.ready and count and resource.startswith(_ACCELERATORS):
                groups[resource, _product(room.labels), int(count), room.taints].append(room)
    return [
        NodePool(
            resource, product, per_node, taints, tuple(room.name for room in members), _common(members),
            {room.name: int(room.free[resource]) for room in members if room.free is not None},
        )
        for (resource, product, per_node, taints), members in sorted(groups.items(), key=lambda group: group[0])
    ]  # fmt: skip


def live_pods(cluster: Cluster) -> list[dict[str, Any]]:
    """Every pod that holds resources, in short: who holds how much of which node."""
    return [_short_pod(pod) for pod in cluster.list("Pod", field_selector=LIVE_PODS)]


def short_node(node: Mapping[str, Any]) -> dict[str, Any]:
    """A node without its images and volumes, which make up most of its size."""
    status = node.get("status") or {}
    kept = {
        key: status[key] for key in ("capacity", "allocatable", "conditions", "addresses", "nodeInfo") if key in status
    }
    return {**node, "status": kept}


def _short_pod(pod: Mapping[str, Any]) -> dict[str, Any]:
    metadata, spec = pod["metadata"], pod["spec"]
    boxes = {
        key: [{"name": box["name"], "resources": box.get("resources") or {}} for box in spec[key]]
        for key in ("containers", "initContainers")
        if spec.get(key)
    }
    keep = ("name", "namespace", "uid", "labels", "deletionTimestamp")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {key: metadata[key] for key in keep if key in metadata},
        "spec": {**{key: spec[key] for key in ("nodeName", "priority") if key in spec}, **boxes},
        "status": {"phase": (pod.get("status") or {}).get("phase", "")},
    }


def requested(pod: Mapping[str, Any]) -> dict[str, float]:
    """What the scheduler counts for a pod: its containers and sidecars, or its largest init container if that is more.

    Source: Kubernetes documentation, "Init Containers", resource sharing within containers; overhead is added.
    """
    total: dict[str, float] = defaultdict(float)
    peak: dict[str, float] = defaultdict(float)
    for box in pod["spec"].get("initContainers") or ():
        wants = _requests(box)
        if box.get("restartPolicy") == "Always":
            for key, amount in wants.items():
                total[key] += amount
            wants = {key: total[key] for key in wants}
        else:
            wants = {key: amount + total[key] for key, amount in wants.items()}
        for key, amount in wants.items():
            peak[key] = max(peak[key], amount)
    for box in pod["spec"].get("containers") or ():
        for key, amount in _requests(box).items():
            total[key] += amount
    for key, amount in (pod["spec"].get("overhead") or {}).items():
        total[key] += parse_quantity(str(amount))
    return {key: max(total[key], peak[key]) for key in {*total, *peak}}


def _requests(box: Mapping[str, Any]) -> dict[str, float]:
    resources = box.get("resources") or {}
    # A limit without a request is its own request.
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {key: parse_quantity(str(amount)) for key, amount in amounts.items()}


def _used(pods: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    used: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for pod in pods:
        on_node = used[pod["spec"]["nodeName"]]
        on_node["pods"] += 1
        for key, amount in requested(pod).items():
            on_node[key] += amount
    return used


def _room(node: Mapping[str, Any], used: Mapping[str, Mapping[str, float]] | None) -> NodeRoom:
    name, spec, status = node["metadata"]["name"], node.get("spec") or {}, node.get("status") or {}
    allocatable = {key: parse_quantity(str(amount)) for key, amount in (status.get("allocatable") or {}).items()}
    taken = None if used is None else used.get(name, {})
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
    free = None if taken is None else {key: max(has - taken.get(key, 0.0), 0.0) for key, has in allocatable.items()}
    taints = tuple(sorted((t["key"], t.get("value", ""), t["effect"]) for t in spec.get("taints") or ()))
    labels = node["metadata"].get("labels") or {}
    return NodeRoom(name, ready and not spec.get("unschedulable"), labels, taints, allocatable, free)


def _product(labels: Mapping[str, str]) -> str:
    return next((labels[key] for key in PRODUCT_LABELS if key in labels), "")


def _common(rooms: list[NodeRoom]) -> dict[str, str]:
    """The labels that all of `rooms` share."""
    first, *rest = (set(room.labels.items()) for room in rooms)
    return dict(sorted(first.intersection(*rest)))
