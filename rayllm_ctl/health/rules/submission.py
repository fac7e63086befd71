"""The operator hands Serve its configuration: Serve refuses it, or cannot be reached. Only events tell of either."""

from __future__ import annotations

import re
from datetime import datetime

from rayllm_ctl.health.events import ONGOING
from rayllm_ctl.health.exceptions import one_line
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.scene import Scene

_UNREACHED = re.compile(r"err: (?:Put|Get|Post) \"?http", re.I)
"""Serve's REST did not answer: once or twice is normal until the dashboard is up."""

_OFTEN = 10


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


def unreached(scene: Scene) -> Finding | None:
    """The operator runs but does not reach Ray's dashboard, though the head is ready: a network policy, a proxy."""
    service = scene.service
    head = next((cluster.head for cluster in scene.clusters if cluster.head is not None), None)
    if service is None or head is None or not head.ready:
        return None
    event = scene.events.last("RayService", scene.name, "FailedToUpdateServeApplications")
    if event is None or not _UNREACHED.search(event.message) or event.count < _OFTEN:
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


def _updated_after(scene: Scene, moment: datetime | None) -> bool:
    updated = scene.events.last("RayService", scene.name, "UpdatedServeApplications")
    return updated is not None and updated.last is not None and moment is not None and updated.last > moment
