"""The status tree of a service: applications with their replicas, head, workers, endpoint."""

from __future__ import annotations

from datetime import datetime

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.objects.cluster_spec import suspended
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.objects.raycluster import RUNNING, RayCluster
from rayllm_ctl.health.progress import pod_step, replica_step, server_step
from rayllm_ctl.health.serving import replica_since
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import StatusNode, format_count
from rayllm_ctl.model.observed.serve_state import Application, Deployment

_ROLES = {"active": "Active", "pending": "Pending", "retired": "Removing"}
"""What a RayCluster is to its service, as the state of its node: it serves, is to serve, or is about to be removed."""


def status_tree(context: ServiceContext) -> tuple[StatusNode, ...]:
    """The nodes in a stable order. A node per RayCluster holds the rest while there is more than one."""
    downloads = download_nodes(context)
    if context.service is None:
        return (*downloads, *(pod_node(context, pod) for pod in context.pods))
    clusters = (*context.clusters, *context.retired)
    nodes = [(cluster, _cluster_nodes(context, cluster)) for cluster in clusters]
    if len(nodes) > 1:
        found = [
            StatusNode(
                "cluster",
                cluster.name,
                _ROLES[cluster.role],
                children=children,
                since=fields.created(cluster.item or {}) if cluster.role == "pending" else None,
                cluster=cluster.name,
            )
            for cluster, children in nodes
        ]
    else:
        found = [child for _, children in nodes for child in children]
    count = context.endpoints
    addresses = f"{count} address{'' if count == 1 else 'es'}" if count else ""
    endpoint = StatusNode("endpoint", context.serve_service, "Ready" if count else "None", addresses)
    return (*downloads, *found, endpoint) if nodes else downloads


def download_nodes(context: ServiceContext) -> tuple[StatusNode, ...]:
    """A node for each model that is not complete."""
    return tuple(
        StatusNode("download", job.name, job.view.state.value, job.model, since=job.created)
        for job in context.model_jobs
        if not job.complete
    )


def replica_counts(context: ServiceContext) -> tuple[int, int, int, bool]:
    """Replicas of the model that run, that are wanted now, and that autoscaling may ask for; whether Serve says so.

    Before Serve has answered, none runs, and what is wanted stands in the configuration. Where Serve of a cluster that
    has served cannot be read, ready workers of the RayCluster stand in for replicas.
    """
    cluster = context.active or context.pending
    if cluster is None:
        return 0, 0, 0, not context.pods_unread
    read = not context.pods_unread
    if not cluster.by_serve:
        wanted = cluster.servers_wanted
        return len(cluster.ready_servers), wanted, wanted, read
    models = cluster.models
    if models and not cluster.serve.from_status:
        running = sum(cluster.running(one) for one in models)
        return running, sum(one.target for one in models), sum(max(one.high, one.target) for one in models), read
    groups = cluster.spec.groups
    wanted, most = context.replicas_asked or (
        sum(group.wanted for group in groups), sum(min(group.high, 10**6) for group in groups)
    )  # fmt: skip
    if suspended(cluster.item or {}) and not cluster.pods:
        return 0, 0, most, read
    if cluster.role != "active":
        return 0, wanted, most, read
    ready = sum(pod.ready for pod in cluster.workers)
    return ready, max(ready, cluster.workers_wanted), most, cluster.verified and read


def _cluster_nodes(context: ServiceContext, cluster: RayCluster) -> tuple[StatusNode, ...]:
    # KubeRay leaves in its status what Serve said before a RayCluster was suspended.
    known = () if suspended(cluster.item or {}) and not cluster.pods else cluster.serve.applications
    applications = (_application(context, cluster, app) for app in known)
    return (*applications, *(pod_node(context, pod) for pod in cluster.pods))


def _application(context: ServiceContext, cluster: RayCluster, app: Application) -> StatusNode:
    counted = [
        f"{one.name} {format_count(cluster.running(one), one.target)}"
        for one in app.deployments
        if not cluster.serve.from_status
    ]
    return StatusNode(
        "application",
        app.name,
        app.status or "NOT_STARTED",
        " · ".join(counted),
        tuple(node for deployment in app.deployments for node in _replicas(context, cluster, deployment)),
        cluster=cluster.name,
    )


def _replicas(context: ServiceContext, cluster: RayCluster, deployment: Deployment) -> list[StatusNode]:
    found = []
    for replica in sorted(deployment.replicas, key=lambda one: (one.started or context.now, one.id)):
        state, detail = replica_step(context, cluster, deployment, replica)
        name = f"{deployment.name}#{replica.id}"
        since = replica_since(cluster, replica) if replica.state in RUNNING else replica.started
        found.append(StatusNode("replica", name, state, detail, since=since, cluster=cluster.name))
    return found


def pod_node(context: ServiceContext, pod: Pod) -> StatusNode:
    """A pod with what it does."""
    state, detail = (pod_step if context.by_serve else server_step)(context, pod)
    return StatusNode(pod.role, pod.name, state, detail, since=stage_since(pod), cluster=pod.cluster)


def stage_since(pod: Pod) -> datetime | None:
    """When the pod's present stage began, as far as its conditions tell."""
    if pod.deleted is not None:
        return None
    if pod.phase in ("Failed", "Succeeded"):
        return pod.main.ended.finished if pod.main is not None and pod.main.ended is not None else None
    if not pod.node:
        return fields.when(pod.condition("PodScheduled"), "lastTransitionTime") or pod.created
    main = pod.main
    if main is not None and main.started is not None:
        # A head is Starting until it is Ready.
        ready = fields.when(pod.condition("Ready"), "lastTransitionTime") if pod.head and pod.ready else None
        return max(main.started, ready) if ready is not None else main.started
    return fields.when(pod.condition("Initialized"), "lastTransitionTime") or pod.created
