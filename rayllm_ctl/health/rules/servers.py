"""vLLM's own servers: why one ends, and what was lost when none takes requests any more.

Kubernetes and KubeRay restart what is lost, so nothing else need be wrong.
"""

from __future__ import annotations

from datetime import datetime

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.losses import latest_losses
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.rules.applications import HEADLINES, failure_hints, is_definite
from rayllm_ctl.health.rules.outage import not_serving
from rayllm_ctl.health.sentences.exceptions import one_line, read_exceptions, reason
from rayllm_ctl.health.serving import has_served
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed import fields


def server_failed(context: ServiceContext, pod: Pod) -> Finding | None:
    """The engine's own reason for the end of a server, where its log has one."""
    main, cluster = pod.main, context.cluster_of(pod)
    ended = (main.ended or main.last_ended) if main is not None else None
    if main is None or cluster is None or pod.ready or pod.group != kuberay.SERVERS or ended is None or not ended.code:
        return None
    failure = read_exceptions(context.container_log(pod.name, main.name))
    if failure is None or failure.code == "ApplicationFailed":
        return None
    return finding(
        failure.code,
        pod.subject,
        f"vLLM's server in {pod.subject} ended: {one_line(reason(failure.text), 320)}",
        headline=HEADLINES[failure.code],
        evidence=(
            f"{pod.subject}: {main.name} ended with exit code {ended.code}, {main.restarts} restarts",
            failure.text,
        ),
        hint=failure_hints(context, cluster, failure.code, failure, pod),
        terminal=is_definite(failure) and not has_served(context),
        since=ended.finished or pod.created,
        key=(cluster.name, failure.code, failure.text),
    )


def servers_lost(context: ServiceContext, cluster: RayCluster) -> Finding | None:
    """No server of a service that has served takes requests: what was lost, since when, and what is being done."""
    if not has_served(context) or context.endpoints or context.operator.running is False:
        return None
    if cluster.unseen and not context.slices:
        return None  # neither can be read
    losses = latest_losses(context, cluster)
    first = losses[0] if losses else None
    since = first.moment if first else _unready_since(cluster)
    return not_serving(
        context,
        cluster,
        f"no server of {context.name} takes requests",
        subject=cluster.subject,
        loss=first,
        since=since,
        evidence=[f"service/{context.serve_service}: no ready address"],
    )


def _unready_since(cluster: RayCluster) -> datetime | None:
    moments = [fields.when(pod.condition("Ready"), "lastTransitionTime") or pod.created for pod in cluster.servers]
    return max((moment for moment in moments if moment is not None), default=None)
