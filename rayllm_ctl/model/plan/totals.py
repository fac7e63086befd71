"""Total resources of a service's models, at the minimum and maximum number of replicas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import parse_quantity
from rayllm_ctl.model.plan.plan import Cost, Plan, UnknownCost
from rayllm_ctl.model.text.json_form import to_json


@dataclass(frozen=True)
class Range:
    """A number at the minimum and maximum number of replicas."""

    min: float
    max: float


@dataclass(frozen=True)
class Totals:
    """GPUs by their type, those of other applications by their resource; all pods and what they request: CPUs and bytes
    of memory.

    cost: of the models' GPUs; None if there are none.
    """

    gpus: Mapping[str, Range]
    pods: Range
    cpu: Range
    memory_bytes: Range
    cost: Cost | UnknownCost | None


def totals(plan: Plan) -> Totals | None:
    """The sums of a plan of several models; None if it does not run."""
    if plan.deployment is None:
        return None
    pods = list(_pods(plan))
    gpus: dict[str, Range] = {}
    for one in plan.each.values():
        if one.gpu is not None and one.parallelism is not None:
            layout, before = one.parallelism, gpus.get(one.gpu.name, Range(0, 0))
            each = layout.gpus_per_replica
            gpus[one.gpu.name] = Range(before.min + each * layout.replicas, before.max + each * layout.max_replicas)
    models = {group.name for one in plan.each.values() if one.deployment for group in one.deployment.worker_groups}
    for group in plan.deployment.worker_groups:
        if group.name not in models:
            for resource, count in group.extended_resources.items():
                before = gpus.get(resource, Range(0, 0))
                low, high = count * group.min_workers, count * group.max_workers
                gpus[resource] = Range(before.min + low, before.max + high)
    return Totals(
        gpus=gpus,
        pods=_sum((low, high, 1) for low, high, _, _ in pods),
        cpu=_sum((low, high, cpu) for low, high, cpu, _ in pods),
        memory_bytes=_sum((low, high, memory) for low, high, _, memory in pods),
        cost=plan.cost,
    )


def several_to_json(plan: Plan) -> dict[str, Any]:
    """A plan of several models as JSON data: each of them as a plan of one model is, and the sums."""
    return {
        "verdict": plan.verdict,
        "reasons": to_json(plan.reasons),
        "models": [{"name": name, **to_json(one)} for name, one in plan.each.items()],
        "totals": to_json(totals(plan)),
        "notes": to_json(plan.notes),
    }


def _pods(plan: Plan) -> Iterator[tuple[int, int, float, float]]:
    """Pods of a kind: the fewest and the most, and CPUs and memory of each."""
    assert plan.deployment is not None
    head = next(iter(plan.each.values())).pods
    if head is not None:
        yield 1, 1, float(parse_quantity(head.head_cpu)), float(parse_quantity(head.head_memory))
    for group in plan.deployment.worker_groups:
        cpu, memory = float(parse_quantity(group.pod_cpu)), float(parse_quantity(group.pod_memory))
        yield group.min_workers, group.max_workers, cpu, memory


def _sum(parts: Iterator[tuple[int, int, float]]) -> Range:
    found = list(parts)
    return Range(sum(low * size for low, _, size in found), sum(high * size for _, high, size in found))
