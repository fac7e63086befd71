"""What the RayService itself says, and whether anybody looks at it."""

from __future__ import annotations

import re
from datetime import datetime

from rayllm_ctl.health import fields
from rayllm_ctl.health.clusterspec import suspended
from rayllm_ctl.health.events import ONGOING
from rayllm_ctl.health.exceptions import one_line
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.operator import NAME
from rayllm_ctl.health.raycluster import RayCluster
from rayllm_ctl.health.scene import Scene

OVERLOOKED = 30.0
"""Seconds after which an operator that seems well should have written a status: it takes a second or two."""

_MOMENT = 5.0
"""Seconds that even a stopped operator gets: it may be about to start."""

_UNREACHED = re.compile(r"err: (?:Put|Get|Post) \"?http", re.I)
"""Serve's REST did not answer: once or twice is normal until the dashboard is up."""

_UNREACHED_OFTEN = 10


def validation_failed(scene: Scene) -> Finding | None:
    """KubeRay refuses the RayService (name, spec or metadata)."""
    service = scene.service
    if service is None or service.ready.get("reason") != "ValidationFailed":
        return None
    message = fields.text(service.ready, "message")
    event = scene.events.last("RayService", scene.name, "InvalidRayServiceSpec", "InvalidRayServiceMetadata")
    return finding(
        "ValidationFailed",
        service.subject,
        f"KubeRay refuses the RayService: {message}",
        headline="KubeRay refuses the RayService",
        evidence=(f"{service.subject}: Ready False, ValidationFailed: {message}", event.quoted() if event else ""),
        hint=(f"kubectl get rayservice {scene.name} -n {scene.namespace} -o yaml",
              f"rayllm-ctl delete {scene.name} -n {scene.namespace}   (then deploy again, corrected)"),
        terminal=True,
        since=fields.when(service.ready, "lastTransitionTime"),
    )  # fmt: skip


def initializing_timeout(scene: Scene) -> Finding | None:
    """KubeRay gave up after the time of the annotation ray.io/initializing-timeout; it does not try again."""
    service = scene.service
    if service is None or service.ready.get("reason") != "InitializingTimeout":
        return None
    message = fields.text(service.ready, "message")
    limit = fields.annotation(service.item, "ray.io/initializing-timeout")
    event = scene.events.last("RayService", scene.name, "RayServiceInitializingTimeout")
    return finding(
        "InitializingTimeout",
        service.subject,
        f"KubeRay gave up after its limit of {limit or 'the annotation'}: {message}; it does not try again",
        headline="KubeRay gave up: the service was not ready in time",
        evidence=(
            f"{service.subject}: annotation ray.io/initializing-timeout {limit}",
            event.quoted() if event else message,
        ),
        hint=(f"rayllm-ctl delete {scene.name} -n {scene.namespace}   (then deploy it again)",),
        terminal=True,
        since=fields.when(service.ready, "lastTransitionTime"),
    )


def config_rejected(scene: Scene) -> Finding | None:
    """Serve refuses the configuration. The operator then stops before it writes a status: only the event tells."""
    if scene.service is None:
        return None
    events = scene.events.of("RayService", scene.name, "FailedToUpdateServeApplications")
    refused = [event for event in events if not _UNREACHED.search(event.message)]
    if not refused or _updated_after(scene, refused[-1].last):
        return None
    event = refused[-1]
    # A change that was taken back is never sent to Serve: no event says so, but the status is up to date and all runs.
    settled = scene.service.observed >= scene.service.generation
    if settled and (scene.age(event.last) > ONGOING or any(cluster.complete for cluster in scene.clusters)):
        return None
    said = one_line(event.message.rpartition("err: ")[2] or event.message, 700)
    generations = f"generation {scene.service.generation}, observed {scene.service.observed}"
    return finding(
        "ServeConfigRejected",
        scene.service.subject,
        f"Serve refuses serveConfigV2: {said}",
        headline="Serve refuses the configuration",
        evidence=(event.quoted(), f"{scene.service.subject}: {generations}"),
        hint=("rayllm-ctl deploy …   (with what is named above corrected)",
              f"kubectl get rayservice {scene.name} -n {scene.namespace} -o jsonpath='{{.spec.serveConfigV2}}'"),
        terminal=True,
        since=event.first,
    )  # fmt: skip


