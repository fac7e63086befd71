"""Objects applied for a service that are no longer part of its spec."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.cluster.apply.inventory import Entry, Inventory
from rayllm_ctl.model.events import Applied
from rayllm_ctl.model.workload import Right


def leftovers(
    found: Inventory, manifests: Sequence[Mapping[str, Any]], name: str, namespace: str, *, kept: Collection[str]
) -> tuple[list[dict[str, Any]], str]:
    """The entries of `found`, the inventory of service `name`, that are not in `manifests`, in the order of deletion;
    and a note on kinds that could not be read, empty if none.

    kept: kinds that are never left over, such as those that run a service.
    """
    wanted = {(item["kind"], item["metadata"]["name"]) for item in manifests}
    unknown = Inventory((), tuple(one for one in found.unread if one not in kept)).unknown(namespace)
    return (
        [
            item
            for item in found.objects
            if item["kind"] not in kept and (item["kind"], item["metadata"]["name"]) not in wanted
        ],
        f"{unknown}: objects that rayllm-ctl applied of these for an earlier {name} are not deleted" if unknown else "",
    )


def rights_to_delete(entries: Sequence[Entry]) -> list[Right]:
    """The rights that `prune` needs."""
    return list(dict.fromkeys(Right("delete", item.kind) for item in entries))


def prune(cluster: Cluster, entries: Sequence[Entry], *, dry_run: bool = False) -> Iterator[Applied]:
    """Delete `entries`, each only if it is still the object that was found."""
    for item in entries:
        if not dry_run:
            try:
                cluster.delete(item.kind, item.name, item.namespace, uid=item.uid)
            except NotFoundError:
                continue
        yield Applied(item.kind, item.name, item.namespace, "deleted", dry_run)
