"""The objects that run an LLMService: rendered manifests with an owner, and which of them have to be applied again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rayllm_ctl.cluster.apply.managed_fields import managers
from rayllm_ctl.kinds import WORKLOADS
from rayllm_ctl.model.kube.labels import CONTROLLER
from rayllm_ctl.model.observed.health import Object

ChildKey = tuple[str, str]
"""Kind and name of a child, which is in the namespace of its owner."""


def child_key(item: Object) -> ChildKey:
    """Kind and name of an object."""
    return str(item["kind"]), str(item["metadata"]["name"])


def is_suspended_by_controller(workload: Object) -> bool:
    """Whether the controller has applied the field that suspends a service."""
    return CONTROLLER in managers(workload, *WORKLOADS[str(workload["kind"])].cluster_path, "suspend")


def to_apply(wanted: Iterable[ChildKey], stored: Mapping[ChildKey, Object]) -> tuple[ChildKey, ...]:
    """The children that are missing, or that another client has changed since the controller applied them.

    Controllers that write the status of an object do not count, nor its scale.
    """
    return tuple(key for key in wanted if key not in stored or _changed_since(stored[key]))


def surplus(wanted: Iterable[ChildKey], stored: Mapping[ChildKey, Object], kept: Sequence[str]) -> list[Object]:
    """The children that are no longer wanted. kept: kinds that stay until their owner is gone."""
    names = frozenset(wanted)
    return [item for key, item in sorted(stored.items()) if key not in names and key[0] not in kept]


def _changed_since(item: Object) -> bool:
    records = [one for one in item["metadata"].get("managedFields") or () if not one.get("subresource")]
    applied = [str(one.get("time", "")) for one in records if one.get("manager") == CONTROLLER]
    if not applied:
        return True
    return any(str(one.get("time", "")) > max(applied) for one in records if one.get("manager") != CONTROLLER)
