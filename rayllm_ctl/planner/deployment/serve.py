"""The Ray Serve application of a plan: placement, CPUs, targets of autoscaling, delays.

Read against Ray 2.60 (ray/llm/_internal/serve/core). Two facts shape it: an application whose `args` change restarts
all its replicas, while what `deployments` overrides is taken up in place; and Ray Serve LLM merges a target of 1e9
ongoing requests where none is written, which would never scale up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rayllm_ctl.model.kube.names import engine_deployment
from rayllm_ctl.model.kube.quantities import whole_seconds
from rayllm_ctl.model.plan.deployment import Autoscaling, ServeApplication
from rayllm_ctl.model.plan.plan import EngineSettings, GPUChoice, ParallelismPlan, PodSizes
from rayllm_ctl.model.plan.transformers import TransformersPlan
from rayllm_ctl.model.spec.serve_options import Serve
from rayllm_ctl.model.spec.service import LLMService, Replicas
from rayllm_ctl.planner.deployment.disruptions import graceful_shutdown

INGRESS_CPUS = 0.5
"""Logical CPUs of a replica of the OpenAI ingress: it runs on a worker, since the head offers none."""

LOOK_BACK_SECONDS = 15.0
UPSCALE_DELAY_SECONDS = 15.0
"""Ray waits 30 s over a window of 30 s. A new replica takes minutes, so the decision for it should come earlier."""

DOWNSCALE_DELAY_SECONDS = 300.0
"""Ray waits 600 s; a replica that is given back too early costs a start-up, one kept too long costs GPU minutes."""

HEALTH_CHECK_PERIOD_SECONDS = 10
HEALTH_CHECK_TIMEOUT_SECONDS = 30
"""Ray Serve LLM gives up after 10 s, three times in a row: an engine busy with long prompts may need longer."""


def serve_application(
    service: LLMService,
    parallelism: ParallelismPlan,
    engine: EngineSettings | TransformersPlan,
    pods: PodSizes,
    gpu: GPUChoice | None,
    capacity: float | None,
    tokenizer: str | None = None,
) -> ServeApplication:
    """The application. `gpu` is None for a service on CPUs.

    capacity: requests of the expected length that a replica's KV cache surely holds; None if that is not planned.
    tokenizer: as ServeApplication.tokenizer.
    """
    replicas, target = service.replicas, target_ongoing_requests(service.replicas, engine, capacity)
    scaling = Autoscaling(
        min_replicas=parallelism.replicas,
        max_replicas=max(1, parallelism.max_replicas),
        target_ongoing_requests=target,
        # Ray wants several reports in the window.
        look_back_period=_or(replicas.look_back_period, max(LOOK_BACK_SECONDS, 2 * (replicas.metrics_interval or 0))),
        upscale_delay=_or(replicas.upscale_delay, UPSCALE_DELAY_SECONDS),
        downscale_delay=_or(replicas.downscale_delay, DOWNSCALE_DELAY_SECONDS),
        initial_replicas=replicas.initial,
        downscale_to_zero_delay=replicas.downscale_to_zero_delay,
        metrics_interval=replicas.metrics_interval,
        upscaling_factor=replicas.upscaling_factor,
        downscaling_factor=replicas.downscaling_factor,
        aggregation_function=replicas.aggregation_function,
    )
    ingresses = max(1, scaling.min_replicas)
    return ServeApplication(
        model_id=service.model.id,
        model_source=service.model.path or service.model.id,
        revision=service.model.revision,
        accelerator_type=gpu.ray_accelerator_type if gpu else None,
        accelerator_kind=service.accelerator.kind,
        # STRICT_PACK keeps tensor parallelism on the links inside a node; Ray's default PACK may spread it over nodes.
        # A replica of several pods cannot be packed strictly. Each pod then holds the GPUs of exactly one pipeline
        # stage, so PACK fills whole pods and a stage does not span nodes either, unless the user lets it: then each
        # holds an equal part of one.
        placement_strategy="STRICT_PACK" if pods.workers_per_replica == 1 else "PACK",
        # vLLM's GPU processes ask Ray for no CPU.
        bundle_resource=service.accelerator.kind.upper(),
        ray_resources=service.scheduling.ray_resources,
        engine_cpus=pods.engine_cpus,
        ingress_cpus=INGRESS_CPUS,
        deployment=engine_deployment(service.model.id),
        # What exceeds the engine's batch waits in the router, which hands it to whichever replica is free first.
        max_ongoing_requests=max(engine.max_num_seqs, target),
        autoscaling=scaling,
        # One ingress for each replica that is always there. With none (scale to zero) the ingress must go as well:
        # as long as it runs it holds a worker, and with it the worker's GPUs.
        ingress_autoscaling=replace(
            scaling,
            max_replicas=ingresses,
            initial_replicas=None if replicas.initial is None else min(replicas.initial, ingresses),
        ),
        health_check_period=HEALTH_CHECK_PERIOD_SECONDS,
        health_check_timeout=HEALTH_CHECK_TIMEOUT_SECONDS,
        graceful_shutdown_timeout=graceful_shutdown(service),
        adapters=service.model.adapters or None,
        tokenizer=tokenizer,
    )


def serve_options(serve: Serve) -> dict[str, Any]:
    """What the Serve configuration says beside its applications; empty if all is Ray's default."""
    http, grpc, logging = serve.http, serve.grpc, serve.logging
    sections: dict[str, Any] = {
        "proxy_location": serve.proxy_location if serve.proxy_location != "EveryNode" else None,
        "http_options": {
            "request_timeout_s": whole_seconds(http.request_timeout),
            "keep_alive_timeout_s": whole_seconds(http.keep_alive_timeout),
        },
        "grpc_options": {
            "port": grpc.port,
            "grpc_servicer_functions": list(grpc.servicer_functions) or None,
            "request_timeout_s": whole_seconds(grpc.request_timeout),
        },
        "logging_config": {
            "encoding": logging.encoding,
            "log_level": logging.level,
            "enable_access_log": logging.enable_access_log,
        },
    }
    for name in ("http_options", "grpc_options", "logging_config"):
        sections[name] = {key: value for key, value in sections[name].items() if value is not None}
    return {name: section for name, section in sections.items() if section}


def target_ongoing_requests(
    replicas: Replicas, engine: EngineSettings | TransformersPlan, capacity: float | None = None
) -> int:
    """Requests in flight that a replica should have: half of what it can batch and hold, unless the user said so.

    The other half takes up what arrives while the next replica starts.
    """
    most = engine.max_num_seqs if capacity is None else min(engine.max_num_seqs, int(capacity))
    return replicas.target_ongoing_requests or max(1, most // 2)


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
