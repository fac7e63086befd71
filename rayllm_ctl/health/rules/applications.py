"""Applications that Serve cannot start or keep: the exception behind it, by what it stands for."""

from __future__ import annotations

import re
from datetime import datetime

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.rules.containers import hint_values, memory_hints
from rayllm_ctl.health.sentences.classify import classify, may_pass, sentence_hints
from rayllm_ctl.health.sentences.exceptions import DEATH, StartFailure, one_line, read_exceptions, read_failure, reason
from rayllm_ctl.model.observed.serve_logs import SLOW_START, controller_log, replica_logs
from rayllm_ctl.model.observed.serve_state import Application, Deployment
from rayllm_ctl.model.text.hint import Hint

_DEFINITE = frozenset({"ModelNotFound", "ModelAccessDenied", "EngineOutOfMemory", "OOMKilled"})
"""Causes that the next of Serve's three tries meets as well."""

_LACKS_PODS = re.compile(r"placement.group|No available node types|insufficient resources|no GPU available", re.I)
"""Exceptions of an engine that waited for resources without success."""

_NODE_IP = re.compile(r"\(IP: ([\d.a-f:]+)")

HEADLINES = {
    "OOMKilled": "Ray's memory monitor killed a replica",
    "AcceleratorFault": "GPU, driver and image do not fit, or the GPU is broken",
    "HubUnreachable": "the model's hub cannot be reached",
    "EngineOutOfMemory": "the engine does not fit in memory",
    "ModelNotFound": "the model does not exist",
    "ModelAccessDenied": "access to the model is denied",
    "ApplicationFailed": "the application fails to start",
}


def application_failed(context: ServiceContext, cluster: RayCluster, app: Application) -> Finding | None:
    """DEPLOY_FAILED, or a replica's start that has failed already and is tried again."""
    for deployment in sorted(app.deployments, key=lambda one: one.status != "DEPLOY_FAILED"):
        found = _deployment_failed(context, cluster, app, deployment)
        if found is not None:
            return found
    if app.status != "DEPLOY_FAILED":
        return None
    failure = read_failure(app.message)
    if failure is None:
        text = one_line(app.message) or "Serve gives no reason"
        failure = StartFailure(classify(text), text, False)
    return _failed(context, cluster, app, None, failure)


def _deployment_failed(
    context: ServiceContext, cluster: RayCluster, app: Application, deployment: Deployment
) -> Finding | None:
    failed = deployment.status in ("DEPLOY_FAILED", "UNHEALTHY") or app.status in ("DEPLOY_FAILED", "UNHEALTHY")
    if deployment.status in ("HEALTHY", ""):
        return None
    if not failed and SLOW_START in deployment.message:
        earlier = _failed_before(context, cluster, deployment)
        return _failed(context, cluster, app, deployment, earlier) if earlier else None
    failure = read_failure(deployment.message)
    if failure is None and deployment.status != "DEPLOY_FAILED":
        return None
    if failure is None or failure.wrapped:
        failure = _from_logs(context, cluster, deployment) or failure
    if failure is None:
        text = one_line(deployment.message) or "Serve gives no reason"
        failure = StartFailure(classify(text), text, False)
    if failure.code == "ApplicationFailed" and deployment.status == "UNHEALTHY" and DEATH.search(failure.text):
        return None
    return _failed(context, cluster, app, deployment, failure)


def _failed_before(context: ServiceContext, cluster: RayCluster, deployment: Deployment) -> StartFailure | None:
    """Why an earlier try failed, where Serve's warning of a slow start took the place of its message about that.

    On a cluster that has served, the replicas that ended may have ended well, whatever their logs say.
    """
    if not deployment.dead or (context.service and context.service.active == cluster.name):
        return None
    head = [cluster.head.name] if cluster.head else []
    said = [read_failure(log) for log in context.logs_of(head, controller_log(deployment.app, deployment.name))]
    failure = said[0] if said else None
    if failure is None or failure.wrapped:
        failure = _from_logs(context, cluster, deployment) or failure
    return None if failure and DEATH.search(failure.text) else failure


def _from_logs(context: ServiceContext, cluster: RayCluster, deployment: Deployment) -> StartFailure | None:
    """The root exception in the files of the deployment's replicas: Serve's answer says only that there is one."""
    prefix = replica_logs(deployment.app, deployment.name)
    pods = {pod.name for pod in cluster.pods} | {replica.pod for replica in deployment.dead if replica.pod}
    found = [read_exceptions(log) for log in context.logs_of(sorted(pods), prefix)]
    return next((failure for failure in reversed(found) if failure is not None), None)


