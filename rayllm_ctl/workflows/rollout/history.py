"""The history of a service, and rollback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.apply.inventory import Inventory
from rayllm_ctl.cluster.apply.revisions import revisions
from rayllm_ctl.cluster.lookup.services import not_found
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.kube.owned import declared_by
from rayllm_ctl.model.kube.revisions import Revision
from rayllm_ctl.model.observed.changes import Diff
from rayllm_ctl.workflows.render.types import Rendering
from rayllm_ctl.workflows.rollout.diff import DiffOptions, current, diff_live
from rayllm_ctl.workflows.rollout.llmservice.change import DeclaredChange, rollback_change
from rayllm_ctl.workflows.rollout.llmservice.declaration import read_declaration
from rayllm_ctl.workflows.rollout.outage import as_deployed
from rayllm_ctl.workflows.rollout.revisions import same_state
from rayllm_ctl.workflows.rollout.shipped_code import restored
from rayllm_ctl.workflows.rollout.unrecorded import recorded_names, split_recorded
from rayllm_ctl.workflows.services import ServiceRef, find_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


@dataclass(frozen=True)
class Rollback:
    """A revision to apply again, the changes, and the service with its current inventory and history."""

    revision: Revision
    rendering: Rendering
    diff: Diff
    service: ServiceRef
    applied: Inventory
    revisions: Sequence[Revision]


@dataclass(frozen=True)
class DeclaredRollback:
    """The same for a service that an LLMService declares."""

    revision: Revision
    change: DeclaredChange


def history(cluster: Cluster, name: str, namespace: str) -> list[Revision]:
    """The revisions of service `name`, the oldest first. Raises NotFoundError if there are none and no service."""
    with explained(cluster, namespace, RAY_SERVICE.rights_for("history")):
        found = revisions(cluster, name, namespace)
    if not found:
        kind, item = find_service(cluster, name, namespace)
        if item is None:
            raise not_found(cluster, kind, name, namespace)
    return found


def revision(cluster: Cluster, name: str, namespace: str, number: int) -> Revision:
    """One revision. Raises UserError, with the existing ones, if it is not kept."""
    return _numbered(history(cluster, name, namespace), name, namespace, number)


def prepare_rollback(
    cluster: Cluster, name: str, namespace: str, to: int | None, *, force_conflicts: bool = False
) -> Rollback | DeclaredRollback:
    """The revision `to` of a service, or the last one that differs from the current one, and its changes.

    Raises UserError if there is none, or the cluster is already in its state; otherwise as `diff` does.
    """
    known = history(cluster, name, namespace)
    if not known:
        raise UserError(
            f"service {namespace}/{name} has no history",
            hint="rayllm-ctl deploy -f FILE    # with an earlier version of its file",
        )
    target = _before_last(known, name, namespace) if to is None else _numbered(known, name, namespace, to)
    if any(one.spec is not None for one in known):
        kind, item = find_service(cluster, name, namespace)
        if item is not None and declared_by(item) is not None:
            return DeclaredRollback(target, rollback_change(read_declaration(cluster, kind, item), target))
    manifests, notes = restored(cluster, target.manifests, namespace)
    service, found = current(cluster, manifests, namespace)
    applied, strays = split_recorded(found, recorded_names(known), namespace)
    diff = diff_live(service, manifests, applied, DiffOptions(force_conflicts=force_conflicts))
    if not diff and not diff.notes:
        raise UserError(
            "\n".join([f"service {namespace}/{name} is already in the state of revision {target.number}", *strays]),
            hint=f"rayllm-ctl history {name} -n {namespace}",
        )
    rendering = Rendering(name, namespace, manifests, (*notes, *strays), None)
    return Rollback(target, rendering, as_deployed(diff), service, applied, known)


def _before_last(known: list[Revision], name: str, namespace: str) -> Revision:
    *earlier, last = known
    for one in reversed(earlier):
        if not same_state(one.manifests, last.manifests):
            return one
    raise UserError(
        f"service {namespace}/{name} has no revision before revision {last.number}",
        hint=f"rayllm-ctl history {name} -n {namespace}",
    )


def _numbered(known: list[Revision], name: str, namespace: str, number: int) -> Revision:
    for one in known:
        if one.number == number:
            return one
    kept = ", ".join(str(one.number) for one in known) or "none"
    raise UserError(
        f"service {namespace}/{name} has no revision {number}; kept: {kept}",
        hint=f"rayllm-ctl history {name} -n {namespace}",
    )
