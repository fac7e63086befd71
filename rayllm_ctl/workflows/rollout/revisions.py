"""Record the history of a service during a deployment: a revision after the apply, later its outcome.

A deployment never fails because of it: failures to record are reported once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.permissions import format_right
from rayllm_ctl.cluster.apply.revisions import add_revision, set_outcome
from rayllm_ctl.cluster.apply.revisions import revisions as listed
from rayllm_ctl.errors import ConflictError, UserError, WaitTimeoutError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.events import Applied, Noted, Observed, Ready
from rayllm_ctl.model.kube import revisions
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.kube.revisions import Revision
from rayllm_ctl.model.observed.changes import Diff, FieldChange
from rayllm_ctl.model.observed.health import Health
from rayllm_ctl.model.workload import WorkloadKind
from rayllm_ctl.workflows.rollout.diff import diff_files
from rayllm_ctl.workflows.rollout.unrecorded import clear_unrecorded, mark_unrecorded

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.workflows.services import ServiceRef

_MOST_CHANGES = 3
_MOST_CHARACTERS = 24


@dataclass(frozen=True)
class AppliedState:
    """The manifests of a service as they were applied. start_seconds: the plan's start-up limit; None: no plan."""

    kind: WorkloadKind
    name: str
    namespace: str
    manifests: Sequence[Mapping[str, Any]]
    start_seconds: float | None


@dataclass(frozen=True)
class Kept:
    """The revision of a deployment, whose outcome is not recorded yet."""

    revision: Revision
    namespace: str


def record(
    service: ServiceRef, state: AppliedState, done: Sequence[Applied], change: str,
    *, wait: bool, known: Sequence[Revision] | None = None,
) -> Generator[Noted, None, Kept | None]:  # fmt: skip
    """Record the applied state as a revision; None if nothing changed, or with a note if it cannot be recorded.

    known: the history of the service, if it has been read.
    """
    cluster = service.cluster
    try:
        lacking = service.permissions.missing(state.kind.rights_for("record").needed)
        if lacking:
            rights = ", ".join(format_right(right) for right in lacking)
            yield Noted(f"no history is kept: not permitted to {rights} in namespace {state.namespace}")
            yield from mark_unrecorded(service, state.manifests, known)
            return None
        known = listed(cluster, state.name, state.namespace) if known is None else known
        last = known[-1] if known else None
        changed = any(applied.action != "unchanged" for applied in done)
        if not changed and last is not None and same_state(last.manifests, state.manifests):
            return None
        made = add_revision(
            cluster, state.name, state.namespace, state.manifests,
            change=change or _summary(last, state, done),
            outcome=revisions.WAITING if wait else revisions.NOT_WAITED,
            start_seconds=state.start_seconds if state.start_seconds or last is None else last.start_seconds,
            known=known,
        )  # fmt: skip
    except UserError as error:
        yield Noted(f"no revision is kept: {error.message}")
        yield from mark_unrecorded(service, state.manifests, known)
        return None
    yield from clear_unrecorded(service)
    return Kept(made, state.namespace)


def record_outcome(
    cluster: Cluster, kept: Kept | None, events: Iterable[Observed | Noted | Ready]
) -> Iterator[Observed | Noted | Ready]:
    """The events of a wait; its outcome is written to the revision, unless the wait is interrupted."""
    health: Health | None = None
    outcome = ""
    try:
        for event in events:
            if isinstance(event, Observed):
                health = event.health
            elif isinstance(event, Ready):
                outcome = f"{revisions.READY} after {format_duration(event.elapsed)}"
            yield event
    except UserError as error:
        yield from _set_outcome(cluster, kept, _failure(error, health))
        raise
    if outcome:
        yield from _set_outcome(cluster, kept, outcome)


def _set_outcome(cluster: Cluster, kept: Kept | None, outcome: str) -> Iterator[Noted]:
    """Record the outcome; a note if that fails, as rollback then cannot use the revision."""
    if kept is None:
        return
    try:
        set_outcome(cluster, kept.revision, kept.namespace, outcome)
    except UserError as error:
        yield Noted(f"the outcome of revision {kept.revision.number} is not kept: {error.message}")


def same_state(one: Iterable[Mapping[str, Any]], other: Iterable[Mapping[str, Any]]) -> bool:
    """Whether two sets of manifests are the same except for Secrets and order."""
    first, second = (
        {
            (manifest["kind"], manifest["metadata"]["name"]): revisions.as_kept(manifest)
            for manifest in side
            if manifest["kind"] != "Secret"
        }
        for side in (one, other)
    )
    return first == second


def format_changes(diff: Diff) -> str:
    """The changes of a diff in one short line; empty if there are none."""
    texts: list[str] = []
    for changed in diff.objects:
        if changed.action in ("created", "deleted"):
            texts.append(f"{changed.kind} {changed.name} {changed.action}")
        elif not (changed.after and revisions.code_digest(changed.after)):  # the service contains its digest
            changes = changed.explanation.changes
            # The bounds of workers are derived from those of replicas.
            texts += [_format_change(change) for change in changes if change.effect != "bounds"] or map(
                _format_change, changes
            )
    more = len(texts) - _MOST_CHANGES
    return ", ".join(texts[:_MOST_CHANGES]) + (f" and {more} more" if more > 0 else "")


def _summary(last: Revision | None, state: AppliedState, done: Sequence[Applied]) -> str:
    """The changes since the last revision."""
    if any(applied.kind == state.kind.name and applied.action == "created" for applied in done):
        return "created"
    if last is None:
        return "first recorded revision"
    kept = [revisions.as_kept(manifest) for manifest in state.manifests if manifest["kind"] != "Secret"]
    return format_changes(diff_files(last.manifests, kept)) or "applied again"


def _format_change(change: FieldChange) -> str:
    values = [_short(value) for value in (change.old, change.new)]
    if None in values:
        return change.field
    return f"{change.field} {values[0]} → {values[1]}"


def _short(value: Any) -> str | None:
    """A value for a list; None if it is too long."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text if isinstance(value, (str, int, float)) and len(text) <= _MOST_CHARACTERS else None


def _failure(error: UserError, health: Health | None) -> str:
    causes = health.causes if health else ()
    if isinstance(error, WaitTimeoutError):
        return "timed out" + (f": {causes[0].code}" if causes else "")
    if isinstance(error, ConflictError):
        return "failed: changed by another client"
    terminal = next((cause.code for cause in causes if cause.terminal), "")
    return f"failed: {terminal}" if terminal else "failed"
