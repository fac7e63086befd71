"""A service that has served and now lacks every replica of a deployment: why, since when, and what is being done.

Kubernetes, KubeRay and Serve replace what is lost by themselves, so nothing else need be wrong. Serve's status alone
does not tell: of a deleted worker it keeps saying HEALTHY, and KubeRay's Ready stays True while the head's proxy is
up.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.losses import Loss, latest_losses, scaled_down
from rayllm_ctl.health.objects.raycluster import RUNNING, RayCluster
from rayllm_ctl.health.progress import step
from rayllm_ctl.health.serving import has_served
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import format_count
from rayllm_ctl.model.observed.serve_state import Application, Deployment
from rayllm_ctl.model.text.hint import Hint

_RESUBMITTED = timedelta(seconds=120)
"""Time for KubeRay to give a new head its Serve configuration: it takes some seconds once the dashboard answers."""


def outage(context: ServiceContext, cluster: RayCluster) -> Finding | None:
    """What the active cluster lost, if a deployment that had replicas has none, or nothing answers.

    None during a first start, during a rollout or a wake-up, which are meant to be so, and while no operator is there
    to recover it.
    """
    service = context.service
    if service is None or cluster.role != "active" or not has_served(context) or context.operator.running is False:
        return None
    gone = lost_deployments(context, cluster)
    losses = _losses(context, cluster, gone)
    headless = bool(losses) and losses[0].head and not cluster.serve.deployments and not cluster.answers_without_head
    meant = any(
        is_waking(one) or is_rolling_out(context, cluster, app, one)
        for app in cluster.serve.applications
        for one in app.deployments
        if not cluster.running(one)
    )
    unreachable = context.endpoints == 0 and service.ready.get("status") == "False" and not meant
    if not (gone or headless or unreachable):
        return None
    if not losses and any(one.status == "UNHEALTHY" for one in gone):
        return None
    first = losses[0] if losses else None
    since = outage_since(context)
    names = ", ".join(f"{one.app}/{one.name}" for one in gone)
    nothing = "nothing answers" if cluster.serve.error else "no application is running"
    what = f"no replica of {names} is running" if gone else nothing
    evidence = [f"{one.app}/{one.name}: {one.status}, {format_count(0, one.target)} replicas running" for one in gone]
    if unreachable:
        evidence.append(f"service/{context.serve_service}: no ready address")
    subject = f"application/{gone[0].app}" if gone else cluster.subject
    return not_serving(context, cluster, what, subject=subject, loss=first, since=since, evidence=evidence)


def not_serving(
    context: ServiceContext,
    cluster: RayCluster,
    what: str,
    *,
    subject: str,
    loss: Loss | None,
    since: datetime | None,
    evidence: Iterable[str],
) -> Finding:
    """A service that has served and does not now: what is missing, by which loss, since when, what is being done.

    subject: the object that it is about, unless the head was lost.
    """
    now = step(context, cluster)
    head = loss is not None and loss.head
    return finding(
        "HeadDown" if head else "ReplicaUnhealthy",
        cluster.subject if head else subject,
        what + (f": {loss.what}" if loss else "") + f"; now: {now}",
        headline=f"{'the head was replaced' if head else 'not serving'}: {now}",
        evidence=(
            f"since {since:%H:%M:%S} ({context.age(since):.0f} s)" if since else "",
            *evidence,
            loss.evidence if loss else "",
        ),
        hint=(
            Hint(f"rayllm-ctl watch {context.name} -n {context.namespace}"),
            Hint(f"kubectl get pods -n {context.namespace} -l {kuberay.CLUSTER}={cluster.name}"),
        ),
        since=since,
        recovers=True,
    )


def outage_since(context: ServiceContext) -> datetime | None:
    """When a service that has served stopped to: the first of the latest losses, as far as objects and events tell."""
    cluster, service = context.active, context.service
    if cluster is None or service is None or not has_served(context):
        return None
    gone = lost_deployments(context, cluster)
    moments = [loss.moment for loss in _losses(context, cluster, gone)[:1]]
    if service.ready.get("status") == "False":
        moments += _known(fields.when(service.ready, "lastTransitionTime"))
    if not moments:
        moments = [moment for one in gone for replica in one.replicas for moment in _known(replica.started)]
    return min(moments, default=None)


def lost_deployments(context: ServiceContext, cluster: RayCluster) -> list[Deployment]:
    """Deployments that should have a replica and have none, and neither a rollout nor a wake-up is the reason."""
    return [
        one
        for app in cluster.serve.applications
        for one in app.deployments
        if not cluster.running(one)
        and (one.target or one.low or cluster.serve.from_status)
        and not is_waking(one)
        and not is_rolling_out(context, cluster, app, one)
    ]


def is_waking(deployment: Deployment) -> bool:
    """Whether the first replica of a deployment that was scaled to zero is on its way."""
    return deployment.autoscaled and deployment.low == 0 and deployment.trigger == "AUTOSCALING"


def is_rolling_out(context: ServiceContext, cluster: RayCluster, app: Application, deployment: Deployment) -> bool:
    """Whether a changed configuration replaces the deployment's replicas. A new head gets the old one again, soon."""
    if deployment.trigger != "CONFIG_UPDATE_STARTED" or app.deployed is None:
        return False
    main = cluster.head.main if cluster.head else None
    if main is None or main.started is None:
        return False
    return app.deployed > main.started + _RESUBMITTED or _served_from(context, main.started, app.deployed)


def _served_from(context: ServiceContext, started: datetime, deployed: datetime) -> bool:
    """Whether the service answered between the start of its head and the last configuration: that is a change then."""
    ready = context.service.ready if context.service else {}
    changed = fields.when(ready, "lastTransitionTime")
    if changed is None:
        return False
    if ready.get("status") == "True":
        return started <= changed < deployed
    return ready.get("reason") == kuberay.LOST_ADDRESSES and changed >= deployed


def _losses(context: ServiceContext, cluster: RayCluster, gone: list[Deployment]) -> list[Loss]:
    """The latest losses. Those from before a lost replica was even started do not explain its end.

    Neither does a worker that was scaled down, which had none, unless there is nothing else: the autoscaler also ends
    workers with replicas once there are more than the maximum.
    """
    lost = [replica for one in gone for replica in (*one.dead, *(now for now in one.replicas if now.state in RUNNING))]
    floor = max((replica.started for replica in lost if replica.started is not None), default=None)
    surplus = scaled_down(context, cluster)
    losses = latest_losses(context, cluster, floor, surplus)
    live = {pod.name for pod in cluster.live_pods}
    if losses or any(replica.pod in live for replica in lost):
        return losses
    return latest_losses(context, cluster, floor)


def _known(moment: datetime | None) -> list[datetime]:
    return [] if moment is None else [moment]