def _failed(
    context: ServiceContext, cluster: RayCluster, app: Application, deployment: Deployment | None, failure: StartFailure
) -> Finding:
    where = f"application {app.name}" + (f", deployment {deployment.name}" if deployment else "")
    status = f"{where}: {deployment.status if deployment else app.status}"
    pod = _pod_of(cluster, deployment, failure)
    limit = ""
    if failure.code == "OOMKilled" and pod is not None:
        limit = f"; the memory limit of {pod.subject} is {pod.memory_limit or 'that of its node'}"
    code = failure.code
    final = app.status == "DEPLOY_FAILED"
    served = bool(context.service and context.service.active)
    return finding(
        code,
        f"application/{app.name}",
        f"{where} fails: {one_line(reason(failure.text), 320)}{limit}",
        headline=HEADLINES[code],
        evidence=(
            status,
            failure.text,
            f"{pod.subject}: memory limit {pod.memory_limit}" if limit and pod else "",
        ),
        hint=failure_hints(context, cluster, code, failure, pod),
        terminal=final or (is_definite(failure) and not served),
        since=_failing_since(app, deployment),
        key=(cluster.name, code, failure.text),
        consequence=code == "OOMKilled" or bool(DEATH.search(failure.text) or _LACKS_PODS.search(failure.text)),
    )


def _failing_since(app: Application, deployment: Deployment | None) -> datetime | None:
    """When it began to fail: with its first start after the configuration came, or, of one that ran, with the start of
    what replaces a replica. None if that is not known."""
    if app.status == "UNHEALTHY" or (deployment is not None and deployment.status == "UNHEALTHY"):
        coming = [one.started for one in deployment.replicas if one.state == "STARTING"] if deployment else []
        return min((moment for moment in coming if moment is not None), default=None)
    tries = [one.started for one in (*deployment.dead, *deployment.replicas)] if deployment else []
    after = [moment for moment in tries if moment is not None and (app.deployed is None or moment >= app.deployed)]
    return min(after, default=app.deployed)


def _pod_of(cluster: RayCluster, deployment: Deployment | None, failure: StartFailure) -> Pod | None:
    """The pod that an exception speaks of: by the address in it, else by the replica's last place."""
    address = _NODE_IP.search(failure.text)
    by_address = [pod for pod in cluster.pods if address and pod.ip == address[1]]
    if by_address:
        return by_address[0]
    places = [replica.pod for replica in (*deployment.replicas, *deployment.dead) if replica.pod] if deployment else []
    return next((pod for pod in cluster.pods if pod.name in places), None)


def is_definite(failure: StartFailure) -> bool:
    """Whether the next try meets the same failure."""
    return failure.code in _DEFINITE and not may_pass(failure.text, failure.frames)


def failure_hints(
    context: ServiceContext, cluster: RayCluster, code: str, failure: StartFailure, pod: Pod | None
) -> tuple[Hint, ...]:
    """What to type next: what the exception's own sentence calls for, else what helps against its code."""
    head = cluster.head.name if cluster.head else f"{cluster.name}-head"
    logs = Hint(f"rayllm-ctl logs {context.name} -n {context.namespace}")
    if code == "OOMKilled":
        return memory_hints(context, pod)
    own = sentence_hints(failure.text, failure.frames, **hint_values(context, pod))
    if own:
        return own if code in HEADLINES and code != "ApplicationFailed" else (*own, logs)
    match code:
        case "ModelNotFound":
            if re.search(r"['\"]/|No such (?:model directory|file)", failure.text):
                return (
                    Hint(
                        "rayllm-ctl deploy … --volume KIND:SOURCE:PATH --model-path FOLDER",
                        "a folder that the pods have",
                    ),
                    Hint(f"kubectl exec -n {context.namespace} {head} -c ray-head -- ls /models"),
                )
            return (Hint("rayllm-ctl deploy … --model NAME --revision REVISION", "as the hub writes them"), logs)
        case "ModelAccessDenied":
            return (
                Hint("rayllm-ctl deploy … --hf-token-secret NAME/KEY", "a token whose owner has been granted access"),
                Hint(f"kubectl create secret generic hf-token -n {context.namespace} --from-file=token=FILE"),
            )
        case _:
            return (Hint("rayllm-ctl deploy …", "after correcting what the exception names"), logs)
