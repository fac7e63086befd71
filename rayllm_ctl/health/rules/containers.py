"""Containers that end or do not start: for lack of memory or of a GPU, killed by a probe, or on their own."""

from __future__ import annotations

import re

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.events import ObjectEvent
from rayllm_ctl.health.objects.pod import Container, Exit, Pod
from rayllm_ctl.health.sentences.classify import classify, sentence_hints
from rayllm_ctl.health.sentences.exceptions import last_line, one_line
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint

AUTOSCALER = "autoscaler"
"""Name of the sidecar that KubeRay adds to the head pod."""

_GCS = re.compile(
    r"(?:connect to|reach|from) (?:the )?GCS|GCS (?:server|service)? ?.*(?:unavailable|not (?:reachable|ready))", re.I
)
"""Last words of Ray on a worker that does not reach the head."""

FRESH = 300.0
"""Seconds within which the end of a container's last life still explains why it is not ready."""

_QUICK = 20.0
"""A container that lives shorter than this twice in a row will not start: a start that is only slow lasts longer."""

_YOUNG = 60.0
"""Seconds of its present life in which a container that has died twice may still be about to die again."""

_OFTEN = 3
"""Restarts from which a container that is up at the moment counts as failing repeatedly."""


def out_of_memory(context: ServiceContext, pod: Pod) -> Finding | None:
    """OOMKilled by the kernel (exit code 137, or 1), unless that is over and the container is well again."""
    for container in pod.containers:
        ended = _telling_end(context, pod, container)
        if ended is None or ended.reason != "OOMKilled":
            continue
        limit = container.memory_limit or "no limit of its own: the node ran out"
        times = f", {container.restarts} restarts" if container.restarts else ""
        return finding(
            "OOMKilled",
            pod.subject,
            f"container {container.name} of {pod.subject} was OOMKilled: its memory limit is {limit}{times}",
            headline=f"the {pod.role}'s memory limit of {container.memory_limit or 'the node'} is too small",
            evidence=(
                f"{pod.subject}: {container.name} terminated: OOMKilled, exit code {ended.code}, limit {limit}{times}",
            ),
            hint=memory_hints(context, pod),
            # A service that has never served dies of the same limit again; one that served may have met a rare load.
            terminal=container.restarts > 0 or not _served(context),
            since=ended.finished or pod.created,
            key=(pod.cluster, pod.group, container.name),
        )
    return None


def crash(context: ServiceContext, pod: Pod) -> Finding | None:
    """A container that keeps exiting, cannot be started at all, or ended for good."""
    for container in pod.containers:
        if container.state == "waiting" and container.reason in (
            "CreateContainerError",
            "RunContainerError",
            "StartError",
        ):
            return _unstartable(context, pod, container)
        ended = _telling_end(context, pod, container)
        if ended is None:
            continue
        if _killed_by_probe(context, pod, container) is not None:
            continue
        if not _repeats(context, pod.never_restarts, container, ended):
            continue
        said = ended.message or last_line(context.container_log(pod.name, container.name))
        code = _code(context, pod, container, said)
        times = f", {container.restarts} restarts" if container.restarts else ""
        sidecar = container.name == AUTOSCALER
        what = "the Ray autoscaler" if sidecar else f"container {container.name}"
        again = "keeps exiting" if container.restarts else "has exited"
        previous = " --previous" if container.restarts else ""
        return finding(
            code,
            pod.subject,
            f"{what} of {pod.subject} {again} with exit code {ended.code}{times}"
            + (f": {one_line(said, 300)}" if said else ""),
            headline=f"{what} {again}",
            evidence=(
                f"{pod.subject}: {container.name} {container.reason or 'terminated'}, last exit code {ended.code} "
                f"({ended.reason or 'no reason'}){times}",
                f"log of {container.name}: {one_line(said, 400)}" if said else "",
            ),
            hint=(
                *_crash_hints(context, pod, code, said),
                Hint(f"kubectl logs {pod.name} -c {container.name} -n {context.namespace}{previous}"),
            ),
            terminal=code != "HeadUnreachable" and _hopeless(pod, container, ended),
            since=ended.finished or pod.created,
            key=(pod.cluster, pod.group, container.name),
        )  # fmt: skip
    return None


def _code(context: ServiceContext, pod: Pod, container: Container, said: str) -> str:
    """What a container that ends stands for, by its last words."""
    if container.name == AUTOSCALER:
        return "AutoscalerFailed"
    cluster = context.cluster_of(pod)
    head = cluster.head if cluster is not None else None
    if _GCS.search(said) and not pod.head and head is not None and head.ready:
        ready = fields.when(head.condition("Ready"), "lastTransitionTime")
        if context.age(ready) > FRESH:
            return "HeadUnreachable"
    return "AcceleratorFault" if classify(said) == "AcceleratorFault" else "ContainerCrash"


def _crash_hints(context: ServiceContext, pod: Pod, code: str, said: str) -> tuple[Hint, ...]:
    match code:
        case "HeadUnreachable":
            return (Hint(f"kubectl get networkpolicy -n {context.namespace}", "one that keeps workers from the head"),)
        case "AcceleratorFault":
            return sentence_hints(said, **hint_values(context, pod))
        case _:
            return ()


