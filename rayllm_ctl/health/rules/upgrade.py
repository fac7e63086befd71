"""A second cluster that cannot come up while the first one serves."""

from __future__ import annotations

from rayllm_ctl.health import fields
from rayllm_ctl.health.events import ONGOING
from rayllm_ctl.health.exceptions import one_line
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.scene import Scene

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


def no_gateway(scene: Scene) -> Finding | None:
    """An incremental upgrade shifts traffic by a Gateway, which the operator cannot make."""
    if scene.service is None or not scene.service.upgrading:
        return None
    event = scene.events.last("RayService", scene.name, "FailedToCreateGateway", "FailedToCreateHTTPRoute")
    if event is None or scene.age(event.last) > ONGOING:
        return None
    return finding(
        "UpgradeBlocked",
        scene.service.subject,
        f"the incremental upgrade cannot shift traffic: {one_line(event.message, 300)}",
        headline="the upgrade has no gateway",
        evidence=(event.quoted()[:500],),
        hint=("kubectl get gatewayclass", "kubectl get crd gateways.gateway.networking.k8s.io"),
        since=event.first,
    )


def upgrade_blocked(scene: Scene, findings: tuple[Finding, ...]) -> Finding | None:
    """`findings` are those of the pending cluster: an upgrade to a new cluster needs the resources of both."""
    active, pending = scene.active, scene.pending
    if active is None or pending is None:
        return None
    under = next((one for one in findings if one.cause.code in RESOURCES), None)
    if under is None or scene.service is None:
        return None
    condition = fields.condition(scene.service.item, "UpgradeInProgress")
    return finding(
        "UpgradeBlocked",
        pending.subject,
        f"the new cluster {pending.name} cannot start while {active.name} holds its resources: {under.cause.message}",
        headline=f"the upgrade waits: {under.headline}",
        evidence=(
            f"{scene.service.subject}: UpgradeInProgress {fields.text(condition, 'reason')}",
            *under.cause.evidence[-1:],
        ),
        hint=(
            "rayllm-ctl deploy … --max-replicas N   (fewer replicas meanwhile make room for the new cluster)",
            f"kubectl patch rayservice {scene.name} -n {scene.namespace} --type merge "
            '-p \'{"spec":{"upgradeStrategy":{"type":"None"}}}\'   (give up the upgrade to a new cluster)',
        ),
        since=under.cause.since,
    )
