"""The pod templates of head and workers: what the user asks of the pods, what the service needs, and where they run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.model.kube.labels import SERVICE
from rayllm_ctl.model.plan.plan import GPUChoice, StartupPlan
from rayllm_ctl.model.plan.pods import EnvVar, PodPlacement, PodTemplate
from rayllm_ctl.model.spec.pod_contexts import container_context, pod_context
from rayllm_ctl.model.spec.pod_options import EnvironmentVariable, KeyOf, PodOptions
from rayllm_ctl.model.spec.ray_options import logging_environment
from rayllm_ctl.model.spec.service import LLMService, Scheduling, Toleration
from rayllm_ctl.planner.deployment.affinity import affinity

ENGINE_START_SECONDS = 3600
"""Ray Serve LLM's limit for the start of an engine, unless the variable below says otherwise."""

START_LIMIT = "RAYLLM_ENGINE_START_TIMEOUT_S"
"""The variable with that limit, in seconds."""

LOST_NODE = {
    "RAY_grpc_client_keepalive_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "1",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "50000",
}
"""Variables by which Ray notices within five seconds that a node is gone. Its requests go to another replica only when
Ray's GCS has declared the node dead.

Keepalive: how long nothing is acknowledged before a connection is given up; gRPC takes it as TCP_USER_TIMEOUT too (gRFC
A18). The kernel acknowledges, so that a node that is only busy keeps its connections. Serve replaces a replica as soon
as its connection is lost; that the node is checked once, and every second, costs no replica that would live. Each check
more would wait for a new connection for as long as a check may take, where the network says nothing of packets that it
drops. A raylet that is only slow keeps the time that Ray gives it: five checks of 10 s.

With Ray's 120 s, and five checks with 3 s between them (src/ray/common/ray_config_def.h), the loss of a node stopped a
service for two minutes, although another replica ran; with 10 s for 20 to 23 s; with 5 s and five checks, one a second,
for 10 s; so for 4 s.
"""


def head_template(service: LLMService, startup: StartupPlan | None) -> PodTemplate:
    """The head's. It needs no GPU: a selector for GPU nodes is not for it."""
    scheduling = service.scheduling
    selector = {} if service.accelerator.kind == "gpu" else dict(scheduling.node_selector)
    options = service.pods.head
    return _template(
        service, options, startup, PodPlacement(selector, _as_written(options.affinity), scheduling.tolerations)
    )


def worker_template(
    service: LLMService, startup: StartupPlan | None, gpu: GPUChoice | None, scheduling: Scheduling
) -> PodTemplate:
    """That of a group of workers which run where `scheduling` says. A node selector replaces the labels of the GPU's
    nodes."""
    labels = gpu.node_labels if gpu and not scheduling.node_selector else {}
    options = service.pods.worker
    placement = PodPlacement(
        dict(scheduling.node_selector),
        affinity(_as_written(options.affinity), labels),
        (*scheduling.tolerations, *(_tolerations(gpu) if gpu else ())),
    )
    return _template(service, options, startup, placement)


def _template(
    service: LLMService, options: PodOptions, startup: StartupPlan | None, placement: PodPlacement
) -> PodTemplate:
    level = service.security.pod_security
    own = tuple(map(_variable, options.env))
    common = sorted(_environment(service, startup, {one.name for one in own}), key=lambda variable: variable.name)
    return PodTemplate(
        placement=placement,
        labels={**options.labels, SERVICE: service.name},
        annotations=options.annotations,
        service_account_name=options.service_account_name,
        image_pull_secrets=options.image_pull_secrets,
        priority_class_name=options.priority_class_name,
        runtime_class_name=options.runtime_class_name,
        topology_spread_constraints=_as_written(options.topology_spread_constraints),
        security_context=_as_written(pod_context(level, options.security_context)),
        container_security_context=_as_written(container_context(level, options.container_security_context)),
        env=(*common, *own),
        env_from=options.env_from,
    )


def on_python_path(service: LLMService, folder: str) -> LLMService:
    """`service` with a folder of its pods on the Python path, before what is there already."""
    own = service.engine.env.get("PYTHONPATH")
    path = f"{folder}:{own}" if own else folder
    return replace(service, engine=replace(service.engine, env={**service.engine.env, "PYTHONPATH": path}))


def _variable(variable: EnvironmentVariable) -> EnvVar:
    source = variable.value_from
    if source is None:
        return EnvVar(variable.name, variable.value)
    return EnvVar(
        variable.name,
        secret=source.secret_key_ref,
        config_map=source.config_map_key_ref,
        field_path=source.field_ref.field_path if source.field_ref else None,
    )


def _environment(service: LLMService, startup: StartupPlan | None, own: set[str]) -> Iterator[EnvVar]:
    """The variables that head and workers have in common. own: names of those that their options set."""
    engine = service.engine
    yield from (EnvVar(name, value) for name, value in engine.env.items())
    by_serve = service.mode == "rayservice"
    yield from (EnvVar(name, value) for name, value in LOST_NODE.items() if name not in {*engine.env, *own})
    late = startup is not None and by_serve and startup.wait_seconds > ENGINE_START_SECONDS
    if startup is not None and late and START_LIMIT not in {*engine.env, *own}:
        # Only ever raised: a shorter limit would turn a slow download into a restart from the beginning. Whole hours,
        # so that a slightly different estimate does not ask for a second cluster.
        hours = math.ceil(startup.wait_seconds / ENGINE_START_SECONDS)
        yield EnvVar(START_LIMIT, str(hours * ENGINE_START_SECONDS))
    yield from (EnvVar(name, value) for name, value in logging_environment(service.ray.logging).items())
    token = service.model.token_secret
    if token is not None:
        # On the head as well: it reads the model's configuration when it builds the application.
        yield EnvVar("HF_TOKEN", secret=KeyOf(token.name, token.key))


def _tolerations(gpu: GPUChoice) -> Iterator[Toleration]:
    """Those of the taints of the GPU's nodes. A taint with the resource's name is tolerated whatever its value:
    clouds write present, operators and people true or nothing."""
    for taint in gpu.taints:
        key, _, value = taint.partition(":")[0].partition("=")
        yield Toleration(key, None if key == gpu.resource else value or None)


def _as_written(value: Any) -> Any:
    """A raw part of a pod as KubeRay writes it back: Go leaves out null, empty lists and empty matchLabels.

    An empty mapping stays: most are structs, and an empty labelSelector means all pods.
    """
    if isinstance(value, Mapping):
        parts = {name: _as_written(part) for name, part in value.items()}
        return {
            name: part
            for name, part in parts.items()
            if part is not None and part != [] and (name, part) != ("matchLabels", {})
        }
    if isinstance(value, tuple):
        return tuple(map(_as_written, value))
    return [_as_written(part) for part in value] if isinstance(value, list) else value
