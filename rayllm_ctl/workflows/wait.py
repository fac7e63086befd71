"""Wait for a service, or follow it: look when something changes, and at least every few seconds.

Kubernetes objects announce their changes by watch; Serve's own state can only be asked for, hence the regular look.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rayllm_ctl.errors import UserError, WaitTimeoutError
from rayllm_ctl.health import diagnose
from rayllm_ctl.model.events import Noted, Observed, Ready
from rayllm_ctl.model.health import Cause, Health, State
from rayllm_ctl.model.quantities import format_duration

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

LOOK_EVERY = 3.0
"""Seconds between two looks when nothing changes: Serve's state has no watch."""

SETTLE = 0.4
"""Seconds to let a burst of changes end before a look."""

OUTAGE = 60.0
"""Seconds for which an API server that does not answer, or fails, does not end a wait: it may be restarting."""

OLD_EVIDENCE_GRACE = 15.0
"""Seconds for which evidence from before the wait does not end it: somebody may have mended the cause and run deploy
again, and Kubernetes and Ray need some seconds to try once more."""


def look(cluster: Cluster, name: str, namespace: str) -> Health:
    """The health of a service now."""
    from rayllm_ctl.cluster.snapshot import collect

    return diagnose(collect(cluster, name, namespace), name, namespace)


def follow(cluster: Cluster, name: str, namespace: str, timeout: float | None = None) -> Iterator[Observed | Noted]:
    """A look now and at every change after it, until the caller stops or `timeout` seconds have passed.

    While the API server does not answer the trouble is noted once; after OUTAGE seconds of it the error is raised.
    """
    from rayllm_ctl.cluster.failures import ServerFailingError, UnreachableError
    from rayllm_ctl.cluster.snapshot import Collector
    from rayllm_ctl.cluster.watch import watch

    begin = time.monotonic()
    collector = Collector(cluster, name, namespace)
    out_since: float | None = None
    with watch(cluster, ("RayService", "RayCluster", "Pod", "EndpointSlice"), namespace) as changes:
        while True:
            try:
                yield Observed(diagnose(collector.collect(), name, namespace), time.monotonic() - begin)
                out_since = None
            except (UnreachableError, ServerFailingError) as error:
                if out_since is None:
                    out_since = time.monotonic()
                    yield Noted(f"{error.message}; trying again")
                elif time.monotonic() - out_since > OUTAGE:
                    raise
            left = LOOK_EVERY if timeout is None else min(LOOK_EVERY, timeout - (time.monotonic() - begin))
            if left <= 0:
                return
            if changes.wait(left):
                time.sleep(SETTLE)
                changes.drain()


def wait_ready(cluster: Cluster, name: str, namespace: str, timeout: float) -> Iterator[Observed | Noted | Ready]:
    """Follow a service until it is Ready.

    Raises UserError at once when a cause is terminal (no wait would mend it), WaitTimeoutError with the last state when
    `timeout` seconds have passed.
    """
    last: Health | None = None
    for seen in follow(cluster, name, namespace, timeout):
        yield seen
        if isinstance(seen, Noted):
            continue
        last = seen.health
        if last.state is State.READY:
            yield Ready(name, namespace, seen.elapsed, last)
            return
        _stop_if_hopeless(name, namespace, last, seen.elapsed)
    reasons = "\n".join(f"{cause.object}: {cause.message}" for cause in last.causes) if last else ""
    state = f"{last.state}: {last.message}" if last else "not seen"
    raise WaitTimeoutError(
        f"{name} is not ready after {format_duration(timeout)}; it is {state}" + (f"\n{reasons}" if reasons else ""),
        hint=(f"rayllm-ctl status {name} -n {namespace}", f"rayllm-ctl watch {name} -n {namespace}"),
    )


def _stop_if_hopeless(name: str, namespace: str, health: Health, elapsed: float) -> None:
    for cause in health.causes:
        if cause.terminal and not (elapsed < OLD_EVIDENCE_GRACE and _older_than_the_wait(cause, health, elapsed)):
            evidence = "".join(f"\n  {line}" for line in cause.evidence)
            raise UserError(
                f"{name} will not become ready: {cause.code}: {cause.message} ({cause.object}){evidence}",
                hint=(*cause.hint, f"rayllm-ctl status {name} -n {namespace}"),
            )


def _older_than_the_wait(cause: Cause, health: Health, elapsed: float) -> bool:
    if cause.since is None or health.observed_at is None:
        return False
    return (health.observed_at - cause.since).total_seconds() > elapsed + 1.0  # Kubernetes' times are whole seconds
