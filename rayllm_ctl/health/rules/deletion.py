"""What keeps a deleted service from being gone."""

from __future__ import annotations

from collections.abc import Sequence

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.text.hint import Hint

_OVERDUE = 60.0
"""Seconds past its grace period at which a pod hangs: the kubelet itself needs some, and a busy node more."""

_ON_A_DEAD_NODE = 10.0

_HELD = 10.0
"""Seconds past its end at which a pod with a finalizer hangs: whoever set it has had its turn."""

_FOREIGN = 20.0
_OWN = 45.0
"""Seconds for KubeRay's own finalizers, which go within seconds, or after a job that cleans up Redis."""

_HARMLESS = ("foregroundDeletion", "orphan")
"""Finalizers of the garbage collector: they wait for what the object owns, which is looked at itself."""


def deletion_blocked(context: ServiceContext) -> Finding | None:
    """A pod that does not end, or an object whose finalizer nobody takes away."""
    for pod in context.pods:
        if pod.deleted is not None:
            found = _pod(context, pod)
            if found is not None:
                return found
    owned = (*context.ray_clusters, *((context.service.item,) if context.service else ()))
    for item in owned:
        found = _object(context, item)
        if found is not None:
            return found
    return None


def _pod(context: ServiceContext, pod: Pod) -> Finding | None:
    late = context.age(pod.deleted)
    finalizers = [name for name in fields.words(pod.item, "metadata", "finalizers") if name not in _HARMLESS]
    ended = pod.phase in ("Failed", "Succeeded") or all(
        one.state == "terminated" for one in pod.containers if not one.init
    )
    if finalizers and ended and late > _HELD:
        return _blocked(context, pod.subject, finalizers, f"{pod.subject} has ended", late, f"pod {pod.name}")
    down = context.node_down(pod)
    if late <= (_ON_A_DEAD_NODE if down else _OVERDUE):
        return None
    why = f"its node {pod.node} is down" if down else f"its containers on {pod.node} have not ended"
    return finding(
        "DeletionBlocked",
        pod.subject,
        f"{pod.subject} should have been gone {late:.0f} s ago: {why}",
        headline="a pod does not end",
        evidence=(f"{pod.subject}: deletionTimestamp {pod.deleted:%H:%M:%S}, phase {pod.phase}, node {pod.node}",),
        hint=(Hint(f"kubectl describe pod {pod.name} -n {context.namespace}"),
              Hint(f"kubectl delete pod {pod.name} -n {context.namespace} --force --grace-period=0",
                   "if its node is lost")),
        since=pod.deleted,
    )  # fmt: skip


def _object(context: ServiceContext, item: Object) -> Finding | None:
    moment = fields.deleted(item)
    finalizers = [name for name in fields.words(item, "metadata", "finalizers") if name not in _HARMLESS]
    if moment is None or not finalizers:
        return None
    late = context.age(moment)
    own = all(name.startswith("ray.io/") for name in finalizers)
    idle = context.operator.running is False
    if late <= (_OWN if own and not idle else _FOREIGN):
        return None
    kind = fields.kind(item).lower()
    subject = f"{kind}/{fields.name(item)}"
    told = f"{subject} was deleted"
    if own and idle:
        told += (
            f", and the KubeRay operator, which has to take the finalizer away, does not run ({context.operator.why})"
        )
    return _blocked(
        context,
        subject,
        finalizers,
        told,
        late,
        f"{kind} {fields.name(item)}",
        context.operator.evidence if idle else (),
    )


def _blocked(
    context: ServiceContext,
    subject: str,
    finalizers: Sequence[str],
    told: str,
    late: float,
    kind_name: str,
    more: Sequence[str] = (),
) -> Finding:
    names = ", ".join(finalizers)
    redis = (Hint(f"kubectl get jobs -n {context.namespace}"),) if any("redis" in name for name in finalizers) else ()
    return finding(
        "DeletionBlocked",
        subject,
        f"{told}, but its finalizer {names} has not been removed for {late:.0f} s",
        headline=f"the finalizer {names} blocks the deletion",
        evidence=(f"{subject}: metadata.finalizers {names}", *more),
        hint=(
            *redis,
            Hint(f"kubectl get {kind_name} -n {context.namespace} -o yaml"),
            Hint(
                f"kubectl patch {kind_name} -n {context.namespace} --type merge "
                '-p \'{"metadata":{"finalizers":null}}\'',
                "by force: what the finalizer was to do is then left undone",
            ),
        ),
    )
