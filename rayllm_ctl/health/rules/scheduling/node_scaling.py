"""What a node autoscaler says of a pod that no node takes: the cluster autoscaler, a cloud's, or Karpenter."""

from __future__ import annotations

import dataclasses
import re

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding
from rayllm_ctl.health.objects.events import ObjectEvent
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.sentences.exceptions import one_line
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.text.hint import Hint

SCALING_UP = 900.0
"""Seconds for a node autoscaler to bring the node it announced: GPU machines of clouds take up to ten minutes."""

_UP = ("TriggeredScaleUp", "Nominated")
_NO = ("NotTriggerScaleUp", "FailedScaleUp", "FailedToScaleUp")
"""cluster-autoscaler (processors/status/eventing_scale_up_processor.go); GKE's writes FailedScaleUp."""

_KARPENTER = "Failed to schedule pod, "
"""Karpenter's FailedScheduling (pkg/controllers/provisioning/scheduling/events.go); the scheduler's begins 0/N."""

_PREFIX = re.compile(r"^(?:pod didn't trigger scale-up(?: \([^)]*\))?: |Failed to schedule pod, )")

# What to type, by what the autoscaler says; first match wins.
_HINTS: tuple[tuple[re.Pattern[str], Hint], ...] = tuple(
    (re.compile(pattern, re.I), hint)
    for pattern, hint in (
        (
            r"max(?:imum)? (?:node group size|total nodes|cluster)|max limit|at(?: its)? max|limits?\b.{0,40}exceed|"
            r"exceed.{0,40}limits?",
            Hint(
                "kubectl get configmap cluster-autoscaler-status -n kube-system -o yaml",
                "node groups and their maximum; raise it where the pool is managed",
            ),
        ),
        (
            r"out of resources|RESOURCE_POOL_EXHAUSTED|stockout|InsufficientInstanceCapacity|insufficient capacity|"
            r"no capacity|SkuNotAvailable|AllocationFailed",
            Hint(
                "{deploy} --gpu GPU", "the cloud has no machine with this one now; or add a node pool in another zone"
            ),
        ),
        (r"quota", Hint("{deploy} --gpu GPU", "one that the cloud's quota has left; or have the quota raised")),
        (
            r"backoff",
            Hint("kubectl get configmap cluster-autoscaler-status -n kube-system -o yaml", "why the pool failed"),
        ),
        (
            r"nodepool|no instance type|incompatible|did not tolerate",
            Hint("kubectl get nodepools.karpenter.sh -o yaml", "requirements, taints and limits that exclude the pod"),
        ),
        (
            r"node affinity|node selector|didn't match|untolerated taint|Insufficient",
            Hint(
                "kubectl get nodes --show-labels",
                "no node pool offers such a node: --gpu, --node-selector, --toleration",
            ),
        ),
    )
)


def growing(context: ServiceContext, pod: Pod) -> bool:
    """Whether a node autoscaler has announced a node for the pod and may still bring it."""
    up = context.events.last("Pod", pod.name, *_UP)
    if up is None or up.last is None or context.age(up.last) > SCALING_UP:
        return False
    no = _refusal(context, pod)
    return no is None or no.last is None or no.last < up.last


def with_answer(context: ServiceContext, pod: Pod, found: Finding) -> Finding:
    """The cause of a pod that no node takes, with the node autoscaler's own answer, if there is one."""
    no, up = _refusal(context, pod), context.events.last("Pod", pod.name, *_UP)
    if no is not None and no.last is not None and (up is None or up.last is None or up.last <= no.last):
        said = _PREFIX.sub("", one_line(no.message, 300))
        hints = [hint.format(deploy=context.deploy) for pattern, hint in _HINTS if pattern.search(said)]
        return _extended(found, f"; the node autoscaler adds no node: {said}", no, *hints[:1])
    if up is not None:
        waited = f"{format_duration(context.age(up.last))} ago" if up.last else "before"
        return _extended(found, f"; the node autoscaler announced a node {waited}, and none has come", up)
    return found


def _extended(found: Finding, told: str, event: ObjectEvent, *hints: Hint) -> Finding:
    cause = found.cause
    evidence = cause.evidence if event.quoted() in cause.evidence else (*cause.evidence, event.quoted()[:500])
    return dataclasses.replace(
        found,
        cause=dataclasses.replace(cause, message=cause.message + told, evidence=evidence, hint=(*hints, *cause.hint)),
    )


def _refusal(context: ServiceContext, pod: Pod) -> ObjectEvent | None:
    """The newest event in which an autoscaler says that it adds no node for the pod."""
    about = context.events.of("Pod", pod.name, *_NO, "FailedScheduling")
    said = [one for one in about if one.reason in _NO or one.message.startswith(_KARPENTER)]
    return said[-1] if said else None
