"""Delete a service with the objects applied for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import ForbiddenError, NotFoundError
from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.apply.delete import delete_declared, delete_service
from rayllm_ctl.cluster.lookup.rights import require_rights
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.kinds.llmservice import DELETE_DECLARED
from rayllm_ctl.model.events import Applied, Noted
from rayllm_ctl.model.kube.owned import DECLARING, declared_by
from rayllm_ctl.workflows.services import find_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


def delete(
    cluster: Cluster, name: str, namespace: str, *, wait: bool, timeout: float, ignore_not_found: bool
) -> Iterator[Applied | Noted]:
    """Delete service `name`; see cluster.apply.delete for details and errors.

    Where an LLMService declares it, that is deleted, and Kubernetes deletes the objects that the controller made.
    """
    with explained(cluster, namespace, RAY_SERVICE.rights_for("delete")):
        kind, item = find_service(cluster, name, namespace)
    reference = declared_by(item)
    if reference is not None:
        require_rights(cluster, namespace, DELETE_DECLARED.needed)
    owner = _declaration(cluster, name, namespace) if reference is not None or item is None else None
    if owner is not None or reference is not None:
        yield from delete_declared(cluster, kind, owner, name, namespace, wait=wait, timeout=timeout, known=item)
        return
    yield from delete_service(
        cluster, kind, name, namespace, wait=wait, timeout=timeout, ignore_not_found=ignore_not_found, known=item
    )


def _declaration(cluster: Cluster, name: str, namespace: str) -> dict[str, Any] | None:
    """The LLMService of a name; None if there is none that the user may read, or it is gone already."""
    with suppress(NotFoundError, ForbiddenError):
        return cluster.get(DECLARING, name, namespace)
    return None
