"""The KubeRay operator, as far as its Deployment and pods may be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.objects.pod import Pod, read_pod
from rayllm_ctl.health.sentences.exceptions import last_line
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object


@dataclass(frozen=True)
class Operator:
    """`running` None: not visible. `why`: what keeps it from running."""

    running: bool | None
    subject: str
    namespace: str
    why: str = ""
    evidence: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()

    def watches(self, namespace: str) -> bool:
        return not self.watched or namespace in self.watched


def is_operator(item: Object) -> bool:
    """Whether a Deployment or Pod is (of) the KubeRay operator."""
    if kuberay.is_operator(fields.mapping(item, "metadata", "labels")):
        return True
    return fields.kind(item) == "Deployment" and fields.name(item) == kuberay.OPERATOR


def read_operator(deployments: Iterable[Object], pods: Iterable[Object], logs: Mapping[str, str]) -> Operator:
    """The operator's state. The Deployment counts; its pods say why it does not run."""
    deployment = next(iter(deployments), None)
    seen = [read_pod(item) for item in pods]
    alive = [pod for pod in seen if pod.alive]
    if deployment is None:
        if not seen:
            return Operator(None, f"deployment/{kuberay.OPERATOR}", "")
        namespace = fields.namespace(seen[0].item)
        running = any(_runs(pod) for pod in alive)
        why, evidence = ("", ()) if running else _why(alive, logs)
        return Operator(running, seen[0].subject, namespace, why, evidence, _watched(seen[0].item))
    namespace = fields.namespace(deployment)
    subject = f"deployment/{fields.name(deployment)}"
    watched = _watched(fields.mapping(deployment, "spec", "template"))
    wanted = fields.integer(deployment, "spec", "replicas", default=1)
    ready = fields.integer(deployment, "status", "readyReplicas")
    if wanted == 0:
        scaled = f"{subject} in namespace {namespace}: spec.replicas 0"
        return Operator(False, subject, namespace, "it is scaled to 0", (scaled,), watched)
    if ready > 0 or any(_runs(pod) for pod in alive):
        return Operator(True, subject, namespace, watched=watched)
    why, evidence = _why(alive, logs)
    return Operator(False, subject, namespace, why, (f"{subject}: 0 of {wanted} replicas ready", *evidence), watched)


def _runs(pod: Pod) -> bool:
    """Ready, or up without ever having crashed: on a busy node its probe may time out while it works."""
    return pod.ready or (pod.up and all(one.restarts == 0 for one in pod.containers))


def _why(pods: list[Pod], logs: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    for pod in pods:
        for container in pod.containers:
            if container.ready:
                continue
            ended = container.last_ended or container.ended
            if container.reason == "CrashLoopBackOff" or (ended and container.restarts):
                log = logs.get(f"{pod.name}/{container.name}.previous.log") or logs.get(
                    f"{pod.name}/{container.name}.log", ""
                )
                said = last_line(log)
                code = f" with exit code {ended.code}" if ended else ""
                killed = ", OOMKilled" if ended and ended.reason == "OOMKilled" else ""
                evidence = f"{pod.subject}: {container.name} restarted {container.restarts} times{code}{killed}"
                return f"it keeps exiting{code}{killed}", (evidence, f"log: {said}" if said else "")
            if container.state == "waiting" and container.reason not in ("ContainerCreating", "PodInitializing"):
                evidence = f"{pod.subject}: {container.reason}: {' '.join(container.message.split())[:300]}"
                return f"its pod is in {container.reason}", (evidence,)
        scheduled = pod.condition("PodScheduled")
        if scheduled.get("status") == "False":
            return "its pod cannot be scheduled", (f"{pod.subject}: {fields.text(scheduled, 'message')}",)
    return ("no pod of it is ready", tuple(f"{pod.subject}: {pod.phase}" for pod in pods))


def _watched(template: Object) -> tuple[str, ...]:
    """The namespaces of --watch-namespace; empty: all."""
    for container in fields.items(template, "spec", "containers"):
        arguments = (*fields.words(container, "command"), *fields.words(container, "args"))
        for index, argument in enumerate(arguments):
            flag, _, value = argument.lstrip("-").partition("=")
            if flag == "watch-namespace":
                value = value or (arguments[index + 1] if index + 1 < len(arguments) else "")
                return tuple(part.strip() for part in value.split(",") if part.strip())
    return ()
