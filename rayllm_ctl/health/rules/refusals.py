"""Pods, or the cluster itself, that the API server refuses to the operator, and specs that KubeRay refuses."""

from __future__ import annotations

import re
from datetime import datetime

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.events import ONGOING, ObjectEvent
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.sentences.exceptions import one_line
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint


@dataclass(frozen=True)
class _Refusal:
    """What a text of the API server means. `terminal`: it will answer the same until somebody changes something."""

    code: str
    pattern: re.Pattern[str]
    headline: str
    hint: Hint
    terminal: bool


def _refusal(code: str, pattern: str, headline: str, command: str, terminal: bool = True) -> _Refusal:
    return _Refusal(code, re.compile(pattern, re.I | re.S), headline, Hint(command), terminal)


# First match wins. {ns} is the service's namespace.
_REFUSALS = (
    _refusal("QuotaExceeded", r"exceeded quota: (?P<name>[^,]+)", "the quota {name} is used up",
             "kubectl describe resourcequota {name} -n {ns}", terminal=False),
    _refusal("QuotaExceeded", r"failed quota: (?P<name>[^:]+): must specify",
             "the quota {name} asks for requests or limits",
             "kubectl describe resourcequota {name} -n {ns}"),
    _refusal("QuotaExceeded",
             r"(?:maximum|minimum) (?P<name>[\w./-]+) usage per (?:Container|Pod)|limit to request ratio",
             "a LimitRange of the namespace rejects the pods", "kubectl describe limitrange -n {ns}"),
    _refusal("PodSecurityViolation", r"violates PodSecurity \"(?P<name>[^\"]+)\"",
             "Pod Security {name} rejects the pods",
             "kubectl get namespace {ns} --show-labels"),
    _refusal("AdmissionDenied", r"ValidatingAdmissionPolicy '(?P<name>[^']+)'", "the policy {name} rejects the pods",
             "kubectl get validatingadmissionpolicy {name} -o yaml"),
    _refusal("AdmissionDenied", r"admission webhook \"(?P<name>[^\"]+)\" denied", "the webhook {name} rejects the pods",
             "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"),
    _refusal("AdmissionDenied", r"failed calling webhook \"(?P<name>[^\"]+)\"", "the webhook {name} does not answer",
             "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations", terminal=False),
    _refusal("MissingSecretOrConfig", r"service ?account \"?(?P<name>[\w./-]+)\"? (?:was |is )?not found",
             "the ServiceAccount {name} does not exist", "kubectl create serviceaccount {name} -n {ns}"),
    _refusal("OperatorNotReconciling", r"User \"(?P<name>system:serviceaccount:[^\"]+)\" cannot",
             "the operator lacks rights", "kubectl get clusterroles,roles -A | grep kuberay"),
    _refusal("AdmissionDenied", r"being terminated", "the namespace is being deleted", "kubectl get namespace {ns}"),
    _refusal("ValidationFailed", r" is invalid: ", "the API server rejects the pods as invalid",
             "kubectl get {kind} -n {ns} -o yaml"),
    _refusal("AdmissionDenied", r"forbidden|denied", "the API server rejects the pods", "kubectl get events -n {ns}"),
)  # fmt: skip

_NOT_FOUND = re.compile(r"ServiceAccount (?P<name>[\w.-]+) is not found")
_BENIGN = re.compile(r"already exists|object has been modified|context deadline|timeout|etcdserver", re.I)


def refused(context: ServiceContext, cluster: RayCluster) -> Finding | None:
    """The API server refuses the cluster's pods: ReplicaFailure says so while it lasts, the events in older versions.

    RayClusterProvisioned says nothing here: it turns True with the head alone when all workers are refused.
    """
    failure = fields.condition(cluster.item, "ReplicaFailure") if cluster.item is not None else {}
    events = context.events.of("RayCluster", cluster.name)
    failed = [
        event for event in events if event.reason.startswith("FailedToCreate") and not _BENIGN.search(event.message)
    ]
    if failure.get("status") == "True":
        message = fields.text(failure, "message")
        evidence = (
            f"{cluster.subject}: condition ReplicaFailure, {fields.text(failure, 'reason')}: {one_line(message, 500)}",
            failed[-1].quoted()[:500] if failed else "",
        )
        since = failed[0].first if failed else fields.when(failure, "lastTransitionTime")
        return _classified(context, cluster.subject, message, evidence, since)
    last = failed[-1] if failed else None
    if last is None or context.age(last.last) > ONGOING or _made_since(events, last):
        return None
    return _classified(context, cluster.subject, last.message, (last.quoted()[:500],), failed[0].first)