def not_reconciled(scene: Scene) -> Finding | None:
    """The newest generation waits for an operator that does not run, does not watch here, or does not answer."""
    service = scene.service
    if service is None or service.ready.get("reason") == "ValidationFailed":
        return None
    waiting = _waiting(scene)
    if waiting is None:
        return None
    return _unattended(scene, *waiting)


def halted(scene: Scene) -> Finding | None:
    """The operator does not run, and the service, in which nothing else is wrong, does not serve: asked last of all."""
    service = scene.service
    if service is None or scene.operator.running is not False:
        return None
    return _unattended(scene, "the service does not serve yet, and nobody carries it on", service.created)


def _unattended(scene: Scene, what: str, since: datetime | None) -> Finding | None:
    service = scene.service
    if service is None:
        return None
    operator = scene.operator
    if operator.running is False and scene.age(since) >= _MOMENT:
        why = (
            f"the KubeRay operator ({operator.subject} in namespace {operator.namespace}) does not run: {operator.why}"
        )
    elif not operator.watches(scene.namespace):
        why = f"the KubeRay operator watches only {', '.join(operator.watched)}, not {scene.namespace}"
    elif service.touched or scene.age(since) < OVERLOOKED:
        return None
    else:
        seems = "seems to run" if operator.running else "cannot be seen from here"
        why = f"nothing has looked at it for {scene.age(since):.0f} s; the KubeRay operator (kuberay-operator) {seems}"
        why += f", but lacks rights: {denied}" if (denied := _denied(scene)) else ""
    namespace = operator.namespace or "NAMESPACE"
    return finding(
        "OperatorNotReconciling",
        service.subject,
        f"{what}: {why}",
        headline="the KubeRay operator does not look at it",
        evidence=(
            f"{service.subject}: generation {service.generation}, observed {service.observed or 'none'}",
            *operator.evidence,
        ),
        hint=(f"kubectl get deployment,pods -n {namespace} -l app.kubernetes.io/name=kuberay-operator"
              if operator.namespace else "kubectl get deployment,pods -A -l app.kubernetes.io/name=kuberay-operator",
              f"kubectl logs -n {namespace} deployment/kuberay-operator"),
        since=since,
    )  # fmt: skip


def unreached(scene: Scene) -> Finding | None:
    """The operator runs but does not reach Ray's dashboard, though the head is ready: a network policy, a proxy."""
    service = scene.service
    head = next((cluster.head for cluster in scene.clusters if cluster.head is not None), None)
    if service is None or head is None or not head.ready:
        return None
    event = scene.events.last("RayService", scene.name, "FailedToUpdateServeApplications")
    if event is None or not _UNREACHED.search(event.message) or event.count < _UNREACHED_OFTEN:
        return None
    if scene.age(event.last) > ONGOING or _updated_after(scene, event.last):
        return None
    return finding(
        "OperatorNotReconciling",
        service.subject,
        f"the KubeRay operator does not reach Ray's dashboard on {head.subject}: "
        + one_line(event.message.rpartition("err: ")[2], 300),
        headline="the operator does not reach Ray's dashboard",
        evidence=(event.quoted()[:500], f"{head.subject} is ready"),
        hint=(f"kubectl get networkpolicy -n {scene.namespace}",
              f"kubectl logs -n {scene.operator.namespace or 'NAMESPACE'} deployment/kuberay-operator"),
        since=event.first,
    )  # fmt: skip


