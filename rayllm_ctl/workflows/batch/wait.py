"""Follow a batch job until it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from threading import Event as Stop
from typing import TYPE_CHECKING

from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.lookup.jobs import no_such_job
from rayllm_ctl.cluster.snapshot.job import JobCollector
from rayllm_ctl.errors import FAILED, INPUT_REJECTED, NO_ANSWER, OK, ConflictError, UserError, WaitTimeoutError
from rayllm_ctl.health import diagnose_job
from rayllm_ctl.kinds.rayjob import JOB_RIGHTS
from rayllm_ctl.model.batch_events import BatchEnded, BatchEvent, BatchObserved
from rayllm_ctl.model.events import Noted
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.observed.batch_status import BatchHealth, JobOutcome, JobState
from rayllm_ctl.workflows.observe.wait import is_old_evidence, repeat

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.cluster.api.watch import Watch

EXIT_CODE: Mapping[JobOutcome, int] = {
    JobOutcome.ANSWERED: OK,
    JobOutcome.TOO_MANY_ERRORS: FAILED,
    JobOutcome.REJECTED: INPUT_REJECTED,
    JobOutcome.FAILED: NO_ANSWER,
}
"""Exit codes of a command that waits for a job."""


def wait_for_job(
    cluster: Cluster,
    name: str,
    namespace: str,
    timeout: float | None = None,
    *,
    uid: str = "",
    stop: Stop | None = None,
) -> Iterator[BatchEvent]:
    """Yield the health of batch job `name` at every change, then a BatchEnded. timeout: seconds; None: no limit.

    uid: of the applied RayJob; "" accepts any. `stop` ends it from another thread, without a
    BatchEnded. Raises NotFoundError when there is no such job; UserError with exit code NO_ANSWER when it can never
    run (a terminal cause before its first row), or is deleted; ConflictError when another job has taken its name;
    WaitTimeoutError when `timeout` seconds have passed. The job itself is left alone.
    """
    begin = time.monotonic()
    collector = JobCollector(cluster, name, namespace)
    known = uid

    def look(changes: Watch, _changed: bool) -> BatchHealth:
        nonlocal known
        # Cleared before reading: a change during the read triggers the next one.
        changes.follow(collector.subscriptions())
        snapshot = collector.collect()
        live = snapshot.find("RayJob", name)
        if live is None and not known:
            raise no_such_job(cluster, name, namespace)
        if live is not None and live["metadata"]["uid"] != (known or live["metadata"]["uid"]):
            raise ConflictError(
                f"rayjob/{name} was deleted and created again by another client in the meantime",
                hint=f"rayllm-ctl batch watch {name} -n {namespace}",
            )
        known = live["metadata"]["uid"] if live is not None else known
        return diagnose_job(snapshot, name, namespace)

    last: BatchHealth | None = None
    with explained(cluster, namespace, JOB_RIGHTS["follow"]):
        for seen in repeat(cluster, namespace, look, timeout, stop):
            if isinstance(seen, Noted):
                yield seen
                continue
            last, elapsed = seen, time.monotonic() - begin
            yield BatchObserved(last, elapsed)
            if last.outcome is not None:
                yield BatchEnded(name, namespace, last.outcome, last, elapsed)
                return
            _raise_if_terminal(name, namespace, last, elapsed)
    if stop is None or not stop.is_set():
        raise _timed_out(name, namespace, timeout or 0.0, last)


def _raise_if_terminal(name: str, namespace: str, health: BatchHealth, elapsed: float) -> None:
    if health.state in (JobState.DELETING, JobState.NOT_FOUND):
        raise UserError(
            f"rayjob/{name} was deleted before it ended; finished rows stay in the output",
            hint=f"rayllm-ctl batch list -n {namespace}",
            exit_code=NO_ANSWER,
        )
    cause = health.terminal_cause
    if cause is not None and not is_old_evidence(cause, health.observed_at, elapsed):
        evidence = "".join(f"\n  {line}" for line in cause.evidence)
        raise UserError(
            f"{name} cannot run: {cause.code}: {cause.message} ({cause.object}){evidence}",
            hint=(*map(str, cause.hint), f"rayllm-ctl batch cancel {name} -n {namespace}"),
            exit_code=NO_ANSWER,
        )


def _timed_out(name: str, namespace: str, timeout: float, last: BatchHealth | None) -> WaitTimeoutError:
    state = f"{last.state}: {last.message}" if last else "not seen"
    reasons = "".join(f"\n{cause.object}: {cause.message}" for cause in last.causes) if last else ""
    return WaitTimeoutError(
        f"{name} is still running after {format_duration(timeout)}; it is {state}{reasons}",
        hint=(
            f"rayllm-ctl batch watch {name} -n {namespace}     # the job keeps running: follow it",
            f"rayllm-ctl batch cancel {name} -n {namespace}    # stop it",
        ),
    )
