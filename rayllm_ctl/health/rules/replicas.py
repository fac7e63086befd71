"""Replicas that Ray cannot place or keep: what is left when no pod and no exception explains it."""

from __future__ import annotations

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.ray_resources import (
    TYPE,
    accelerator_types,
    fits_group,
    fits_somewhere,
    format_resources,
    is_product,
    overflow,
    workers_of,
)
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.sentences.exceptions import one_line, read_exceptions
from rayllm_ctl.model.observed.serve_state import Deployment, Replica
from rayllm_ctl.model.text.hint import Hint

PATIENCE = 30.0
"""Seconds that a replica may look for a place: what Serve itself waits before it warns."""

_SCALING = 90.0
"""Seconds for Ray's autoscaler to ask for a worker: it looks every 5 s, and a busy head is slow."""

_STARTING = 90.0
"""Seconds for a replica's process to answer, which imports vLLM first. Until it does, Serve names no node and says
"to be scheduled" (serve/_private/replica.py and deployment_state.py of Ray 2.60)."""

_SETTLED = 30.0
"""Seconds that a worker's container runs before its resources must have reached Ray."""


def unschedulable_replica(context: ServiceContext, cluster: RayCluster) -> Finding | None:
    """A replica without a place in Ray, though all pods wanted are there: no group is large enough or may grow."""
    waiting = [one for one in cluster.serve.deployments if _waiting(one)]
    if not waiting or _pods_on_their_way(cluster):
        return None
    lacking = overflow(cluster)
    settled = all(context.age(pod.main.started) >= _SETTLED for pod in cluster.workers if pod.main is not None)
    late = [one for one in waiting if settled and _is_late(context, one, counted=lacking is not None)]
    considered = [one for one in waiting if f"{one.app}/{one.name}" in (lacking or ())] or late
    if not considered:
        return None
    # A deployment that asks for what no group has explains more than one that only comes too late.
    deployment = min(considered, key=lambda one: fits_somewhere(cluster, one))
    impossible = not fits_somewhere(cluster, deployment)
    groups = [group for group in cluster.spec.groups if impossible or fits_group(group, deployment)]
    shown = "; ".join(f"{group.name}: {format_resources(group.capacity)} per worker" for group in groups)
    growing = cluster.spec.autoscaled and any(workers_of(cluster, one.name) < one.high * one.hosts for one in groups)
    unoffered = _unoffered_types(context, cluster, deployment, counted=lacking is not None)
    if impossible:
        why = f"no worker group offers that ({shown or 'no worker group'})"
    elif unoffered:
        why = unoffered
    elif not cluster.spec.autoscaled:
        sizes = ", ".join(
            f"{one.name} has {workers_of(cluster, one.name)} of {one.wanted * one.hosts}" for one in groups
        )
        why = f"the worker groups are full ({sizes} workers; {shown}) and nothing scales them"
    elif not growing:
        most = ", ".join(f"{group.name} is at its maximum of {group.high}" for group in groups)
        why = (
            f"the worker groups cannot grow: {most} ({shown})"
            if groups
            else "only the head offers that, and it is full"
        )
    elif _waited(context, deployment) < (PATIENCE if _autoscaler_error(context, cluster) else _SCALING):
        return None
    else:
        return _stalled(context, cluster, deployment)
    model = f"{deployment.app}/{deployment.name}"
    count = len(_waiting(deployment))
    return finding(
        "ReplicaUnschedulable",
        f"application/{deployment.app}",
        f"{count} of {deployment.target} replicas of {model} cannot be placed; each needs {deployment.needs}: {why}",
        headline=f"Ray cannot place {'a replica' if count == 1 else f'{count} replicas'} of {deployment.name}",
        evidence=(
            f"{model}: {deployment.status}, {cluster.running(deployment)} of {deployment.target} replicas running",
            one_line(deployment.message, 400),
            *_group_lines(cluster),
        ),
        hint=_placement_hints(context, impossible or bool(unoffered)),
        terminal=impossible and _waited(context, deployment) >= PATIENCE,
        key=(cluster.name, "place"),
    )