def cluster_refused(context: ServiceContext) -> Finding | None:
    """The API server refuses the RayCluster that the operator wants to make."""
    if context.service is None or context.ray_clusters:
        return None
    events = context.events.of(context.kind, context.name, "FailedToCreateRayCluster")
    failed = [event for event in events if not _BENIGN.search(event.message)]
    if not failed or context.age(failed[-1].last) > ONGOING:
        return None
    return _classified(
        context, context.service.subject, failed[-1].message, (failed[-1].quoted()[:500],), failed[0].first
    )


def job_refused(context: ServiceContext, job: str) -> Finding | None:
    """The API server rejects the pods of a Job."""
    events = context.events.of("Job", job)
    failed = [event for event in events if event.reason == "FailedCreate" and not _BENIGN.search(event.message)]
    if not failed or context.age(failed[-1].last) > ONGOING:
        return None
    return _classified(context, f"job/{job}", failed[-1].message, (failed[-1].quoted()[:500],), failed[0].first)


def invalid_cluster(context: ServiceContext, cluster: RayCluster) -> Finding | None:
    """KubeRay rejected the RayCluster: unlike a RayService's, its status says nothing; there is only an event."""
    found = context.events.last("RayCluster", cluster.name, "InvalidRayClusterSpec", "InvalidRayClusterMetadata")
    if found is None or (context.age(found.last) > ONGOING and cluster.head is not None):
        return None
    return finding(
        "ValidationFailed",
        cluster.subject,
        f"KubeRay rejected {cluster.subject}: {one_line(found.message, 400)}",
        headline="KubeRay rejected the RayCluster",
        evidence=(found.quoted()[:500],),
        hint=(Hint(f"kubectl get {context.resource} -n {context.namespace} -o yaml"),),
        terminal=True,
        since=found.first,
    )


def service_account_missing(context: ServiceContext, cluster: RayCluster) -> Finding | None:
    """The head names a service account that does not exist: the autoscaler cannot be set up, and no pod is made."""
    found = context.events.last("RayCluster", cluster.name, "AutoscalerServiceAccountNotFound")
    if found is None or cluster.head is not None:
        return None
    named = _NOT_FOUND.search(found.message)
    account = named["name"] if named else "of the head"
    return finding(
        "AutoscalerFailed",
        cluster.subject,
        f"the ServiceAccount {account} that the head pod names does not exist; without it the operator sets up no "
        "autoscaler and makes no pod",
        headline=f"the ServiceAccount {account} does not exist",
        evidence=(found.quoted()[:500],),
        hint=(Hint(f"kubectl create serviceaccount {account} -n {context.namespace}"),),
        terminal=context.age(found.first) >= 5,
        since=found.first,
    )


def _made_since(events: list[ObjectEvent], refusal: ObjectEvent) -> bool:
    made = [event.last for event in events if event.reason in ("CreatedWorkerPod", "CreatedHeadPod") and event.last]
    return refusal.last is not None and any(moment >= refusal.last for moment in made)


def _classified(
    context: ServiceContext, subject: str, message: str, evidence: tuple[str, ...], since: datetime | None
) -> Finding | None:
    for kind in _REFUSALS:
        found = kind.pattern.search(message)
        if found is None:
            continue
        name = (found.groupdict().get("name") or "").strip()
        ranges = (
            [f"limitrange/{fields.name(item)}" for item in context.of_kind("LimitRange")]
            if "LimitRange" in kind.headline
            else []
        )
        told = re.sub(r"^Failed\w*\s", "", one_line(message, 600))
        return finding(
            kind.code,
            subject,
            told,
            headline=kind.headline.format(name=name),
            evidence=(*evidence, *ranges),
            hint=(kind.hint.format(name=name.rsplit("/", 1)[-1], ns=context.namespace,
                                   kind=context.kind.lower()),
                  Hint(f"kubectl edit {context.resource} -n {context.namespace}")),
            terminal=kind.terminal,
            since=since,
        )  # fmt: skip
    return None
