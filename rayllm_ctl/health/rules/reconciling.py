"""Whether the KubeRay operator looks at the service: it has to run, watch the namespace, and have the rights."""

from __future__ import annotations

import re
from datetime import datetime

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.cluster_spec import suspended
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.sentences.exceptions import one_line
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint

OVERLOOKED = 30.0
"""Seconds after which an operator that seems well should have written a status: it takes a second or two."""

_MOMENT = 5.0
"""Seconds that even a stopped operator gets: it may be about to start."""


def not_reconciled(context: ServiceContext) -> Finding | None:
    """The newest generation waits for an operator that does not run, does not watch here, or does not answer."""
    service = context.service
    if service is None or service.ready.get("reason") == "ValidationFailed":
        return None
    waiting = _waiting(context)
    if waiting is None:
        return None
    return _unattended(context, *waiting)


def halted(context: ServiceContext) -> Finding | None:
    """The operator does not run, and the service, in which nothing else is wrong, does not serve: asked last of all."""
    service = context.service
    if service is None or context.operator.running is not False:
        return None
    return _unattended(context, "the service is not serving, and no operator reconciles it", service.created)


def _unattended(context: ServiceContext, what: str, since: datetime | None) -> Finding | None:
    service = context.service
    if service is None:
        return None
    operator = context.operator
    if operator.running is False and context.age(since) >= _MOMENT:
        where = f"{operator.subject} in namespace {operator.namespace}"
        why = f"the KubeRay operator ({where}) is not running: {operator.why}"
    elif not operator.watches(context.namespace):
        why = (
            f"the KubeRay operator runs with --watch-namespace={','.join(operator.watched)} and does not watch "
            f"namespace {context.namespace}"
        )
    elif service.touched or context.age(since) < OVERLOOKED:
        return None
    else:
        seems = "appears to be running" if operator.running else "is not visible"
        why = f"not reconciled for {context.age(since):.0f} s; the KubeRay operator ({kuberay.OPERATOR}) {seems}"
        why += f", but lacks rights: {denied}" if (denied := _denied(context)) else ""
    namespace = operator.namespace or "NAMESPACE"
    elsewhere = not operator.watches(context.namespace)
    deployment = f"deployment/{kuberay.OPERATOR} -n {namespace}"
    return finding(
        "OperatorNotReconciling",
        service.subject,
        f"{what}: {why}",
        headline="the KubeRay operator does not watch this namespace" if elsewhere
        else "the KubeRay operator does not reconcile it",
        evidence=(
            f"{service.subject}: generation {service.generation}, observed {service.observed or 'none'}",
            *operator.evidence,
        ),
        hint=(*((Hint(f"kubectl edit {deployment}", f"add {context.namespace} to --watch-namespace"),)
                if elsewhere else ()),
              Hint(f"kubectl get deployment,pods {f'-n {namespace}' if operator.namespace else '-A'} "
                   "-l app.kubernetes.io/name=kuberay-operator"),
              Hint(f"kubectl logs {deployment}")),
        since=since,
    )  # fmt: skip


def _waiting(context: ServiceContext) -> tuple[str, datetime | None] | None:
    """What has not been looked at, and since when; None when all has."""
    service = context.service
    if service is None:
        return None
    if not service.touched:
        return f"the {context.kind} has no status", service.created
    if 0 < service.observed < service.generation:
        return f"a change of the {context.kind} has not been reconciled", fields.when(
            service.item, "status", "lastUpdateTime"
        )
    for cluster in context.clusters:
        observed = fields.integer(cluster.item, "status", "observedGeneration") if cluster.item is not None else 0
        if cluster.item is not None and observed < fields.integer(cluster.item, "metadata", "generation"):
            return f"{cluster.subject} has not been reconciled", fields.created(cluster.item)
        if context.pods_unread or context.operator.running is not False:
            continue
        if cluster.item is None and not cluster.pods and not context.unread(kuberay.RAY_CLUSTER):
            return f"{cluster.subject} has not been created", service.created
        if cluster.item is not None and not suspended(cluster.item):
            missing = "no head pod" if cluster.head is None else "too few workers" if _short(cluster) else ""
            if missing:
                return f"{cluster.subject} has {missing}", fields.created(cluster.item)
    return None


def _short(cluster: RayCluster) -> bool:
    return len(cluster.workers) < cluster.workers_wanted


def _denied(context: ServiceContext) -> str:
    """What the API server refuses to the operator, by its log."""
    for key, log in context.snapshot.logs.items():
        if kuberay.OPERATOR in key:
            found = [line for line in log.splitlines() if "is forbidden" in line and "cannot" in line]
            if found:
                said = re.search(r"[\w.]+ is forbidden: [^\"\\]*(?:\\?\"[^\"\\]*)*", found[-1])
                return one_line(said[0] if said else found[-1], 300).replace("\\", "")
    return ""