def bounds_not_applied(scene: Scene) -> Finding | None:
    """Replica bounds of the RayService that its RayCluster lacks: KubeRay does not carry them over (kuberay#4568)."""
    service = scene.service
    target = scene.clusters[-1] if scene.clusters else None
    if service is None or target is None or target.item is None or service.observed < service.generation:
        return None
    for group in scene.spec.groups:
        have = next((one for one in target.spec.groups if one.name == group.name), None)
        if have is None:
            continue
        same = (group.low, group.high) == (have.low, have.high)
        fixed = not (scene.spec.autoscaled or target.spec.autoscaled)
        if same and not (fixed and group.replicas != have.replicas):
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
            hint=("rayllm-ctl deploy …   (the same again: it writes the bounds to both objects)",
                  f"kubectl edit raycluster {target.name} -n {scene.namespace}"),
        )  # fmt: skip
    return None


def no_serve_port(scene: Scene) -> Finding | None:
    """The head container lists ports and none is named serve: KubeRay then makes no serve service, and says nothing."""
    service = scene.service
    cluster = scene.clusters[-1] if scene.clusters else None
    head = cluster.head if cluster is not None else None
    if service is None or cluster is None or head is None or scene.endpoints or not cluster.complete:
        return None
    made = {fields.name(item) for item in scene.of_kind("Service")}
    container = next(iter(fields.items(head.item, "spec", "containers")), {})
    ports = [fields.text(port, "name") for port in fields.items(container, "ports")]
    if not made or f"{scene.name}-serve-svc" in made or not ports or "serve" in ports:
        return None
    return finding(
        "ValidationFailed",
        service.subject,
        f"all applications run, but KubeRay makes no serve service: the head container lists ports ({', '.join(ports)}), "
        "and none of them is named serve",
        headline="the head container has no port named serve",
        evidence=(f"{head.subject}: ports {', '.join(ports)}", f"there is no service/{scene.name}-serve-svc"),
        hint=(f"kubectl edit rayservice {scene.name} -n {scene.namespace}   (add port 8000 named serve to ray-head)",),
        terminal=True,
    )


def _waiting(scene: Scene) -> tuple[str, datetime | None] | None:
    """What has not been looked at, and since when; None when all has."""
    service = scene.service
    if service is None:
        return None
    if not service.touched:
        return "the RayService has no status", service.created
    if 0 < service.observed < service.generation:
        return "a change of the RayService has not been looked at", fields.when(
            service.item, "status", "lastUpdateTime"
        )
    for cluster in scene.clusters:
        observed = fields.integer(cluster.item, "status", "observedGeneration") if cluster.item is not None else 0
        if cluster.item is not None and observed < fields.integer(cluster.item, "metadata", "generation"):
            return f"{cluster.subject} has not been looked at", fields.created(cluster.item)
        if cluster.item is None and scene.operator.running is False and not cluster.pods:
            return f"{cluster.subject} has not been made", service.created
        if cluster.item is not None and scene.operator.running is False and not suspended(cluster.item):
            missing = "no head pod" if cluster.head is None else "too few workers" if _short(cluster) else ""
            if missing:
                return f"{cluster.subject} has {missing}", fields.created(cluster.item)
    return None


def _short(cluster: RayCluster) -> bool:
    return len(cluster.workers) < cluster.workers_wanted


def _denied(scene: Scene) -> str:
    """What the API server refuses to the operator, by its log."""
    for key, log in scene.snapshot.logs.items():
        if NAME in key:
            found = [line for line in log.splitlines() if "is forbidden" in line and "cannot" in line]
            if found:
                said = re.search(r"[\w.]+ is forbidden: [^\"\\]*(?:\\?\"[^\"\\]*)*", found[-1])
                return one_line(said[0] if said else found[-1], 300).replace("\\", "")
    return ""


def _updated_after(scene: Scene, moment: datetime | None) -> bool:
    updated = scene.events.last("RayService", scene.name, "UpdatedServeApplications")
    return updated is not None and updated.last is not None and moment is not None and updated.last > moment
