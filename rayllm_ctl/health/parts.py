"""The tree of a service's parts: applications with their replicas, head, workers, endpoints."""

from __future__ import annotations

from datetime import datetime

from rayllm_ctl.health import fields
from rayllm_ctl.health.pod import Pod
from rayllm_ctl.health.progress import pod_step, replica_step
from rayllm_ctl.health.raycluster import RayCluster
from rayllm_ctl.health.scene import Scene
from rayllm_ctl.health.serve import Application, Deployment
from rayllm_ctl.model.health import Part


def parts(scene: Scene) -> tuple[Part, ...]:
    """Parts in a stable order. During an upgrade both clusters' parts are there, and each says whose it is."""
    if not scene.clusters:
        return tuple(_pod(scene, pod, "") for pod in scene.pods)
    found: list[Part] = []
    for cluster in scene.clusters:
        mark = f"{cluster.name} ({'new' if cluster.role == 'pending' else 'old'})" if len(scene.clusters) > 1 else ""
        found += [_application(scene, cluster, app, mark) for app in cluster.serve.applications]
        found += [_pod(scene, pod, mark) for pod in cluster.pods]
    count = scene.endpoints
    addresses = f"{count} address{'' if count == 1 else 'es'}" if count else ""
    found.append(Part("endpoint", f"{scene.name}-serve-svc", "Ready" if count else "None", addresses))
    return tuple(found)


def replica_counts(scene: Scene) -> tuple[int, int, int]:
    """Replicas of the model that run, that are wanted now, and that autoscaling may ask for.

    From Serve where it answers; else workers of the RayCluster stand in for replicas.
    """
    cluster = scene.active or scene.pending
    if cluster is None:
        return 0, 0, 0
    models = cluster.models
    if models and not cluster.serve.from_status:
        running = sum(cluster.running(one) for one in models)
        return running, sum(one.target for one in models), sum(max(one.high, one.target) for one in models)
    groups = cluster.spec.groups
    ready = sum(pod.ready for pod in cluster.workers)
    return ready, cluster.workers_wanted, sum(min(group.high, 10**6) * group.hosts for group in groups)


def _application(scene: Scene, cluster: RayCluster, app: Application, mark: str) -> Part:
    children = tuple(
        part for deployment in app.deployments for part in _replicas(scene, deployment)
    )  # fmt: skip
    counted = [
        f"{one.name} {cluster.running(one)} of {one.target}" for one in app.deployments if not cluster.serve.from_status
    ]
    return Part(
        "application",
        app.name,
        app.status or "NOT_STARTED",
        " · ".join([*counted, *([mark] if mark else [])]),
        children,
    )


def _replicas(scene: Scene, deployment: Deployment) -> list[Part]:
    found = []
    for replica in sorted(deployment.replicas, key=lambda one: (one.started or scene.now, one.id)):
        state, detail = replica_step(scene, deployment, replica)
        found.append(Part("replica", f"{deployment.name}#{replica.id}", state, detail, since=replica.started))
    return found


def _pod(scene: Scene, pod: Pod, mark: str) -> Part:
    state, detail = pod_step(scene, pod)
    return Part(pod.role, pod.name, state, " · ".join(filter(None, (detail, mark))), since=_since(pod))


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
