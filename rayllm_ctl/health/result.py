"""From a state and findings to a Health, with what every Health has: the status tree, counts, notes, times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.external import external_addresses
from rayllm_ctl.health.finding import Finding
from rayllm_ctl.health.rules.outage import outage_since
from rayllm_ctl.health.serving import is_serving
from rayllm_ctl.health.statustree import replica_counts, status_tree
from rayllm_ctl.model.observed.health import Health, State, queue_of


def make_health(
    context: ServiceContext,
    state: State,
    message: str,
    findings: Sequence[Finding] = (),
    since: datetime | None = None,
) -> Health:
    """`since` None: that of the first cause, else when a service that does not serve stopped to."""
    since = since or (findings[0].cause.since if findings else None)
    if since is None and state in (State.DEGRADED, State.FAILED, State.STUCK) and not is_serving(context):
        since = outage_since(context) or (context.service.created if context.service else None)
    running, wanted, most, verified = replica_counts(context)
    return Health(
        state=state,
        message=message,
        causes=tuple(one.cause for one in findings),
        tree=status_tree(context),
        notes=notes(context),
        replicas_running=running,
        replicas_wanted=wanted,
        replicas_max=most,
        replicas_verified=verified,
        serve_unread=tuple(one.name for one in (*context.clusters, *context.retired) if one.serve.error),
        endpoints=context.endpoints,
        external=external_addresses(context),
        since=since,
        observed_at=context.now,
        queue=queue_of(context.snapshot.queue),
        downloads=tuple(job.view for job in context.model_jobs) or None,
    )


def notes(context: ServiceContext) -> tuple[str, ...]:
    """What could not be read of what a full answer needs."""
    unread = [f"Serve state could not be read: {cluster.unread}" for cluster in context.clusters if cluster.unread]
    return (*unread, *context.snapshot.notes)