def unhealthy_replica(context: ServiceContext, cluster: RayCluster) -> Finding | None:
    """Replicas that fail their health check. Serve says the same of a check that raises and of a process that dies."""
    for app in cluster.serve.applications:
        bad = [one for one in app.deployments if one.status == "UNHEALTHY"]
        if not bad and app.status != "UNHEALTHY":
            continue
        names = ", ".join(one.name for one in bad) or app.name
        said = next((one_line(one.message, 400) for one in bad if one.message), one_line(app.message, 400))
        places = {replica.pod for one in bad for replica in (*one.dead, *one.replicas) if replica.pod}
        logs = [read_exceptions(log) for log in context.logs_of(sorted(places), f"replica-{app.name}.")]
        raised = next((failure.text for failure in reversed(logs) if failure), "")
        return finding(
            "ReplicaUnhealthy",
            f"application/{app.name}",
            f"replicas of {names} fail their health check: {said}" + (f" ({raised})" if raised else ""),
            headline="replicas fail their health check",
            evidence=(f"application {app.name}: {app.status}",
                      *(f"{one.name}: {one.status}, {cluster.running(one)} of {one.target} replicas run: "
                        + one_line(one.message, 300) for one in bad),
                      f"replica log: {raised}" if raised else ""),
            hint=(Hint(f"kubectl logs -n {context.namespace} {sorted(places)[0]} --tail=100") if places
                  else Hint(f"kubectl get pods -n {context.namespace} -l ray.io/cluster={cluster.name}"),
                  Hint(f"rayllm-ctl watch {context.name} -n {context.namespace}")),
            key=(cluster.name, app.name),
        )  # fmt: skip
    return None


def _unoffered_types(context: ServiceContext, cluster: RayCluster, deployment: Deployment, *, counted: bool) -> str:
    """That no worker has the accelerator type that a replica asks for; empty if it asks for none, or one may have it.

    counted: what replicas need is known, so that without the type there would be a place.
    """
    asked = accelerator_types(deployment)
    if not asked:
        return ""
    hosts = [context.nodes[pod.node] for pod in cluster.workers if pod.node in context.nodes]
    products = sorted({product for node in hosts if (product := node.gpu_product)})
    offered = {name for group in cluster.spec.groups for name in group.capacity if name.startswith(TYPE)}
    missing = [
        one for one in asked
        if TYPE + one not in offered and not any(is_product(product, one) for product in products)
    ]  # fmt: skip
    if not missing or not (products or counted):
        return ""
    have = f"; their nodes have {', '.join(products)}" if products else ""
    return f"no worker has an accelerator of type {', '.join(missing)}{have}"


def _waiting(deployment: Deployment) -> list[Replica]:
    return [replica for replica in deployment.replicas if replica.state == "STARTING" and not replica.pod]


def _is_late(context: ServiceContext, deployment: Deployment, *, counted: bool) -> bool:
    """Whether a replica should have been scheduled by now. counted: the amounts suffice."""
    if counted and not any(":" in name for bundle in deployment.bundles for name in bundle):
        return _waited(context, deployment) > _STARTING
    return "to be scheduled" in deployment.message or _waited(context, deployment) > PATIENCE


def _waited(context: ServiceContext, deployment: Deployment) -> float:
    return max((context.age(one.started) for one in _waiting(deployment) if one.started), default=0.0)


def _pods_on_their_way(cluster: RayCluster) -> bool:
    """Whether pods are still to come or start: then a late replica is a consequence, not a cause."""
    if cluster.head is None or not cluster.head.ready or len(cluster.workers) < cluster.workers_wanted:
        return True
    return any(not pod.up for pod in cluster.workers)


def _placement_hints(context: ServiceContext, impossible: bool) -> tuple[Hint, ...]:
    look = Hint(f"kubectl get raycluster -n {context.namespace}")
    if impossible:
        return (Hint("rayllm-ctl deploy … --gpu GPU --tp N", "workers as large as a replica"), look)
    return (Hint("rayllm-ctl deploy … --max-replicas N", "more workers, or fewer replicas"), look)


def _stalled(context: ServiceContext, cluster: RayCluster, deployment: Deployment) -> Finding:
    """The autoscaler could add a worker, and does not."""
    head = cluster.head.name if cluster.head else "HEAD"
    said = _autoscaler_error(context, cluster)
    model = f"{deployment.app}/{deployment.name}"
    why = said or f"{model} has waited for {_waited(context, deployment):.0f} s"
    return finding(
        "AutoscalerFailed",
        cluster.head.subject if cluster.head else cluster.subject,
        f"Ray's autoscaler adds no worker for {deployment.needs}, though a group may grow: {why}",
        headline="Ray's autoscaler adds no worker",
        evidence=(one_line(deployment.message, 400) or f"{model}: replicas wait for a place", *_group_lines(cluster)),
        hint=(Hint(f"kubectl logs -n {context.namespace} {head} -c autoscaler --tail=50"),),
        key=(cluster.name, "autoscaler"),
    )


def _group_lines(cluster: RayCluster) -> list[str]:
    return [
        f"group {group.name}: {workers_of(cluster, group.name)} of {group.bounds} workers"
        for group in cluster.spec.groups
    ]


def _autoscaler_error(context: ServiceContext, cluster: RayCluster) -> str:
    """The last exception in the log of the autoscaler, if its log was collected."""
    failure = read_exceptions(context.container_log(cluster.head.name, "autoscaler")) if cluster.head else None
    return failure.text if failure else ""
