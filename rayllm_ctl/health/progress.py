"""How far a start has come, in words: of a pod, of a replica, of a cluster."""

from __future__ import annotations

import re

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.objects.image_pulls import pulled, pulling
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.objects.raycluster import RUNNING, RayCluster
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.model_downloads import COPY_CONTAINER, WAIT_CONTAINER
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.serve_state import Deployment, Replica

# What vLLM's log says when a stage begins, last match wins (texts of vLLM 0.29).
_STAGES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"Running tasks to download model files", "downloading the model"),
        (r"Starting to load model", "loading weights"),
        (r"Loading safetensors checkpoint shards:.*\| (\d+/\d+)", "loading weights ({} files)"),
        (r"Loading weights took", "weights are loaded"),
        (r"torch\.compile|Compiling a graph|Dynamo bytecode transform", "compiling"),
        (r"Capturing CUDA graph|Graph capturing", "capturing CUDA graphs"),
        (r"init engine .* took", "engine is up"),
    )
)


_DOING = ("waits", "held", "loading", "downloading", "compiling", "capturing", "weights", "engine")
"""How a detail begins that says what is done, and not where."""


def pod_step(context: ServiceContext, pod: Pod) -> tuple[str, str]:
    """A pod's state in one word, and where it is or what it waits for. Neither changes with time alone."""
    if pod.deleted is not None:
        return "Terminating", f"on {pod.node}" if pod.node else ""
    if not pod.node:
        return "Pending", _pending(pod)
    where = f"on {pod.node}"
    if context.node_down(pod):
        return "Lost", f"{where}, which is down"
    if pod.phase in ("Failed", "Succeeded"):
        return fields.text(pod.item, "status", "reason") or pod.phase, where
    gpus = f" · {pod.accelerators} GPUs" if pod.accelerators > 1 else " · 1 GPU" if pod.accelerators else ""
    if pod.up:
        down = next((one for one in pod.containers if not one.init and one.state != "running"), None)
        if down is not None:
            return down.reason or "Waiting", f"container {down.name}, {where}"
        starting = pod.head and not pod.ready
        return ("Starting", where) if starting else ("Running", f"{where}{gpus}")
    trouble = next(
        (
            one
            for one in pod.containers
            if one.state == "waiting" and one.reason not in ("", "ContainerCreating", "PodInitializing")
        ),
        None,
    )
    if trouble is not None:
        return trouble.reason, f"container {trouble.name}, {where}"
    image = pulling(context, pod)
    if image:
        return "Pulling", f"image {image} {where}"
    init = next((one for one in pod.containers if one.init and one.state == "running"), None)
    if init is not None and init.name == COPY_CONTAINER:
        return "Copying", f"the model from its bucket, {where}"
    if init is not None:
        return "Waiting", f"for the {'model' if init.name == WAIT_CONTAINER else 'head'}, {where}"
    done = pulled(context, pod)
    return ("Creating", f"{where}, image pulled in {done[1]}") if done and done[1] else ("Scheduled", where)


def server_step(context: ServiceContext, pod: Pod) -> tuple[str, str]:
    """A pod's state as `pod_step` says it; of a server that runs and takes no requests yet, what it does."""
    state, detail = pod_step(context, pod)
    if state != "Running" or pod.ready or pod.group != kuberay.SERVERS or pod.main is None:
        return state, detail
    return "Starting", _stage(context.container_log(pod.name, pod.main.name, current=True)) or detail


def replica_step(
    context: ServiceContext, cluster: RayCluster, deployment: Deployment, replica: Replica
) -> tuple[str, str]:
    """A replica's state as Serve calls it, and what it does: waits to be placed, loads, runs."""
    if replica.state in RUNNING:
        return replica.state, f"on {replica.pod}{_fate(cluster, replica.pod)}" if replica.pod else ""
    if replica.state != "STARTING":
        return replica.state, ""
    if not replica.pod:
        return replica.state, f"waits for {deployment.needs}" if deployment.needs else "waits to be placed"
    logs = context.logs_of([replica.pod], f"replica-{deployment.app}.")
    said = next((words for log in logs if (words := _stage(log))), "")
    return replica.state, said or f"on {replica.pod}"


def _fate(cluster: RayCluster, name: str) -> str:
    pod = next((one for one in cluster.pods if one.name == name), None)
    if pod is None:
        return "" if cluster.unseen else ", which is gone"
    return "" if pod.alive else ", which is being deleted"


def step(context: ServiceContext, cluster: RayCluster) -> str:
    """The step that a cluster's start is at: the first part that is not yet through."""
    head = cluster.head
    if head is None:
        return f"{cluster.name}: the head pod has not been created yet"
    if not head.ready:
        return _say("head", *pod_step(context, head))
    waiting = [pod for pod in cluster.workers if not pod.up]
    wanted = max(cluster.workers_wanted, len(cluster.workers))
    if waiting:
        number = len(cluster.workers) - len(waiting) + 1
        return _say(f"worker {number} of {wanted}", *pod_step(context, waiting[0]))
    if len(cluster.workers) < wanted:
        return f"worker {len(cluster.workers) + 1} of {wanted} has not been created yet"
    if not cluster.by_serve:
        return _server(context, cluster)
    for deployment in sorted(cluster.serve.deployments, key=lambda one: one.ingress):
        starting = [one for one in deployment.replicas if one.state == "STARTING"]
        if starting:
            return _say(f"replica of {deployment.name}", *replica_step(context, cluster, deployment, starting[0]))
    if not cluster.serve.applications:
        return "Serve has not answered yet" if cluster.serve.error else "Serve has not received its configuration yet"
    states = ", ".join(f"{app.name} {app.status}" for app in cluster.serve.applications)
    return f"applications: {states}"


def _server(context: ServiceContext, cluster: RayCluster) -> str:
    """What the first server that takes no requests yet does; or another worker that is not ready."""
    waiting = [pod for pod in cluster.servers if not pod.ready] or [pod for pod in cluster.workers if not pod.ready]
    if not waiting:
        return f"waiting for an address of service/{context.serve_service}"
    who = waiting[0]
    if who.group != kuberay.SERVERS:
        return _say(who.subject, "Starting", f"on {who.node}")
    number = cluster.servers.index(who) + 1
    return _say(f"server {number} of {cluster.servers_wanted}", *server_step(context, who))


def _say(who: str, state: str, detail: str) -> str:
    word = state.lower() if state.istitle() or state.isupper() else f"is in {state}"
    comma = "," if detail.startswith(_DOING) else ""
    return f"{who} {word}{comma} {detail}".rstrip()


def _pending(pod: Pod) -> str:
    scheduled = pod.condition("PodScheduled")
    if scheduled.get("reason") == "SchedulingGated":
        return "held by a scheduling gate"
    return "waits for a node" if scheduled.get("status") == "False" else "waits for the scheduler"


def _stage(log: str) -> str:
    found = ""
    for line in log.splitlines():
        for pattern, words in _STAGES:
            match = pattern.search(line)
            if match:
                found = words.format(*match.groups())
    return found
