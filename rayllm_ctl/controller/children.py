"""The objects that run an LLMService: rendered manifests with an owner, and which of them have to be applied again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rayllm_ctl.model.kube.labels import CONTROLLER
from rayllm_ctl.model.observed.health import Object

ChildKey = tuple[str, str]
"""Kind and name of a child, which is in the namespace of its owner."""


def child_key(item: Object) -> ChildKey:
    """Kind and name of an object."""
    return str(item["kind"]), str(item["metadata"]["name"])


def to_apply(
    wanted: Iterable[ChildKey], stored: Mapping[ChildKey, Object], seen: Mapping[str, str]
) -> tuple[ChildKey, ...]:
    """The children that are missing, or that another client has changed since the controller applied them.

    Controllers that write the status of an object do not count, nor its scale. seen: by uid, the last change of another
    client over which the child has been applied: that client may have written what nobody else wants.
    """
    return tuple(key for key in wanted if key not in stored or _changed_since(stored[key], seen))


def last_change_of_others(item: Object) -> str:
    """When another client than the controller wrote the object last, but for its status; empty if none did."""
    return max((str(one.get("time", "")) for one in _records(item) if one.get("manager") != CONTROLLER), default="")


def surplus(wanted: Iterable[ChildKey], stored: Mapping[ChildKey, Object], kept: Sequence[str]) -> list[Object]:
    """The children that are no longer wanted. kept: kinds that stay until their owner is gone."""
    names = frozenset(wanted)
    return [item for key, item in sorted(stored.items()) if key not in names and key[0] not in kept]


def _changed_since(item: Object, seen: Mapping[str, str]) -> bool:
    applied = [str(one.get("time", "")) for one in _records(item) if one.get("manager") == CONTROLLER]
    if not applied:
        return True
    return last_change_of_others(item) > max(*applied, seen.get(str(item["metadata"]["uid"]), ""))


def _records(item: Object) -> list[Mapping[str, Any]]:
    return [one for one in item["metadata"].get("managedFields") or () if not one.get("subresource")]
