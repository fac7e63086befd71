"""Delete a service with the objects applied for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.apply.delete import delete_service
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.events import Applied, Noted
from rayllm_ctl.workflows.services import find_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


def delete(
    cluster: Cluster, name: str, namespace: str, *, wait: bool, timeout: float, ignore_not_found: bool
) -> Iterator[Applied | Noted]:
    """Delete service `name`; see cluster.apply.delete for details and errors."""
    with explained(cluster, namespace, RAY_SERVICE.rights_for("delete")):
        kind, item = find_service(cluster, name, namespace)
    yield from delete_service(
        cluster, kind, name, namespace, wait=wait, timeout=timeout, ignore_not_found=ignore_not_found, known=item
    )
