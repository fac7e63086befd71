"""The Health of a service in which nothing is wrong: it serves, is on its way, or too little is known of it."""

from __future__ import annotations

from datetime import datetime

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import finding
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.progress import step
from rayllm_ctl.health.result import make_health, notes
from rayllm_ctl.health.rules.outage import is_rolling_out, is_waking, outage_since
from rayllm_ctl.health.rules.overdue import repeated_warnings
from rayllm_ctl.health.rules.probes import replicas_since, unready_workers
from rayllm_ctl.health.rules.service import lowering
from rayllm_ctl.health.serving import has_served, is_serving, serving_since
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Health, State
from rayllm_ctl.model.text.hint import Hint

_YOUNG = 120.0
"""Seconds in which a service may have nothing to show but its own object."""


def normal_health(context: ServiceContext) -> Health:
    """Nothing is wrong: ready, on its way, or not enough is known."""
    service = context.service
    assert service is not None
    active = context.active
    if active is not None and is_serving(context):
        return _serving_well(context, active)
    if not context.clusters:
        if context.age(service.created) < _YOUNG:
            return _progressing(context, "waiting for the KubeRay operator to create the RayCluster", service.created)
        return _unknown(context, "no RayCluster of the service can be seen")
    if active is not None and has_served(context):
        return _interrupted(context, active)
    newest = context.clusters[-1]
    if not newest.pods and newest.serve.error and context.age(service.created) > _YOUNG:
        return _unknown(context, "neither its pods nor Serve can be seen")
    return _progressing(context, step(context, newest), service.created)


def normal_servers(context: ServiceContext) -> Health:
    """The same for vLLM's own servers on a RayCluster."""
    service, clusters = context.service, context.clusters
    assert service is not None
    cluster = clusters[0]
    if is_serving(context) and context.changed:
        return _progressing(context, "serving; a change is waiting for the KubeRay operator", None)
    if is_serving(context) and cluster.complete:
        return make_health(context, State.READY, "serving", since=serving_since(context))
    if is_serving(context):
        return _progressing(context, f"serving; {step(context, cluster)}", None)
    if not cluster.pods and context.age(service.created) < _YOUNG:
        return _progressing(context, "waiting for the KubeRay operator to create the pods", service.created)
    if not cluster.pods:
        return _unknown(context, "no pod of the RayCluster can be seen")
    return _progressing(context, step(context, cluster), service.created)


def unverified_health(context: ServiceContext) -> Health:
    """The pods of a service cannot be read: what Serve says of replicas is minutes old where their node is gone."""
    running = [one.name for cluster in context.clusters for one in cluster.models if cluster.running(one)]
    said = f"Serve reports replicas of {', '.join(running)}; whether" if running else "whether"
    return _unknown(context, f"{said} its pods run is unknown")


def unread_health(context: ServiceContext) -> Health:
    """The object that a service is cannot be read: what is left without it does not tell whether it exists."""
    return _unknown(context, f"whether there is a {context.kind} {context.name} is unknown: it could not be read")


def _serving_well(context: ServiceContext, active: RayCluster) -> Health:
    service = context.service
    assert service is not None
    if context.pending is not None:
        condition = fields.condition(service.item, "UpgradeInProgress")
        since = fields.when(condition, "lastTransitionTime") if condition.get("status") == "True" else None
        back = fields.condition(service.item, "RollbackInProgress")
        if back.get("status") == "True":
            return _rolling_back(context, active, fields.when(back, "lastTransitionTime"))
        return _progressing(context, f"serving; an upgrade is in progress: {step(context, context.pending)}", since)
    if context.changed:
        return _progressing(context, "serving; a change is waiting for the KubeRay operator", None)
    if active.unread and not (active.head and active.head.ready):
        return _progressing(context, f"serving; {step(context, active)}", None)
    starting = [replica for one in active.serve.deployments for replica in one.replicas if replica.state == "STARTING"]
    if starting or not active.complete:
        starts = [replica.started for replica in starting if replica.started is not None]
        return _progressing(context, f"serving; {step(context, active)}", min(starts, default=None))
    coming = [pod for pod in active.workers if not pod.up]
    if coming:
        since = min((pod.created for pod in coming if pod.created is not None), default=None)
        return _progressing(context, f"serving; more workers are starting: {step(context, active)}", since)
    unready = unready_workers(context, active)
    if unready:
        names = ", ".join(pod.subject for pod in unready[:3])
        message = f"serving through the head only; not ready yet: {names}"
        moments = [fields.when(service.ready, "lastTransitionTime"), *(replicas_since(active, pod) for pod in unready)]
        return _progressing(context, message, max((one for one in moments if one is not None), default=None))
    lower = lowering(context)
    if lower:
        return make_health(context, State.PROGRESSING, f"serving; scaling down: {lower}")
    return _ready(context, active)


