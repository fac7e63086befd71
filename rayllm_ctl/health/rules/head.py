"""The head of a cluster: a second one, and the head of a cluster that served, when it is missing or starts again and
nothing else says why."""

from __future__ import annotations

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.losses import latest_losses
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.progress import step
from rayllm_ctl.health.rules.probes import START
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint

_REPLACED = 20.0
"""Seconds by which a head pod is younger than its cluster if it is not the cluster's first."""


def second_head(context: ServiceContext, cluster: RayCluster) -> Finding | None:
    """KubeRay reconciles no RayCluster with two head pods. It makes two itself where its cache lacks the first one
    (reconcilePods of 1.6.2 lists the pods before it waits for its own changes to arrive)."""
    heads = [pod for pod in cluster.live_pods if pod.head]
    if len(heads) < 2:
        return None
    kept, *extra = sorted(heads, key=lambda pod: (not pod.ready, pod.created.timestamp() if pod.created else 0.0))
    names = " and ".join(pod.name for pod in (kept, *extra))
    return finding(
        "OperatorNotReconciling",
        cluster.subject,
        f"{cluster.name} has {len(heads)} head pods, {names}; until one is left KubeRay changes and replaces nothing",
        headline=f"KubeRay does not reconcile {cluster.name}: it has {len(heads)} head pods",
        evidence=tuple(f"{pod.subject}: {'ready' if pod.ready else 'not ready'}" for pod in (kept, *extra)),
        hint=(Hint(f"kubectl delete pod {' '.join(pod.name for pod in extra)} -n {context.namespace}"),),
        since=max((pod.created for pod in heads if pod.created), default=None),
    )


def head_down(context: ServiceContext, cluster: RayCluster) -> Finding | None:
    """The head of a cluster that served is missing or starts again: without GCS fault tolerance requests fail then,
    with it Ray starts and replaces nothing."""
    if cluster.role != "active" and not cluster.provisioned:
        return None
    head = cluster.head
    if head is not None and (head.ready or not _head_lost(context, cluster)):
        return None
    if head is None and not cluster.pods and (cluster.item is None or cluster.unseen):
        return None  # its cluster is gone as well, or pods cannot be read
    losses = [loss for loss in latest_losses(context, cluster) if loss.head]
    since = losses[0].moment if losses else head.created if head else None
    leaving = next((pod for pod in cluster.pods if pod.head and pod.deleted is not None), None)
    if head is not None:
        what = f"{head.subject} is new or restarted and not ready yet"
        now = step(context, cluster)
    else:
        now = f"{leaving.subject} is being deleted" if leaving else "there is no head pod"
        what = f"{now}; KubeRay then creates another" if leaving else f"{now}; KubeRay creates one"
    back = "Ray and Serve are" if context.by_serve else "Ray is"
    serves = cluster.answers_without_head
    meanwhile = "the workers keep serving, but no replica is started" if serves else "requests may fail"
    return finding(
        "HeadDown",
        head.subject if head else cluster.subject,
        f"the head of {cluster.name} is down: {what}; {meanwhile} until {back} back",
        headline=f"{'serving; ' if serves else ''}the head is down: {now}",
        evidence=(f"{head.subject}: phase {head.phase}, not ready" if head else f"{cluster.subject}: no live head pod",
                  losses[0].evidence if losses else "",
                  f"since {since:%H:%M:%S} ({context.age(since):.0f} s)" if since else "",
                  f"Serve: {cluster.serve.error}" if cluster.serve.error else ""),
        hint=(Hint(f"kubectl get pods -n {context.namespace} -l {kuberay.CLUSTER}={cluster.name}"),
              Hint(f"rayllm-ctl watch {context.name} -n {context.namespace}")),
        since=since,
        recovers=since is None or context.age(since) <= START,
    )  # fmt: skip


def _head_lost(context: ServiceContext, cluster: RayCluster) -> bool:
    head = cluster.head
    if head is None or head.main is None:
        return True
    # One failed probe of a busy head is not an outage: only a head that starts again, or a long silence, is.
    if head.main.state != "running" or context.age(fields.when(head.condition("Ready"), "lastTransitionTime")) > START:
        return True
    if head.main.restarts > 0 and context.age(head.main.started) <= START:
        return True
    created = fields.created(cluster.item or {})
    if created is None or head.created is None:
        return False
    made = context.age(created) - context.age(head.created)
    return made > _REPLACED and context.age(head.created) <= START
