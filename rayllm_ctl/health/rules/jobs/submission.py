"""The operator hands Serve its configuration: Serve refuses it, or cannot be reached. Only events tell of either."""

from __future__ import annotations

import re
from datetime import datetime

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects import rayservice
from rayllm_ctl.health.objects.events import ONGOING
from rayllm_ctl.health.sentences.exceptions import one_line
from rayllm_ctl.model.text.hint import Hint

_UNREACHED = re.compile(r"err: (?:Put|Get|Post) \"?http", re.I)
"""Serve's REST did not answer: once or twice is normal until the dashboard is up."""

_OFTEN = 10


def config_rejected(context: ServiceContext) -> Finding | None:
    """Serve rejected the configuration. The operator then stops before it writes a status: only the event tells."""
    if context.service is None:
        return None
    events = context.events.of(rayservice.KIND, context.name, "FailedToUpdateServeApplications")
    refused = [event for event in events if not _UNREACHED.search(event.message)]
    if not refused or _updated_after(context, refused[-1].last):
        return None
    event = refused[-1]
    # A change that was taken back is never sent to Serve: no event says so, but the status is up to date and all runs.
    settled = context.service.observed >= context.service.generation
    if settled and (context.age(event.last) > ONGOING or any(cluster.complete for cluster in context.clusters)):
        return None
    said = one_line(event.message.rpartition("err: ")[2] or event.message, 700)
    generations = f"generation {context.service.generation}, observed {context.service.observed}"
    return finding(
        "ServeConfigRejected",
        context.service.subject,
        f"Serve rejected serveConfigV2: {said}",
        headline="Serve rejected the configuration",
        evidence=(event.quoted(), f"{context.service.subject}: {generations}"),
        hint=(Hint("rayllm-ctl deploy …", "after correcting what is named above"),
              Hint(f"kubectl get rayservice {context.name} -n {context.namespace} "
                   "-o jsonpath='{.spec.serveConfigV2}'")),
        terminal=True,
        since=event.first,
    )  # fmt: skip


def unreached(context: ServiceContext) -> Finding | None:
    """The operator runs but does not reach Ray's dashboard, though the head is ready: a network policy, a proxy."""
    service = context.service
    head = next((cluster.head for cluster in context.clusters if cluster.head is not None), None)
    if service is None or head is None or not head.ready:
        return None
    event = context.events.last(rayservice.KIND, context.name, "FailedToUpdateServeApplications")
    if event is None or not _UNREACHED.search(event.message) or event.count < _OFTEN:
        return None
    if context.age(event.last) > ONGOING or _updated_after(context, event.last):
        return None
    return finding(
        "OperatorNotReconciling",
        service.subject,
        f"the KubeRay operator cannot reach Ray's dashboard on {head.subject}: "
        + one_line(event.message.rpartition("err: ")[2], 300),
        headline="the operator cannot reach Ray's dashboard",
        evidence=(event.quoted()[:500], f"{head.subject} is ready"),
        hint=(Hint(f"kubectl get networkpolicy -n {context.namespace}"),
              Hint(f"kubectl logs -n {context.operator.namespace or 'NAMESPACE'} deployment/kuberay-operator")),
        since=event.first,
    )  # fmt: skip


def _updated_after(context: ServiceContext, moment: datetime | None) -> bool:
    updated = context.events.last(rayservice.KIND, context.name, "UpdatedServeApplications")
    return updated is not None and updated.last is not None and moment is not None and updated.last > moment
