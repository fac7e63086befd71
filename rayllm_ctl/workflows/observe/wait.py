"""Wait for a service, or follow it: observe it on every change, and at least every few seconds.

Kubernetes objects report changes by watch; Serve's own state has to be polled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from threading import Event as Stop
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from rayllm_ctl.cluster.api.errors import ServerFailingError, UnreachableError
from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.api.watch import Watch
from rayllm_ctl.cluster.apply.written_back import written_back_differences
from rayllm_ctl.cluster.snapshot.service import Collector
from rayllm_ctl.errors import ConflictError, UserError, WaitTimeoutError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE, WORKLOADS
from rayllm_ctl.model.events import Noted, Observed, Ready
from rayllm_ctl.model.kube.kuberay import is_suspended
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.observed.health import Cause, Health, Snapshot, State
from rayllm_ctl.model.workload import WorkloadKind
from rayllm_ctl.workflows.observe.autoscaling import AutoscalingWatch
from rayllm_ctl.workflows.services import find_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.cluster.api.watch import Watch

T = TypeVar("T")

START_SECONDS = 600.0
"""How long to wait if no plan predicts the start-up time."""

LOOK_EVERY = 3.0
"""Seconds between two observations when nothing changes: Serve's state has no watch."""

SETTLE = 0.2
"""Maximum seconds between two observations during a burst of changes. The first change is observed at once."""

SETTLE_SHARE = 3.0
"""The pause after an observation, as a multiple of its duration: continuous changes take at most a quarter of a core,
and a cheap observation is soon followed by the next."""

OUTAGE = 60.0
"""Seconds of API server failures after which a wait ends: it may be restarting."""

OLD_EVIDENCE_GRACE = 15.0
"""Seconds during which evidence from before the wait is ignored: the cause may have been fixed and deploy run again,
and Kubernetes and Ray need some seconds to retry."""

_EXPLAINED = frozenset({State.READY, State.NOT_FOUND})
"""States that the watched objects explain. Others have causes, which events and logs explain."""

_STOP_POLL = 0.25
"""Seconds within which a stop is noticed."""


@dataclass(frozen=True)
class Look:
    """One observation of a service, `elapsed` seconds after the first."""

    snapshot: Snapshot
    health: Health
    elapsed: float


def follow(
    cluster: Cluster,
    name: str,
    namespace: str,
    timeout: float | None = None,
    *,
    stop: Stop | None = None,
) -> Iterator[Observed | Noted]:
    """Observe a service now and on every change, until the caller stops or `timeout` seconds have passed.

    Changes by the autoscaler are noted, with the reason.
    If the API server does not answer, the error is noted once, and raised after OUTAGE seconds.
    `stop` ends it from another thread.
    """
    with explained(cluster, namespace, RAY_SERVICE.rights_for("follow")):
        autoscaling = AutoscalingWatch(cluster, namespace)
        for seen in looks_at(cluster, None, name, namespace, timeout, stop):
            if isinstance(seen, Look):
                yield from autoscaling.notes(seen.snapshot)
            yield Observed(seen.health, seen.elapsed) if isinstance(seen, Look) else seen


def wait_ready(
    cluster: Cluster,
    kind: WorkloadKind,
    applied: dict[str, Any],
    timeout: float,
    *,
    stop: Stop | None = None,
    around: Mapping[str, Sequence[dict[str, Any]]] = MappingProxyType({}),
) -> Iterator[Observed | Noted | Ready]:
    """Follow the service of the object `applied`, as the API server stored it, until it is Ready.

    around: see Collector. Raises UserError at once when the service cannot become ready (a terminal cause, it was
    deleted), ConflictError when another client has changed it since, WaitTimeoutError with the last state when
    `timeout` seconds have passed. After `stop` it ends without a Ready.
    """
    name, namespace = applied["metadata"]["name"], applied["metadata"]["namespace"]
    last: Health | None = None
    for seen in looks_at(cluster, kind, name, namespace, timeout, stop, around):
        if isinstance(seen, Noted):
            yield seen
            continue
        _still_ours(kind, applied, seen.snapshot)
        last = seen.health
        yield Observed(last, seen.elapsed)
        if last.state is State.READY:
            yield Ready(name, namespace, seen.elapsed, last)
            return
        raise_if_terminal(name, namespace, last, seen.elapsed)
        stop_if_suspended(name, namespace, seen.snapshot, last)
    if stop is not None and stop.is_set():
        return
    raise timed_out(f"{name} is not ready", name, namespace, last, timeout)


def timed_out(
    what: str, name: str, namespace: str, last: Health | None, timeout: float, *more: str
) -> WaitTimeoutError:
    """The error for a wait of `timeout` seconds. what: the unmet condition; last: the last observation, if any.

    more: reasons besides the causes.
    """
    reasons = "\n".join((*(f"{cause.object}: {cause.message}" for cause in last.causes), *more)) if last else ""
    state = f"{last.state}: {last.message}" if last else "not seen"
    return WaitTimeoutError(
        f"{what} after {format_duration(timeout)}; it is {state}" + (f"\n{reasons}" if reasons else ""),
        hint=(f"rayllm-ctl status {name} -n {namespace}", f"rayllm-ctl watch {name} -n {namespace}"),
    )


