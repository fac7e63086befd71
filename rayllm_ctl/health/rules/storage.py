"""Volumes, Secrets and ConfigMaps that keep a pod from starting."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.events import ONGOING, ObjectEvent
from rayllm_ctl.health.objects.pod import Container, Pod
from rayllm_ctl.health.rules.modelstorage.hints import access_modes_hints, zone_hints
from rayllm_ctl.health.sentences.exceptions import one_line
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint

GRACE = 10.0
"""Seconds after which a missing Secret or ConfigMap ends a wait: an operator that syncs secrets needs a moment."""

UNPROVISIONED = 30.0
"""Seconds for a volume to be provisioned before the pod that waits for it counts as held up."""

_MISSING = re.compile(
    r"(?P<kind>secret|configmap|serviceaccount)s? \"(?P<name>[^\"]+)\" not found|"
    r"couldn't find key (?P<key>\S+) in (?P<kind2>Secret|ConfigMap) (?:[^/\s]+/)?(?P<name2>[^\s,;]+)|"
    r"references non-existent (?P<kind3>secret|config) key: (?P<key3>\S+)",
    re.I,
)
_TRANSIENT = re.compile(
    r"not registered|failed to sync (?:secret|configmap) cache|object \"[^\"]+\"/\"kube-root-ca.crt\""
)
_UNBOUND = re.compile(
    r"PersistentVolumeClaim|persistentvolumeclaim|volume node affinity conflict|persistent volumes to bind|"
    r"enough free storage|max volume count|pvc\(s\) bound to non-existent|binding volumes"
)
_MOUNT_REASONS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume", "VolumeResizeFailed")
_VOLUME = re.compile(r"for volume \"([^\"]+)\"")


def configuration(context: ServiceContext, pod: Pod) -> Finding | None:
    """CreateContainerConfigError: a Secret, a ConfigMap or a key of one is missing."""
    for container in pod.containers:
        if container.state == "waiting" and container.reason == "CreateContainerConfigError":
            events = context.events.of("Pod", pod.name, "Failed")
            first = next((event.first for event in events if container.message in event.message), pod.created)
            if not _MISSING.search(container.message):
                return _unusable(context, pod, container)
            evidence = (f"{pod.subject}: container {container.name}: {container.reason}: {container.message}",)
            return _missing(context, pod, container.message, evidence, first)
    return None


def unmounted(context: ServiceContext, pod: Pod) -> Finding | None:
    """Volumes that the kubelet cannot mount or attach, while the containers wait for them."""
    if not pod.node or not _waits_for_volumes(pod):
        return None
    failed = [
        event for event in context.events.of("Pod", pod.name, *_MOUNT_REASONS) if not _TRANSIENT.search(event.message)
    ]
    if not failed or context.age(failed[-1].last) > ONGOING:
        return None
    # "Unable to attach or mount volumes: … timed out" only sums up what the other events explain.
    event = next(
        (one for one in reversed(failed) if not one.message.startswith("Unable to attach or mount")), failed[-1]
    )
    if _MISSING.search(event.message):
        return _missing(context, pod, event.message, (event.quoted(),), event.first)
    return _unmountable(context, pod, event)


def unbound(context: ServiceContext, pod: Pod, sentence: str) -> Finding | None:
    """A pod that is not scheduled because of a claim; `sentence` is what the scheduler wrote."""
    if not _UNBOUND.search(sentence):
        return None
    quoted = re.search(r"persistentvolumeclaim \"([^\"]+)\" not found", sentence)
    if quoted:
        return _claim_problem(context, pod, quoted[1], "does not exist", (f"{pod.subject}: {sentence}",), terminal=True)
    for name in _claims(pod):
        claim = context.claim(name)
        phase = fields.text(claim, "status", "phase")
        if claim is not None and phase != "Bound":
            told_of = context.events.of("PersistentVolumeClaim", name)
            trouble = [event for event in told_of if event.warning] or told_of
            why = f": {one_line(trouble[-1].message, 300)}" if trouble else ""
            storage = fields.text(claim, "spec", "storageClassName")
            size = fields.text(claim, "spec", "resources", "requests", "storage")
            told = f"is {phase or 'Pending'} (storage class {storage or 'none'}, {size or 'no size'}){why}"
            evidence = (*(event.quoted() for event in trouble[-2:]), f"{pod.subject}: {sentence}")
            return _claim_problem(context, pod, name, told, evidence, terminal=phase == "Lost")
    names = ", ".join(_claims(pod)) or "a claim"
    elsewhere = "node affinity conflict" in sentence
    told = "has its volume in another zone or on another node than" if elsewhere else "cannot be used:"
    who = " the nodes that the pod may run on:" if elsewhere else ""
    return _claim_problem(
        context, pod, names, f"{told}{who} {sentence}", (f"{pod.subject}: {sentence}",), terminal=False,
        more=zone_hints(context, pod, next(iter(_claims(pod)), "")) if elsewhere else (),
    )  # fmt: skip


def unprovisioned(context: ServiceContext, pod: Pod) -> Finding | None:
    """A pod for which the scheduler has chosen a node in silence, and waits for a volume that nobody provisions."""
    if pod.node or pod.condition("PodScheduled") or context.age(pod.created) < UNPROVISIONED:
        return None
    claims = [claim for name in _claims(pod) if (claim := context.claim(name)) is not None]
    if all(fields.text(claim, "status", "phase") == "Bound" for claim in claims):
        return None
    return unbound(context, pod, "PersistentVolumeClaim not bound")


def _claim_problem(
    context: ServiceContext, pod: Pod, name: str, told: str, evidence: Sequence[str], *, terminal: bool,
    more: Sequence[Hint] = (),
) -> Finding:  # fmt: skip
    return finding(
        "VolumeNotReady",
        f"persistentvolumeclaim/{name}",
        f"the volume claim {name} of {pod.subject} {told}",
        headline=f"the volume claim {name} is not ready",
        evidence=evidence,
        hint=(*more, Hint(f"kubectl describe pvc {name} -n {context.namespace}"), Hint("kubectl get storageclass")),
        terminal=terminal,
        since=fields.when(pod.condition("PodScheduled"), "lastTransitionTime") or pod.created,
        key=(name,),
    )


def _unmountable(context: ServiceContext, pod: Pod, event: ObjectEvent) -> Finding:
    named = _VOLUME.search(event.message)
    volume = next(
        (one for one in fields.items(pod.item, "spec", "volumes") if named and one.get("name") == named[1]), {}
    )
    path = fields.text(volume, "hostPath", "path")
    claim = fields.text(volume, "persistentVolumeClaim", "claimName") or _claim_of(
        context, pod, named[1] if named else ""
    )
    elsewhere = claim and event.message.startswith("Multi-Attach error")
    source = f" (folder {path} of the node)" if path else f" (claim {claim})" if claim else ""
    what = f"volume {named[1]}" if named else "a volume"
    return finding(
        "VolumeNotReady",
        pod.subject,
        f"{what}{source} of {pod.subject} cannot be mounted on {pod.node}: {one_line(event.message, 400)}",
        headline=f"{what} cannot be mounted",
        evidence=(event.quoted(),),
        hint=(*(access_modes_hints(context, pod, claim) if elsewhere else ()),
              Hint(f"kubectl describe pvc {claim} -n {context.namespace}")) if claim
        else (Hint(f"kubectl describe pod {pod.name} -n {context.namespace}"),),
        terminal="type check failed" in event.message and context.age(event.first) >= GRACE,
        since=event.first,
        key=(what, source),
    )  # fmt: skip


def _claim_of(context: ServiceContext, pod: Pod, volume: str) -> str:
    """The claim of a pod that is bound to a PersistentVolume, which the events of attaching name."""
    return next(
        (name for name in _claims(pod) if volume and fields.text(context.claim(name), "spec", "volumeName") == volume),
        "",
    )


def _missing(
    context: ServiceContext, pod: Pod, message: str, evidence: Sequence[str], since: datetime | None
) -> Finding:
    """What is missing, by the kubelet's words; a volume's event may name only the key."""
    found = _MISSING.search(message)
    groups = found.groupdict() if found else {}
    kind = (groups.get("kind") or groups.get("kind2") or groups.get("kind3") or "").lower()
    kind = {
        "secret": "Secret",
        "configmap": "ConfigMap",
        "config": "ConfigMap",
        "serviceaccount": "ServiceAccount",
    }.get(kind, "")
    name = groups.get("name") or groups.get("name2") or _source_name(pod, message, kind)
    key = groups.get("key") or groups.get("key3") or ""
    told = f"the {kind} {name} has no key {key}" if key else f"the {kind} {name} does not exist"
    first = since if since is not None else pod.created
    return finding(
        "MissingSecretOrConfig",
        pod.subject,
        f"{told} in namespace {context.namespace}; {pod.subject} needs it",
        headline=told,
        evidence=evidence,
        hint=(
            Hint(f"kubectl get {kind.lower()} {name} -n {context.namespace}"),
            _create(kind, name, key, context.namespace),
        ),
        terminal=context.age(first) >= GRACE,
        since=first,
        key=(kind, name, key),
    )


def _create(kind: str, name: str, key: str, namespace: str) -> Hint:
    if kind == "ServiceAccount":
        return Hint(f"kubectl create serviceaccount {name} -n {namespace}")
    what = "secret generic" if kind == "Secret" else "configmap"
    return Hint(f"kubectl create {what} {name} -n {namespace} --from-file={key or 'KEY'}=FILE")


def _source_name(pod: Pod, message: str, kind: str) -> str:
    """The Secret or ConfigMap behind the volume that an event names."""
    named = _VOLUME.search(message)
    for volume in fields.items(pod.item, "spec", "volumes"):
        if named and volume.get("name") == named[1]:
            return (
                fields.text(volume, "secret", "secretName")
                if kind == "Secret"
                else fields.text(volume, "configMap", "name")
            ) or named[1]
    return "of a volume"


def _unusable(context: ServiceContext, pod: Pod, container: Container) -> Finding:
    """The container's configuration contradicts itself, such as runAsNonRoot with an image that runs as root."""
    return finding(
        "VolumeNotReady" if "subpath" in container.message.lower() else "ContainerCrash",
        pod.subject,
        f"container {container.name} of {pod.subject} cannot be created: {one_line(container.message, 400)}",
        headline=f"container {container.name} cannot be created",
        evidence=(f"{pod.subject}: {container.reason}: {container.message}",),
        hint=(Hint(f"kubectl describe pod {pod.name} -n {context.namespace}"),),
        terminal=True,
        since=pod.created,
        key=(container.name, container.message),
    )


def _waits_for_volumes(pod: Pod) -> bool:
    if pod.condition("PodReadyToStartContainers").get("status") == "True":
        return False
    states = [container for container in pod.containers if container.state == "waiting"]
    return not pod.containers or (
        len(states) == len(pod.containers)
        and all(one.reason in ("ContainerCreating", "PodInitializing", "") for one in states)
    )


def _claims(pod: Pod) -> list[str]:
    names = (
        fields.text(one, "persistentVolumeClaim", "claimName") for one in fields.items(pod.item, "spec", "volumes")
    )
    return [name for name in names if name]
