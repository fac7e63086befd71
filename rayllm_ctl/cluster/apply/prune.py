"""Objects applied for a service that are no longer part of its spec."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.cluster.apply.inventory import Entry, Inventory
from rayllm_ctl.cluster.lookup.rights import require_rights
from rayllm_ctl.model.events import Applied
from rayllm_ctl.model.workload import Right


def leftovers(
    inventory: Inventory, manifests: Sequence[Mapping[str, Any]], name: str, namespace: str, *, kept: Collection[str]
) -> tuple[list[dict[str, Any]], str]:
    """The entries of `inventory`, that of service `name`, that are not in `manifests`, in the order of deletion;
    and a note on kinds that could not be read, empty if none.

    kept: kinds that are never left over, such as those that run a service.
    """
    wanted = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}
    unknown = Inventory((), tuple(kind_name for kind_name in inventory.unread if kind_name not in kept)).unknown(
        namespace
    )
    return (
        [
            stored
            for stored in inventory.objects
            if stored["kind"] not in kept and (stored["kind"], stored["metadata"]["name"]) not in wanted
        ],
        f"{unknown}: objects that rayllm-ctl applied of these for an earlier {name} are not deleted" if unknown else "",
    )


def require_deletable(cluster: Cluster, entries: Sequence[Entry], namespace: str) -> None:
    """Raise ClusterError unless the user may delete `entries`."""
    require_rights(cluster, namespace, list(dict.fromkeys(Right("delete", entry.kind) for entry in entries)))


def prune(cluster: Cluster, entries: Sequence[Entry], *, dry_run: bool = False) -> Iterator[Applied]:
    """Delete `entries`, each only if it is still the object that was found."""
    for entry in entries:
        if not dry_run:
            try:
                cluster.delete(entry.kind, entry.name, entry.namespace, uid=entry.uid)
            except NotFoundError:
                continue
        yield Applied(entry.kind, entry.name, entry.namespace, "deleted", dry_run)
