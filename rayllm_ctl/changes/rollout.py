"""How Ray Serve replaces the replicas of an application, in words.

Ray 2.60, ray/serve/_private/deployment_state.py: old replicas stop first, as many at a time as
rolling_update_percentage (0.2) of the target allows, at least one; with max_surge_percent new ones start first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import format_estimate
from rayllm_ctl.model.observed.changes import Consequence, Running, Unread


@dataclass(frozen=True)
class DeploymentChange:
    """A deployment whose replicas restart. replicas: how many run (None: unknown). engine: it runs a model's engine.

    step: the fraction of replicas that restarts at a time. surge: new ones start before old ones stop.
    """

    name: str
    replicas: int | None
    engine: bool
    step: float
    surge: bool

    @property
    def batch(self) -> int:
        return max(int(self.step * (self.replicas or 0)), 1)

    @property
    def stops_answering(self) -> bool:
        """Whether all of its replicas stop before a new one runs, or may do so if their number is unknown."""
        return not self.surge and (self.replicas is None or 0 < self.replicas <= self.batch)


def restart(application: str, deployments: Sequence[DeploymentChange], live: Running) -> Consequence:
    """The restart of `deployments`. live: the running service, with the start-up time of a replica."""
    seconds = live.start_seconds
    if live.unread is not None:
        return _of_unknown(application, deployments, seconds, live.unread)
    running = [one for one in deployments if one.replicas != 0]
    if deployments and not running:
        return Consequence(
            "restart", f"application {application}: there are no running replicas; new ones start with the change"
        )
    parts = [_part(one) for one in running]
    message = f"application {application}: replicas restart on the same Ray cluster"
    message += f": {', '.join(parts)}" if parts else ""
    down = [one for one in running if one.stops_answering]
    if down:
        waits = [one for one in down if one.engine] or ([] if any(one.engine for one in running) else down)
        how_long = f"for about {format_estimate(seconds)}" if seconds and waits else "until the new one is ready"
        names = ", ".join(one.name for one in waits or down)
        verb = "may be unavailable" if all(one.replicas is None for one in waits or down) else "is unavailable"
        return Consequence("restart", f"{message}; {names} {verb} {how_long}", outage=True)
    if not deployments:
        message += "; the file lists none of its deployments: it may be unavailable until new replicas are ready"
        return Consequence("restart", message, outage=True)
    slowest = max((math.ceil((one.replicas or 0) / one.batch) for one in running if one.engine), default=0)
    if slowest and seconds:
        message += f"; the others keep answering, about {format_estimate(slowest * seconds)} in total"
    return Consequence("restart", message)


def _of_unknown(
    application: str, deployments: Sequence[DeploymentChange], seconds: float | None, unread: Unread
) -> Consequence:
    """The restart of an unknown number of replicas: one of each is the worst case."""
    message = f"application {application}: replicas restart on the same Ray cluster"
    names = ", ".join(f"{one.name} (new ones first)" if one.surge else one.name for one in deployments)
    message += f": {names}" if names else ""
    message += f"; how many of them run is unknown: {unread.why}"
    if deployments and all(one.surge for one in deployments):
        return Consequence("restart", message, hints=(unread.hint,))
    engines = any(one.engine for one in deployments)
    how_long = f"for about {format_estimate(seconds)}" if seconds and engines else "until the new one is ready"
    return Consequence(
        "restart", f"{message}; a deployment with one replica is unavailable {how_long}", outage=True,
        hints=(unread.hint,),
    )  # fmt: skip


def _part(one: DeploymentChange) -> str:
    if one.replicas is None:
        return f"{one.name} ({'new ones first' if one.surge else 'number of replicas unknown'})"
    count = f"{one.replicas} replica{'' if one.replicas == 1 else 's'}"
    if one.surge:
        return f"{one.name} ({count}, new ones first)"
    return f"{one.name} ({count}{f', {one.batch} at a time' if one.replicas > 1 else ''})"