def looks_at(
    cluster: Cluster, kind: WorkloadKind | None, name: str, namespace: str, timeout: float | None, stop: Stop | None,
    around: Mapping[str, Sequence[dict[str, Any]]] = MappingProxyType({}),
) -> Iterator[Look | Noted]:  # fmt: skip
    """The observations of a service. kind None: the kind of the object of its name, once there is one. around: see
    Collector.
    """
    begin = time.monotonic()
    collector: Collector | None = None

    def look(changes: Watch, changed: bool) -> Look:
        nonlocal collector, around
        if collector is None:
            found, item = find_service(cluster, name, namespace) if kind is None else (kind, None)
            collector = Collector(
                cluster, found, name, namespace, following=True, watch=changes, around=around, known=item
            )
            around = {}  # too old to be reused
        found = collector.kind
        snapshot = collector.refresh() if changed else None
        health = found.diagnose(snapshot, name, namespace) if snapshot else None
        if snapshot is None or health is None or health.state not in _EXPLAINED:
            snapshot = collector.collect(snapshot.serve if snapshot else None)
            health = found.diagnose(snapshot, name, namespace)
        if health.state is State.NOT_FOUND:
            collector = None
        return Look(snapshot, health, time.monotonic() - begin)

    yield from repeat(cluster, namespace, look, timeout, stop)


def repeat(
    cluster: Cluster, namespace: str, look: Callable[[Watch, bool], T], timeout: float | None, stop: Stop | None
) -> Iterator[T | Noted]:
    """What `look` returns: now, at every change of what it follows, and at least every LOOK_EVERY seconds.

    look: is told whether something has changed. While the API server does not answer the trouble is noted once; after
    OUTAGE seconds of it the error is raised, and at the end if it never answered.
    """
    begin = time.monotonic()
    out_since: float | None = None
    failure: UserError | None = None
    seen = changed = False
    with Watch(cluster, namespace) as changes:
        while True:
            looked = time.monotonic()
            try:
                yield look(changes, changed)
                out_since, seen = None, True
            except (UnreachableError, ServerFailingError) as error:
                changes.reconnect()
                failure = error
                if out_since is None:
                    out_since = time.monotonic()
                    yield Noted(f"{error.message}; retrying")
                elif time.monotonic() - out_since > OUTAGE:
                    raise
            left = LOOK_EVERY if timeout is None else min(LOOK_EVERY, timeout - (time.monotonic() - begin))
            if left <= 0:
                if failure is not None and not seen:
                    raise failure
                return
            now = time.monotonic()
            # Only an observation of a change can be part of a burst.
            earliest = now + min(SETTLE, SETTLE_SHARE * (now - looked)) if changed else 0.0
            changed = _pause(changes, left, earliest, stop)
            if stop is not None and stop.is_set():
                return


def _pause(changes: Watch, seconds: float, earliest: float, stop: Stop | None) -> bool:
    """Wait for a change or a stop, at most `seconds`, and after a change until `earliest`. Returns whether something
    changed."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and not (stop is not None and stop.is_set()):
        if changes.wait(left if stop is None else min(left, _STOP_POLL)):
            time.sleep(max(0.0, earliest - time.monotonic()))
            # Cleared before reading: a change during the read triggers the next one.
            changes.drain()
            return True
    return False


def _still_ours(kind: WorkloadKind, applied: dict[str, Any], snapshot: Snapshot) -> None:
    """Raise an error if the service was replaced or changed since it was applied."""
    name, namespace = applied["metadata"]["name"], applied["metadata"]["namespace"]
    what = f"{kind.name.lower()}/{name}"
    live = snapshot.find(kind.name, name)
    if live is None or "deletionTimestamp" in live["metadata"]:
        raise UserError(
            f"{what} was deleted while deploy was waiting for it", hint=f"rayllm-ctl status {name} -n {namespace}"
        )
    if live["metadata"]["uid"] != applied["metadata"]["uid"]:
        raise ConflictError(
            f"{what} was deleted, and created again by another client, while deploy was waiting for it",
            hint=f"rayllm-ctl status {name} -n {namespace}",
        )
    changed = written_back_differences(applied.get("spec") or {}, live.get("spec") or {})
    if changed:
        raise ConflictError(
            "\n".join([f"{what} was changed by another client while deploy was waiting for it:", *changed]),
            hint=(
                f"rayllm-ctl status {name} -n {namespace}",
                "run the command again to apply your settings",
            ),
        )


def raise_if_terminal(name: str, namespace: str, health: Health, elapsed: float) -> None:
    """Raise UserError if a terminal cause says that the service cannot become ready. elapsed: seconds of the wait."""
    for cause in health.causes:
        if cause.terminal and not is_old_evidence(cause, health.observed_at, elapsed):
            evidence = "".join(f"\n  {line}" for line in cause.evidence)
            raise UserError(
                f"{name} will not become ready: {cause.code}: {cause.message} ({cause.object}){evidence}",
                hint=(*map(str, cause.hint), f"rayllm-ctl status {name} -n {namespace}"),
            )


def stop_if_suspended(name: str, namespace: str, snapshot: Snapshot, health: Health) -> None:
    """Raise UserError if a service is suspended and is to remain so."""
    own = [one for one in snapshot.of_kind(*WORKLOADS) if one["metadata"]["name"] == name]
    if health.state is State.SUSPENDED and any(map(is_suspended, own)):
        raise UserError(
            f"{name} is suspended: it has no pods until it is resumed",
            hint=f"rayllm-ctl resume {name} -n {namespace}",
        )


def is_old_evidence(cause: Cause, observed_at: datetime | None, elapsed: float) -> bool:
    """Whether a cause is from before a wait that began `elapsed` seconds before `observed_at`, and may be temporary."""
    if elapsed >= OLD_EVIDENCE_GRACE or cause.since is None or observed_at is None:
        return False
    return (observed_at - cause.since).total_seconds() > elapsed + 1.0  # Kubernetes' times are whole seconds
