"""Nodes: whether they live, what they hold free, and whether a pod may run there. The scheduler names no taints and no
figures, so both are worked out from the objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.objects.quantity import ResourceQuantities, amounts, pod_requests
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object

CORDONED = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True)
class Taint:
    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True)
class Node:
    """A Node with what its pods leave free. `holders`: pod -> its requests, the largest users of the node."""

    name: str
    ready: bool
    not_ready_since: datetime | None
    not_ready_reason: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: ResourceQuantities
    free: ResourceQuantities
    holders: Mapping[str, ResourceQuantities]

    @property
    def autoscaled(self) -> bool:
        """Whether the node comes from a pool of a cloud or of Karpenter, to which an autoscaler may add."""
        return any(key in self.labels for key in _POOL_LABELS)

    @property
    def gpu_product(self) -> str:
        """Its GPUs by the labels of GPU feature discovery or of GKE; empty if neither is set."""
        return self.labels.get("nvidia.com/gpu.product") or self.labels.get("cloud.google.com/gke-accelerator") or ""

    def fits(self, requests: ResourceQuantities) -> bool:
        """Whether `requests` fit into what is free."""
        return not self.lacks(requests, self.free)

    def could_fit(self, requests: ResourceQuantities) -> bool:
        """Whether `requests` would fit into the empty node."""
        return not self.lacks(requests, self.allocatable)

    def lacks(self, requests: ResourceQuantities, offer: ResourceQuantities | None = None) -> tuple[str, ...]:
        """The resources of `requests` for which `offer` (what is free, by default) is too small."""
        offered = self.free if offer is None else offer
        wanted = {**requests, "pods": 1.0} if "pods" in offered else requests
        return tuple(name for name, amount in wanted.items() if amount > offered.get(name, 0.0) + 1e-9)

    def untolerated(self, pod: Pod) -> tuple[Taint, ...]:
        """The taints that keep the pod away."""
        tolerations = fields.items(pod.item, "spec", "tolerations")
        return tuple(
            taint
            for taint in self.taints
            if taint.effect in ("NoSchedule", "NoExecute") and not any(_tolerates(one, taint) for one in tolerations)
        )

    def selected_by(self, pod: Pod) -> bool:
        """Whether the node has the labels that the pod's node selector and required node affinity ask for."""
        selector = fields.mapping(pod.item, "spec", "nodeSelector")
        if any(self.labels.get(key) != value for key, value in selector.items()):
            return False
        terms = required_terms(pod)
        return not terms or self.matches_any(terms)

    def matches_any(self, terms: Iterable[Mapping[str, Any]]) -> bool:
        """Whether the node satisfies one of the terms of a node selector."""
        return any(self._matches(term) for term in terms)

    def _matches(self, term: Mapping[str, Any]) -> bool:
        expressions = fields.items(term, "matchExpressions")
        names = fields.items(term, "matchFields")
        if not expressions and not names:
            return False
        return all(_holds(one, self.labels) for one in expressions) and all(
            _holds(one, {"metadata.name": self.name}) for one in names
        )


_POOL_LABELS = (
    "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
)  # fmt: skip


def required_terms(pod: Pod) -> tuple[Mapping[str, Any], ...]:
    """The terms of the required node affinity, of which one has to match."""
    path = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    return fields.items(pod.item, *path)


def read_nodes(nodes: Iterable[Object], pods: Iterable[Object]) -> dict[str, Node]:
    """Nodes by name; `pods` are all pods that hold resources, of whatever namespace."""
    holders: dict[str, dict[str, ResourceQuantities]] = {}
    for pod in pods:
        where = fields.text(pod, "spec", "nodeName")
        if where and fields.text(pod, "status", "phase") not in ("Failed", "Succeeded"):
            holders.setdefault(where, {})[f"{fields.namespace(pod)}/{fields.name(pod)}"] = pod_requests(pod)
    return {fields.name(item): _read(item, holders.get(fields.name(item), {})) for item in nodes}


def _read(item: Object, holders: Mapping[str, ResourceQuantities]) -> Node:
    allocatable = amounts(fields.mapping(item, "status", "allocatable"))
    free = dict(allocatable)
    for requests in holders.values():
        for resource, amount in {**requests, "pods": 1.0}.items():
            if resource in free:
                free[resource] -= amount
    state = fields.condition(item, "Ready")
    labels = {key: value for key, value in fields.mapping(item, "metadata", "labels").items() if isinstance(value, str)}
    taints = [
        Taint(fields.text(taint, "key"), fields.text(taint, "value"), fields.text(taint, "effect"))
        for taint in fields.items(item, "spec", "taints")
    ]
    if fields.flag(item, "spec", "unschedulable") and all(taint.key != CORDONED for taint in taints):
        taints.append(Taint(CORDONED, "", "NoSchedule"))
    return Node(
        name=fields.name(item),
        ready=state.get("status") == "True",
        not_ready_since=None if state.get("status") == "True" else fields.when(state, "lastTransitionTime"),
        not_ready_reason=fields.text(state, "reason"),
        labels=labels,
        taints=tuple(taints),
        allocatable=allocatable,
        free=free,
        holders=holders,
    )


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    effect = fields.text(toleration, "effect")
    key = fields.text(toleration, "key")
    if effect and effect != taint.effect:
        return False
    if toleration.get("operator") == "Exists":
        return not key or key == taint.key
    return key == taint.key and fields.text(toleration, "value") == taint.value


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key = fields.text(expression, "key")
    values = fields.words(expression, "values")
    have = labels.get(key)
    match fields.text(expression, "operator"):
        case "In":
            return have in values
        case "NotIn":
            return have not in values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case "Gt" | "Lt" as operator:
            if have is None or not values or not have.isdigit() or not values[0].isdigit():
                return False
            return int(have) > int(values[0]) if operator == "Gt" else int(have) < int(values[0])
        case _:
            return False