def _rolling_back(context: ServiceContext, active: RayCluster, since: datetime | None) -> Health:
    """An upgrade whose goal changed: KubeRay leads all traffic back to the cluster that it was to replace."""
    assert context.service is not None
    status = fields.mapping(context.service.item, "status", "activeServiceStatus")
    share = fields.number(status, "trafficRoutedPercent")
    routed = f"; {share:.0f}% of the traffic is there" if share is not None else ""
    name = context.pending.name if context.pending else "the new one"
    message = f"serving; the upgrade is rolled back: from {name} to {active.name}{routed}"
    return _progressing(context, message, since)


def _interrupted(context: ServiceContext, active: RayCluster) -> Health:
    """Nothing is wrong with a service that served and does not now: its replicas are being replaced, or are waking."""
    if not active.serve.applications and active.serve.error:
        return _unknown(context, "whether it serves is unknown")
    if active.serving:
        message = f"running; waiting for an address of service/{context.serve_service}"
        return _progressing(context, message, None)
    apps = [(app, one) for app in active.serve.applications for one in app.deployments if not active.running(one)]
    if any(is_rolling_out(context, active, app, one) for app, one in apps):
        since = max((app.deployed for app, _ in apps if app.deployed is not None), default=None)
        return _progressing(context, f"not serving while a change is rolled out: {step(context, active)}", since)
    if any(is_waking(one) for _, one in apps):
        starts = [replica.started for _, one in apps for replica in one.replicas if replica.started is not None]
        message = f"scaling up from zero: {step(context, active)}"
        return _progressing(context, message, min(starts, default=None))
    return _progressing(context, step(context, active), outage_since(context))


def _unknown(context: ServiceContext, message: str) -> Health:
    """Too little is known; what could not be read is the likely reason."""
    return make_health(context, State.UNKNOWN, "; ".join([message, *notes(context)[:2]]))


def _ready(context: ServiceContext, cluster: RayCluster) -> Health:
    since = serving_since(context)
    unverified = ["replicas"] if cluster.unread else []
    if context.unread(kuberay.RAY_CLUSTER):
        unverified.append("the bounds of the RayCluster")
    if unverified:
        message = f"serving; {' and '.join(unverified)} were not verified"
        return make_health(context, State.READY, message, since=since)
    asleep = [one for one in cluster.models if one.target == 0 and one.autoscaled]
    if not asleep:
        return make_health(context, State.READY, "serving", since=since)
    names = ", ".join(f"{one.app}/{one.name}" for one in asleep)
    headline = "scaled to zero: the first request starts a replica"
    if len(asleep) < len(cluster.models):
        headline = f"serving; scaled to zero: {', '.join(one.app for one in asleep)}"
    service = f"{context.name} -n {context.namespace}"
    several = " --model MODEL" if len(cluster.models) > 1 else ""
    note = finding(
        "ScaledToZero",
        f"application/{asleep[0].app}",
        f"{names} has no replica now; the first request starts one",
        headline=headline,
        evidence=tuple(f"{one.app}/{one.name}: {one.status}, target 0, min_replicas {one.low}" for one in asleep),
        hint=(Hint(f"rayllm-ctl chat {service}", "starts a replica"),
              Hint(f"rayllm-ctl scale {service}{several} --min-replicas 1", "keeps one running")),
    )  # fmt: skip
    return make_health(context, State.READY, note.headline, [note], since)


def _progressing(context: ServiceContext, message: str, since: datetime | None) -> Health:
    pods = [pod for cluster in context.clusters[-1:] for pod in cluster.live_pods if not pod.up or not pod.ready]
    warnings = [event.quoted()[:500] for event in repeated_warnings(context, pods)[-2:]]
    note = finding(
        "StillStarting",
        context.service.subject if context.service else context.name,
        message,
        headline=message,
        evidence=(f"in progress for {context.age(since):.0f} s" if since else message, *warnings),
        hint=(Hint(f"rayllm-ctl watch {context.name} -n {context.namespace}"),),
        since=since,
    )
    return make_health(context, State.PROGRESSING, message, [note])
