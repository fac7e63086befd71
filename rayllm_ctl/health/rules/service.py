"""Conditions of the RayService itself, and requests of it that fail."""

from __future__ import annotations

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects import rayservice
from rayllm_ctl.health.objects.cluster_spec import GroupSpec
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint

_LOWERED_SECONDS = 5.0
"""In which a maximum is lowered after the last pod above it has ended; it is tried every two seconds."""


def validation_failed(context: ServiceContext) -> Finding | None:
    """KubeRay rejected the RayService (name, spec or metadata)."""
    service = context.service
    if service is None or service.ready.get("reason") != "ValidationFailed":
        return None
    message = fields.text(service.ready, "message")
    event = context.events.last(rayservice.KIND, context.name, "InvalidRayServiceSpec", "InvalidRayServiceMetadata")
    return finding(
        "ValidationFailed",
        service.subject,
        f"KubeRay rejected the RayService: {message}",
        headline="KubeRay rejected the RayService",
        evidence=(f"{service.subject}: Ready False, ValidationFailed: {message}", event.quoted() if event else ""),
        hint=(Hint(f"kubectl get rayservice {context.name} -n {context.namespace} -o yaml"),
              Hint(f"rayllm-ctl delete {context.name} -n {context.namespace}", "then deploy a corrected one")),
        terminal=True,
        since=fields.when(service.ready, "lastTransitionTime"),
    )  # fmt: skip


def initializing_timeout(context: ServiceContext) -> Finding | None:
    """KubeRay gave up after the time of the annotation ray.io/initializing-timeout; it does not try again."""
    service = context.service
    if service is None or service.ready.get("reason") != "InitializingTimeout":
        return None
    message = fields.text(service.ready, "message")
    limit = fields.annotation(service.item, kuberay.INITIALIZING_TIMEOUT)
    event = context.events.last(rayservice.KIND, context.name, "RayServiceInitializingTimeout")
    return finding(
        "InitializingTimeout",
        service.subject,
        f"KubeRay gave up after its limit of {limit or 'the annotation'}: {message}; it does not try again",
        headline="KubeRay gave up: the service was not ready in time",
        evidence=(
            f"{service.subject}: annotation {kuberay.INITIALIZING_TIMEOUT} {limit}",
            event.quoted() if event else message,
        ),
        hint=(Hint(f"rayllm-ctl delete {context.name} -n {context.namespace}", "then deploy it again"),),
        terminal=True,
        since=fields.when(service.ready, "lastTransitionTime"),
    )


def bounds_not_applied(context: ServiceContext) -> Finding | None:
    """Replica bounds of the RayService that its RayCluster lacks: KubeRay does not carry them over (kuberay#4568)."""
    service = context.service
    target = context.clusters[-1] if context.clusters else None
    if service is None or target is None or target.item is None or service.observed < service.generation:
        return None
    for group in context.spec.groups:
        have = next((one for one in target.spec.groups if one.name == group.name), None)
        if have is None:
            continue
        same = (group.low, group.high) == (have.low, have.high)
        fixed = not (context.spec.autoscaled or target.spec.autoscaled)
        if same and not (fixed and group.replicas != have.replicas):
            continue
        if _lowering(context, target, group, have) or (context.pods_unread and _lowers(group, have)):
            continue
        wanted, actual = (group.bounds, have.bounds) if not same else (str(group.replicas), str(have.replicas))
        return finding(
            "BoundsNotApplied",
            target.subject,
            f"worker group {group.name}: the RayService asks for {wanted} replicas, its RayCluster has {actual}; "
            "KubeRay does not carry changed bounds over to a live cluster",
            headline=f"changed replica bounds of group {group.name} are not applied",
            evidence=(f"{service.subject}: {group.name} min {group.low}, replicas {group.replicas}, max {group.high}",
                      f"{target.subject}: {have.name} min {have.low}, replicas {have.replicas}, max {have.high}"),
            hint=(Hint("rayllm-ctl deploy …", "the same again: it writes the bounds to both objects"),
                  Hint(f"kubectl edit raycluster {target.name} -n {context.namespace}")),
        )  # fmt: skip
    return None


def lowering(context: ServiceContext) -> str:
    """Which worker group does not have its lower maximum yet, and why, while that is as it should be; else empty."""
    for target in context.clusters[-1:]:
        live = {group.name: group for group in target.spec.groups}
        for group in context.spec.groups:
            if group.name in live and (why := _lowering(context, target, group, live[group.name])):
                return why
    return ""


def _lowering(context: ServiceContext, cluster: RayCluster, group: GroupSpec, have: GroupSpec) -> str:
    """Why the live group `have` does not have the lower maximum of `group` yet; empty if it has, or nobody lowers it.

    One answer for both questions: a service is neither Ready nor without its bounds meanwhile, so that whoever waits
    for it keeps lowering.
    """
    if _ends_when_idle(cluster, group, have):
        pods, most = sum(pod.group == group.name for pod in cluster.workers), group.high * group.hosts
        return f"worker group {group.name} has {pods} pods, and those above {most} end when they are idle"
    if _ended_just_now(context, cluster, group, have):
        return f"worker group {group.name} gets its new maximum {group.high}: a pod above it has just ended"
    return ""


def _ends_when_idle(cluster: RayCluster, group: GroupSpec, have: GroupSpec) -> bool:
    """Whether the live group keeps a higher maximum only for pods that are there: lowered at once, Ray's autoscaler
    would end pods with their requests."""
    pods = sum(pod.group == group.name for pod in cluster.workers)
    return _lowers(group, have) and have.high * have.hosts <= pods


def _ended_just_now(context: ServiceContext, cluster: RayCluster, group: GroupSpec, have: GroupSpec) -> bool:
    """Whether a pod that kept the maximum of the live group higher has just ended: it is lowered at any moment."""
    removed = context.events.last("RayCluster", cluster.name, "DeletedWorkerPod")
    ended = removed is not None and context.age(removed.last) < _LOWERED_SECONDS
    return ended and _lowers(group, have)


def _lowers(group: GroupSpec, have: GroupSpec) -> bool:
    """Whether the bounds asked for differ from those of the live group by a lower maximum alone."""
    return have.low == group.low and group.high < have.high


def no_serve_port(context: ServiceContext) -> Finding | None:
    """The head container lists ports and none is named serve: KubeRay then makes no serve service, and says nothing."""
    service = context.service
    cluster = context.clusters[-1] if context.clusters else None
    head = cluster.head if cluster is not None else None
    if service is None or cluster is None or head is None or context.endpoints or not cluster.complete:
        return None
    made = {fields.name(item) for item in context.of_kind("Service")}
    container = next(iter(fields.items(head.item, "spec", "containers")), {})
    ports = [fields.text(port, "name") for port in fields.items(container, "ports")]
    serve_service = kuberay.serve_service(context.name)
    if not made or serve_service in made or not ports or "serve" in ports:
        return None
    return finding(
        "ValidationFailed",
        service.subject,
        "all applications run, but KubeRay creates no serve service: the head container lists ports "
        f"({', '.join(ports)}), and none of them is named serve",
        headline="the head container has no port named serve",
        evidence=(f"{head.subject}: ports {', '.join(ports)}", f"there is no service/{serve_service}"),
        hint=(
            Hint(
                f"kubectl edit rayservice {context.name} -n {context.namespace}",
                "add port 8000 named serve to ray-head",
            ),
        ),
        terminal=True,
    )
