"""Deploy, and roll back to the last revision that was Ready if that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.apply.revisions import revisions
from rayllm_ctl.cluster.lookup.rights import require_rights
from rayllm_ctl.errors import ConflictError, OutageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import workload
from rayllm_ctl.model.events import Applied, Event, Noted, Rendered
from rayllm_ctl.model.kube.revisions import Revision
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.workflows.render.types import Rendering, ServeFile
from rayllm_ctl.workflows.rollout.deploy import DeployOptions, deploy
from rayllm_ctl.workflows.rollout.revisions import same_state
from rayllm_ctl.workflows.rollout.shipped_code import restored
from rayllm_ctl.workflows.rollout.unrecorded import recorded_names

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


@dataclass(frozen=True)
class _Before:
    """A service before it is deployed: number of its last revision, 0 if it has none."""

    name: str
    namespace: str
    last: int


def deploy_or_roll_back(
    services: Sequence[LLMService | ServeFile], options: DeployOptions, connect: Callable[[], Cluster]
) -> Iterator[Event | Rendered]:
    """As `deploy` of one service. When the wait for it fails, the last revision that was Ready is applied again.

    Raises the error of the wait, extended by the outcome of the rollback; UserError before anything is applied if no
    history can be kept. Changes by other clients in the meantime are not rolled back.
    """
    connected: list[Cluster] = []

    def once() -> Cluster:
        if not connected:
            connected.append(connect())
        return connected[0]

    before: _Before | None = None
    created: set[tuple[str, str]] = set()
    try:
        for event in deploy(services, replace(options, fallback=True), once):
            if isinstance(event, Rendered):
                before = _before(connected[0], event)
            if isinstance(event, Applied) and event.action == "created":
                created.add((event.kind, event.name))
            yield event
    except UserError as error:
        known = _revisions(connected[0], before) if before is not None and connected else []
        if before is None or isinstance(error, ConflictError) or not known or known[-1].number <= before.last:
            raise  # nothing was applied, or it is not ours to undo
        failed, good = known[-1], _last_ready(known)
        if good is None:
            none = f"no earlier revision of {before.name} was Ready: nothing was rolled back"
            raise _with(error, none, before) from error
        yield Noted(f"revision {failed.number} failed; rollback to revision {good.number}: {good.change}")
        manifests, notes = _restored(connected[0], good, before, error)
        again = DeployOptions(
            timeout=good.start_seconds,
            force_conflicts=options.force_conflicts,
            said=True,
            change=f"rollback to {good.number}: revision {failed.number} failed",
            revisions=known,
            recorded=recorded_names(known[:-1]) | created,
        )
        earlier = [Rendering(before.name, before.namespace, manifests, notes, None)]
        try:
            try:
                yield from deploy(earlier, again, once)
            except OutageError:  # raised before anything is applied; keeping the failed revision has no benefit
                yield from deploy(earlier, replace(again, upgrade=None), once)
        except UserError as second:
            both = f"the rollback to revision {good.number} failed as well: {second.message}"
            raise _with(error, both, before) from second
        raise _with(error, f"revision {good.number} was applied again and is Ready", before) from error


def _restored(
    cluster: Cluster, good: Revision, before: _Before, error: UserError
) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    try:
        return restored(cluster, good.manifests, before.namespace)
    except UserError as second:
        raise _with(error, f"revision {good.number} cannot be applied again: {second.message}", before) from error


def _before(cluster: Cluster, event: Rendered) -> _Before:
    kind, manifest = workload(event.manifests)
    namespace = str(manifest["metadata"].get("namespace") or cluster.namespace)
    require_rights(cluster, namespace, kind.rights_for("record").needed)
    service = _Before(manifest["metadata"]["name"], namespace, 0)
    known = _revisions(cluster, service)
    return _Before(service.name, namespace, known[-1].number if known else 0)


def _revisions(cluster: Cluster, service: _Before) -> list[Revision]:
    return revisions(cluster, service.name, service.namespace)


def _last_ready(known: Sequence[Revision]) -> Revision | None:
    """The newest revision before the last that was Ready and differs from the last."""
    *earlier, last = known
    for revision in reversed(earlier):
        if revision.was_ready and not same_state(revision.manifests, last.manifests):
            return revision
    return None


def _with(error: UserError, text: str, service: _Before) -> UserError:
    """`error`, with its exit code, and the outcome of the rollback."""
    history = f"rayllm-ctl history {service.name} -n {service.namespace}"
    return UserError(f"{error.message}\n{text}", hint=(*error.hints, history), exit_code=error.exit_code)