def killed_by_probe(context: ServiceContext, pod: Pod) -> Finding | None:
    """A container that the kubelet restarts because its liveness or startup probe fails."""
    for container in pod.containers:
        killing = _killed_by_probe(context, pod, container)
        if killing is None or container.ready:
            continue
        failed = [
            event
            for event in context.events.of("Pod", pod.name, "Unhealthy")
            if "iveness" in event.message or "tartup" in event.message
        ]
        why = one_line(failed[-1].message, 300) if failed else "its probe fails"
        return finding(
            "ProbeFailing",
            pod.subject,
            f"container {container.name} of {pod.subject} keeps being restarted because its probe fails: {why}",
            headline=f"the probe of container {container.name} fails",
            evidence=(killing.quoted(), *(event.quoted() for event in failed[-1:])),
            hint=(Hint(f"kubectl describe pod {pod.name} -n {context.namespace}"),
                  Hint(f"kubectl logs {pod.name} -c {container.name} -n {context.namespace} --previous")),
            since=killing.first,
            key=(pod.cluster, pod.group, container.name),
        )  # fmt: skip
    return None


def memory_hints(context: ServiceContext, pod: Pod | None) -> tuple[Hint, ...]:
    """How to give the pods of a role more memory."""
    look = Hint(f"kubectl top pod -n {context.namespace} --containers")
    if pod is not None and pod.head:
        return (Hint(f"kubectl edit {context.resource} -n {context.namespace}", "memory of headGroupSpec"), look)
    return (Hint(f"{context.deploy} --memory QUANTITY", "a larger limit for the workers"), look)


def _telling_end(context: ServiceContext, pod: Pod, container: Container) -> Exit | None:
    """How the container ended, if that still matters: it is down, just came back and is not ready, or dies often."""
    if container.state == "terminated":
        # An init container that has done its work has ended well.
        return container.ended if container.ended and (not container.init or container.ended.code) else None
    ended = container.last_ended
    if ended is None or container.state == "waiting":
        return ended
    cluster = context.cluster_of(pod)
    recent = context.age(ended.finished) <= FRESH and not (cluster is not None and cluster.complete)
    return ended if recent and (not container.ready or container.restarts >= _OFTEN) else None


def _repeats(context: ServiceContext, never_restarts: bool, container: Container, ended: Exit) -> bool:
    """One exit at the start is common on a busy node; a second one, or one without a restart, is a crash."""
    if container.reason == "CrashLoopBackOff" or container.restarts >= _OFTEN:
        return True
    if container.state == "terminated":
        return never_restarts or container.restarts > 0 or context.age(ended.finished) > 30
    return container.restarts >= 2 and not container.ready and context.age(container.started) <= _YOUNG


def _hopeless(pod: Pod, container: Container, ended: Exit) -> bool:
    """Whether it will exit again. KubeRay replaces a pod that is not restarted: a late first exit may be the last."""
    lived = (ended.finished - ended.started).total_seconds() if ended.finished and ended.started else _QUICK
    return container.restarts >= _OFTEN or ((pod.never_restarts or container.restarts >= 1) and lived < _QUICK)


def _killed_by_probe(context: ServiceContext, pod: Pod, container: Container) -> ObjectEvent | None:
    """The kubelet's event of a second kill for a failed probe. One is common at a start on a busy node."""
    kills = [
        event for event in context.events.of("Pod", pod.name, "Killing")
        if event.message.startswith(f"Container {container.name} failed ") and "probe" in event.message
    ]  # fmt: skip
    if sum(event.count for event in kills) < 2 or context.age(kills[-1].last) > FRESH:
        return None
    return kills[-1]


def _unstartable(context: ServiceContext, pod: Pod, container: Container) -> Finding:
    """The runtime cannot start the container: a wrong command, or a GPU or driver that NVIDIA's hook does not find."""
    fault = classify(container.message) == "AcceleratorFault"
    hints = sentence_hints(container.message, **hint_values(context, pod)) if fault else ()
    return finding(
        "AcceleratorFault" if fault else "ContainerCrash",
        pod.subject,
        f"container {container.name} of {pod.subject} cannot be started: {one_line(container.message, 400)}",
        headline=f"container {container.name} cannot be started",
        evidence=(f"{pod.subject}: {container.name} {container.reason}: {one_line(container.message, 400)}",),
        hint=(*hints, Hint(f"kubectl describe pod {pod.name} -n {context.namespace}")),
        terminal=True,
        since=pod.created,
        key=(pod.cluster, pod.group, container.name),
    )


def hint_values(context: ServiceContext, pod: Pod | None) -> dict[str, str]:
    """What the hints of a sentence are about."""
    container = pod.main.name if pod is not None and pod.main is not None else "ray-worker"
    name = pod.name if pod is not None else "POD"
    return {
        "deploy": context.deploy,
        "restart": f"rayllm-ctl restart {context.name} -n {context.namespace}",
        "exec": f"kubectl exec -n {context.namespace} {name} -c {container}",
        "node": pod.node if pod is not None and pod.node else "NODE",
        "ns": context.namespace,
    }


def _served(context: ServiceContext) -> bool:
    """Whether the service has ever served: then its active cluster was ready once."""
    return context.service is not None and bool(context.service.active)
