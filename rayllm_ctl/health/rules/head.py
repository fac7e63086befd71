"""The head of a cluster that served, when it is missing or starts anew and nothing else says why."""

from __future__ import annotations

from rayllm_ctl.health import fields
from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.raycluster import RayCluster
from rayllm_ctl.health.rules.probes import START

REPLACED = 20.0
"""Seconds by which a head pod is younger than its cluster if it is not the cluster's first."""


def head_down(context: ServiceContext, cluster: RayCluster) -> Finding | None:
    """The head of a cluster that served is missing or starts again: without GCS fault tolerance requests fail then."""
    if cluster.role != "active" and not cluster.provisioned:
        return None
    head = cluster.head
    if head is not None and (head.ready or not _head_lost(context, cluster)):
        return None
    if head is None and not cluster.pods and cluster.item is None:
        return None
    gone = "there is no head pod" if head is None else f"{head.subject} is new or restarted and not ready yet"
    moment = head.created if head else None
    ago = f", {context.age(moment):.0f} s old" if moment else ""
    return finding(
        "HeadDown",
        head.subject if head else cluster.subject,
        f"the head of {cluster.name} is down: {gone}{ago}; requests fail until Ray and Serve are back",
        headline="the head is down",
        evidence=(f"{head.subject}: phase {head.phase}, not ready" if head else f"{cluster.subject}: no live head pod",
                  f"Serve: {cluster.serve.error}" if cluster.serve.error else ""),
        hint=(f"kubectl get pods -n {context.namespace} -l ray.io/cluster={cluster.name}",
              f"rayllm-ctl watch {context.name} -n {context.namespace}"),
        since=moment,
        recovers=moment is None or context.age(moment) <= START,
    )  # fmt: skip


def _head_lost(context: ServiceContext, cluster: RayCluster) -> bool:
    head = cluster.head
    if head is None or head.main is None:
        return True
    # One failed probe of a busy head is no outage: only a head that starts anew, or a long silence, is.
    if head.main.state != "running" or context.age(fields.when(head.condition("Ready"), "lastTransitionTime")) > START:
        return True
    if head.main.restarts > 0 and context.age(head.main.started) <= START:
        return True
    made = context.age(fields.created(cluster.item or {})) - context.age(head.created) if head.created else 0.0
    return made > REPLACED and context.age(head.created) <= START
