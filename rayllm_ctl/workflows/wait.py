"""Wait for a service, or follow it: look when something changes, and at least every few seconds.

Kubernetes objects announce their changes by watch; Serve's own state can only be asked for, hence the regular look.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rayllm_ctl.errors import UserError, WaitTimeoutError
from rayllm_ctl.health import diagnose
from rayllm_ctl.model.events import Observed, Ready
from rayllm_ctl.model.health import Cause, Health, State
from rayllm_ctl.model.quantities import format_duration

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

LOOK_EVERY = 3.0
"""Seconds between two looks when nothing changes: Serve's state has no watch."""

SETTLE = 0.4
"""Seconds to let a burst of changes end before a look."""

OLD_EVIDENCE_GRACE = 15.0
"""Seconds for which evidence from before the wait does not end it: somebody may have mended the cause and run deploy
again, and Kubernetes and Ray need some seconds to try once more."""


def look(cluster: Cluster, name: str, namespace: str) -> Health:
    """The health of a service now."""
    from rayllm_ctl.cluster.snapshot import collect

    return diagnose(collect(cluster, name, namespace), name, namespace)


def follow(cluster: Cluster, name: str, namespace: str, timeout: float | None = None) -> Iterator[Observed]:
    """A look now and at every change after it, until the caller stops or `timeout` seconds have passed."""
    from rayllm_ctl.cluster.snapshot import Collector
    from rayllm_ctl.cluster.watch import watch

    begin = time.monotonic()
    collector = Collector(cluster, name, namespace)
    with watch(cluster, ("RayService", "RayCluster", "Pod", "EndpointSlice"), namespace) as changes:
        while True:
            yield Observed(diagnose(collector.collect(), name, namespace), time.monotonic() - begin)
            left = LOOK_EVERY if timeout is None else min(LOOK_EVERY, timeout - (time.monotonic() - begin))
            if left <= 0:
                return
            if changes.wait(left):
                time.sleep(SETTLE)
                changes.drain()


def wait_ready(cluster: Cluster, name: str, namespace: str, timeout: float) -> Iterator[Observed | Ready]:
    """Follow a service until it is Ready.

    Raises UserError at once when a cause is terminal (no wait would mend it), WaitTimeoutError with the last state when
    `timeout` seconds have passed.
    """
    last: Health | None = None
    for seen in follow(cluster, name, namespace, timeout):
        last = seen.health
        yield seen
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
