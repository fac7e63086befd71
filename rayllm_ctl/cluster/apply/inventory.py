"""The objects that rayllm-ctl applied for a service, verified by managedFields.

KubeRay copies the labels of a RayService to all objects that it creates for it, so labels are not sufficient. An object
must have an apply by our field manager in its managedFields, and no owner.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError, NotFoundError
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.api_kinds import applied_kinds, kind
from rayllm_ctl.model.kube.labels import BATCH, INSTANCE, MANAGED_BY, MANAGER
from rayllm_ctl.model.kube.owned import declared_by


@dataclass(frozen=True)
class Entry:
    """One object of the inventory. The uid ensures that no other object of that name is deleted."""

    kind: str
    name: str
    namespace: str
    uid: str


@dataclass(frozen=True)
class Inventory:
    """Applied objects, in the order of deletion. unread: kinds that the user is not permitted to list, of which there
    may be more.
    """

    objects: Sequence[dict[str, Any]]
    unread: tuple[str, ...]

    @property
    def entries(self) -> list[Entry]:
        return [entry(stored) for stored in self.objects]

    def unknown(self, namespace: str) -> str:
        """The kinds that could not be read, for a message; empty if none."""
        if not self.unread:
            return ""
        resources = ", ".join(kind(name).resource for name in self.unread)
        return f"not permitted to list {resources} in namespace {namespace}"


def inventory(
    cluster: Cluster, name: str, namespace: str, without: Collection[str] = (), *, only: Collection[str] | None = None,
    owner: str = "",
) -> Inventory:  # fmt: skip
    """The objects applied for service `name`, but not for a batch job of that name. without, only: kinds to exclude or
    include. owner: the uid of the LLMService that declares the service, whose children count then.
    """
    kinds = [
        kind_name for kind_name in applied_kinds() if (only is None or kind_name in only) and kind_name not in without
    ]
    return _listed(cluster, namespace, f"{MANAGED_BY}={MANAGER},{INSTANCE}={name},!{BATCH}", kinds, owner)


def job_inventory(cluster: Cluster, name: str, namespace: str) -> Inventory:
    """The objects applied for the batch job `name`."""
    return _listed(cluster, namespace, f"{BATCH}={name}", applied_kinds())


def _listed(cluster: Cluster, namespace: str, selector: str, kinds: Sequence[str], owner: str = "") -> Inventory:
    def read(kind_name: str) -> list[dict[str, Any]] | None:
        try:
            return cluster.list(kind_name, namespace, label_selector=selector)
        except NotFoundError:
            return []  # a kind that the cluster does not serve
        except ForbiddenError:
            return None

    with Tasks() as tasks:
        lists = tasks.map(read, kinds)
    objects = [
        item for items in lists for item in items or () if (is_child_of(item, owner) if owner else applied_by_us(item))
    ]
    return Inventory(objects, tuple(kind_name for kind_name, items in zip(kinds, lists, strict=True) if items is None))


def entry(item: Mapping[str, Any]) -> Entry:
    """The inventory entry of an object."""
    metadata = item["metadata"]
    return Entry(item["kind"], metadata["name"], metadata["namespace"], metadata["uid"])


def is_child_of(item: Mapping[str, Any], owner: str) -> bool:
    """Whether the LLMService of a uid declares this object."""
    return (declared_by(item) or {}).get("uid") == owner


def applied_by_us(item: Mapping[str, Any]) -> bool:
    """Whether rayllm-ctl applied this object and no other object owns it."""
    metadata = item["metadata"]
    applied = any(
        record.get("manager") == MANAGER and record.get("operation") == "Apply" and not record.get("subresource")
        for record in metadata.get("managedFields") or ()
    )
    return applied and not metadata.get("ownerReferences")
