"""The tree of a service's parts: applications with their replicas, head, workers, endpoints."""

from __future__ import annotations

from datetime import datetime

from rayllm_ctl.health import fields
from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.pod import Pod
from rayllm_ctl.health.progress import pod_step, replica_step
from rayllm_ctl.health.raycluster import RayCluster
from rayllm_ctl.health.serve import Application, Deployment
from rayllm_ctl.model.health import StatusNode


def parts(context: ServiceContext) -> tuple[StatusNode, ...]:
    """Parts in a stable order. During an upgrade both clusters' parts are there, and each says whose it is."""
    if not context.clusters:
        return tuple(_pod(context, pod, "") for pod in context.pods)
    found: list[StatusNode] = []
    for cluster in context.clusters:
        mark = f"{cluster.name} ({'new' if cluster.role == 'pending' else 'old'})" if len(context.clusters) > 1 else ""
        found += [_application(context, cluster, app, mark) for app in cluster.serve.applications]
        found += [_pod(context, pod, mark) for pod in cluster.pods]
    count = context.endpoints
    addresses = f"{count} address{'' if count == 1 else 'es'}" if count else ""
    found.append(StatusNode("endpoint", f"{context.name}-serve-svc", "Ready" if count else "None", addresses))
    return tuple(found)


def replica_counts(context: ServiceContext) -> tuple[int, int, int]:
    """Replicas of the model that run, that are wanted now, and that autoscaling may ask for.

    From Serve where it answers; else workers of the RayCluster stand in for replicas.
    """
    cluster = context.active or context.pending
    if cluster is None:
        return 0, 0, 0
    models = cluster.models
    if models and not cluster.serve.from_status:
        running = sum(cluster.running(one) for one in models)
        return running, sum(one.target for one in models), sum(max(one.high, one.target) for one in models)
    groups = cluster.spec.groups
    ready = sum(pod.ready for pod in cluster.workers)
    return ready, cluster.workers_wanted, sum(min(group.high, 10**6) * group.hosts for group in groups)


def _application(context: ServiceContext, cluster: RayCluster, app: Application, mark: str) -> StatusNode:
    children = tuple(
        part for deployment in app.deployments for part in _replicas(context, deployment)
    )  # fmt: skip
    counted = [
        f"{one.name} {cluster.running(one)} of {one.target}" for one in app.deployments if not cluster.serve.from_status
    ]
    return StatusNode(
        "application",
        app.name,
        app.status or "NOT_STARTED",
        " · ".join([*counted, *([mark] if mark else [])]),
        children,
    )


def _replicas(context: ServiceContext, deployment: Deployment) -> list[StatusNode]:
    found = []
    for replica in sorted(deployment.replicas, key=lambda one: (one.started or context.now, one.id)):
        state, detail = replica_step(context, deployment, replica)
        found.append(StatusNode("replica", f"{deployment.name}#{replica.id}", state, detail, since=replica.started))
    return found


def _pod(context: ServiceContext, pod: Pod, mark: str) -> StatusNode:
    state, detail = pod_step(context, pod)
    return StatusNode(pod.role, pod.name, state, " · ".join(filter(None, (detail, mark))), since=_since(pod))


def _since(pod: Pod) -> datetime | None:
    """When the pod's present stage began, as far as its conditions tell."""
    if pod.deleted is not None:
        return None
    if not pod.node:
        return fields.when(pod.condition("PodScheduled"), "lastTransitionTime") or pod.created
    main = pod.main
    if main is not None and main.started is not None:
        return main.started
    return fields.when(pod.condition("Initialized"), "lastTransitionTime") or pod.created
