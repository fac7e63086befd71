"""A second cluster that cannot come up while the first one serves."""

from __future__ import annotations

from collections.abc import Sequence

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects import rayservice
from rayllm_ctl.health.objects.events import ONGOING
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.objects.quantity import show
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.rules.scheduling.placement import accelerators, holdings
from rayllm_ctl.health.sentences.exceptions import one_line
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint

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

_ROLES = {"active": "serving", "pending": "new", "retired": "old"}
_LINES = 6
"""Pods that are listed one by one."""


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
        hint=(Hint("kubectl get gatewayclass"), Hint("kubectl get crd gateways.gateway.networking.k8s.io")),
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
    waiting = [pod for pod in pending.pods if not pod.node and pod.alive]
    wanted = sorted({name for pod in waiting for name in accelerators(pod)})
    held = holdings(context, pending.name, wanted)
    clusters = {cluster.name: cluster for cluster in (*context.clusters, *context.retired)}
    told = [_held(clusters.get(name), name, pods, wanted) for name, pods in held.items()]
    why = f" while {' and '.join(told)}" if told else ""
    return finding(
        "UpgradeBlocked",
        pending.subject,
        f"the new cluster {pending.name} cannot start{why}: {under.cause.message}",
        headline=f"the upgrade waits: {under.headline}",
        evidence=(
            f"{context.service.subject}: UpgradeInProgress {fields.text(condition, 'reason')}",
            *(f"raycluster/{name}: {_where(pods, wanted)}" for name, pods in held.items()),
            *under.cause.evidence[-1:],
        ),
        hint=(
            Hint("rayllm-ctl deploy … --max-replicas N", "fewer replicas meanwhile free capacity for the new cluster"),
            Hint(
                f"kubectl patch rayservice {context.name} -n {context.namespace} --type merge "
                '-p \'{"spec":{"upgradeStrategy":{"type":"None"}}}\'',
                "give up the upgrade to a new cluster",
            ),
        ),
        since=under.cause.since,
    )


def _held(cluster: RayCluster | None, name: str, pods: Sequence[Pod], resources: Sequence[str]) -> str:
    """What a RayCluster holds of the resources that another one lacks, and how much of it serves nothing."""
    role = f"{_ROLES[cluster.role]} cluster {name}" if cluster is not None else f"cluster {name}"
    text = f"the {role} holds {_amounts(pods, resources)}"
    if cluster is None or cluster.serve.error or cluster.serve.from_status or not cluster.serve.deployments:
        return text
    used = {replica.pod for one in cluster.serve.deployments for replica in one.replicas}
    idle = [pod for pod in pods if pod.name not in used and not pod.head]
    return f"{text}, {_amounts(idle, resources)} of it on workers without a replica" if idle else text


def _amounts(pods: Sequence[Pod], resources: Sequence[str]) -> str:
    sums = {name: sum(pod.requests.get(name, 0.0) for pod in pods) for name in resources}
    return ", ".join(f"{show(name, amount)} {name}" for name, amount in sums.items() if amount)


def _where(pods: Sequence[Pod], resources: Sequence[str]) -> str:
    return ", ".join(f"{pod.name} holds {_amounts([pod], resources)} on {pod.node}" for pod in pods[:_LINES])
