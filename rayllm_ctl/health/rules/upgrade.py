"""A second cluster that cannot come up while the first one serves."""

from __future__ import annotations

from rayllm_ctl.health import fields, rayservice
from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.events import ONGOING
from rayllm_ctl.health.exceptions import one_line
from rayllm_ctl.health.finding import Finding, finding

RESOURCES = frozenset(
    {
        "InsufficientGPU",
        "InsufficientResources",
        "UntoleratedTaint",
        "NodeSelectorMismatch",
        "SchedulingGated",
        "QuotaExceeded",
    }
)
"""Causes of a cluster that waits for what the old one may be holding."""


def no_gateway(context: ServiceContext) -> Finding | None:
    """An incremental upgrade shifts traffic by a Gateway, which the operator cannot make."""
    if context.service is None or not context.service.upgrading:
        return None
    event = context.events.last(rayservice.KIND, context.name, "FailedToCreateGateway", "FailedToCreateHTTPRoute")
    if event is None or context.age(event.last) > ONGOING:
        return None
    return finding(
        "UpgradeBlocked",
        context.service.subject,
        f"the incremental upgrade cannot shift traffic: {one_line(event.message, 300)}",
        headline="the upgrade has no gateway",
        evidence=(event.quoted()[:500],),
        hint=("kubectl get gatewayclass", "kubectl get crd gateways.gateway.networking.k8s.io"),
        since=event.first,
    )


def upgrade_blocked(context: ServiceContext, findings: tuple[Finding, ...]) -> Finding | None:
    """`findings` are those of the pending cluster: an upgrade to a new cluster needs the resources of both."""
    active, pending = context.active, context.pending
    if active is None or pending is None:
        return None
    under = next((one for one in findings if one.cause.code in RESOURCES), None)
    if under is None or context.service is None:
        return None
    condition = fields.condition(context.service.item, "UpgradeInProgress")
    return finding(
        "UpgradeBlocked",
        pending.subject,
        f"the new cluster {pending.name} cannot start while {active.name} holds its resources: {under.cause.message}",
        headline=f"the upgrade waits: {under.headline}",
        evidence=(
            f"{context.service.subject}: UpgradeInProgress {fields.text(condition, 'reason')}",
            *under.cause.evidence[-1:],
        ),
        hint=(
            "rayllm-ctl deploy … --max-replicas N   (fewer replicas meanwhile free capacity for the new cluster)",
            f"kubectl patch rayservice {context.name} -n {context.namespace} --type merge "
            '-p \'{"spec":{"upgradeStrategy":{"type":"None"}}}\'   (give up the upgrade to a new cluster)',
        ),
        since=under.cause.since,
    )
