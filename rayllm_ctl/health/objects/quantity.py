"""Resources as numbers: what a pod asks for and what a node gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.kube.quantities import GIB, parse_quantity
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object

ResourceQuantities = Mapping[str, float]
"""Resource name -> amount: cores, bytes, or a count."""

BYTES = frozenset({"memory", "ephemeral-storage"})


def amounts(value: Any) -> dict[str, float]:
    """A mapping of Kubernetes quantities as numbers; what is not a quantity is left out."""
    found: dict[str, float] = {}
    if not isinstance(value, Mapping):
        return found
    for resource, quantity in value.items():
        try:
            found[str(resource)] = parse_quantity(str(quantity))
        except ValueError:
            continue
    return found


def pod_requests(item: Object) -> dict[str, float]:
    """What the scheduler counts for a pod: the sum of its containers, or the largest init container if that is more.

    Source: Kubernetes, "Init containers: resource sharing within containers". Init containers that restart (sidecars)
    count with the containers.
    """
    total = amounts(fields.mapping(item, "spec", "overhead"))
    for container in fields.items(item, "spec", "containers"):
        _add(total, container_requests(container))
    peak: dict[str, float] = {}
    for container in fields.items(item, "spec", "initContainers"):
        wanted = container_requests(container)
        if container.get("restartPolicy") == "Always":
            _add(total, wanted)
        else:
            for resource, amount in wanted.items():
                peak[resource] = max(peak.get(resource, 0.0), amount)
    whole = amounts(fields.mapping(item, "spec", "resources", "requests"))
    names = {*total, *peak, *whole}
    return {name: max(total.get(name, 0.0), peak.get(name, 0.0), whole.get(name, 0.0)) for name in names}


def container_requests(container: Mapping[str, Any]) -> dict[str, float]:
    """A container's requests; the API server fills a missing request from the limit."""
    limits = amounts(fields.mapping(container, "resources", "limits"))
    return {**limits, **amounts(fields.mapping(container, "resources", "requests"))}


def show(resource: str, amount: float) -> str:
    """An amount for people: 40Gi, 1.5, 8."""
    if resource not in BYTES:
        return format_number(amount)
    for size, unit in ((GIB, "Gi"), (2**20, "Mi"), (2**10, "Ki")):
        if amount >= size:
            return f"{format_number(amount / size)}{unit}"
    return format_number(amount)


def format_number(amount: float) -> str:
    """A number for people: 8, 1.5, 0.05."""
    return f"{amount:.0f}" if amount == round(amount) else f"{amount:.3g}"


def _add(total: dict[str, float], more: Mapping[str, float]) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0.0) + amount
