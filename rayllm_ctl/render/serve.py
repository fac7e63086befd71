"""What Ray Serve is told: the values of serve-config.yaml.j2.

Read against Ray 2.60 (ray/llm/_internal/serve/core). Two facts shape it: an application whose `args` change restarts
all its replicas, while what `deployments` overrides is taken up in place; and Ray Serve LLM merges a target of 1e9
ongoing requests where none is written, which would never scale up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.plan import EngineSettings, ParallelismPlan, PodSizes
from rayllm_ctl.model.service import LLMService, Replicas
from rayllm_ctl.render.sizing import INGRESS_CPUS, bundle, plain, replica_bounds

LOOK_BACK_SECONDS = 15.0
UPSCALE_DELAY_SECONDS = 15.0
"""Ray waits 30 s over a window of 30 s. A new replica takes minutes, so the decision for it should come earlier."""

DOWNSCALE_DELAY_SECONDS = 300.0
"""Ray waits 600 s; a replica that is given back too early costs a start-up, one kept too long costs GPU minutes."""

TIMING: Mapping[str, Any] = {
    "health_check_period": 10,
    # Ray Serve LLM gives up after 10 s, three times in a row: an engine busy with long prompts may need longer.
    "health_check_timeout": 30,
    # Ray cuts answers off 20 s after it decides to stop a replica; long generations stream for a minute or two.
    "graceful_shutdown": 120,
}


def serve_values(
    service: LLMService,
    parallelism: ParallelismPlan,
    engine: EngineSettings,
    pods: PodSizes,
    accelerator_type: str | None,
    capacity: float | None,
) -> dict[str, Any]:
    """The values of serve-config.yaml.j2. `accelerator_type` is Ray's name of the GPU, None if it has none.

    capacity: requests of the expected length that a replica's KV cache surely holds; None where that is not planned.
    """
    low, high = replica_bounds(service, parallelism)
    target = target_ongoing_requests(service.replicas, engine, capacity)
    return {
        "name": service.name,
        "model_id": service.model.id,
        "model_source": service.model.path or service.model.id,
        "accelerator_type": accelerator_type,
        "accelerator_kind": service.accelerator.kind,
        # STRICT_PACK keeps tensor parallelism on the links inside a node; Ray's default PACK may spread it over nodes.
        # A replica of several pods cannot be packed strictly. Each pod then holds the GPUs of exactly one pipeline
        # stage, so PACK fills whole pods and a stage does not span nodes either, unless the user lets it: then each
        # holds an equal part of one.
        "strategy": "STRICT_PACK" if pods.workers_per_replica == 1 else "PACK",
        "bundle": bundle(service.accelerator.kind),
        "engine_cpus": plain(pods.engine_cpus),
        "ingress_cpus": INGRESS_CPUS,
        "timing": TIMING,
        "engine_kwargs": engine_kwargs(service, parallelism, engine),
        "engine_deployment": engine_deployment(service.model.id),
        # What exceeds the engine's batch waits in the router, which hands it to whichever replica is free first.
        "max_ongoing_requests": max(engine.max_num_seqs, target),
        "replicas": {
            "min": low,
            "max": high,
            "target": target,
            "look_back": plain(_or(service.replicas.look_back_period, LOOK_BACK_SECONDS)),
            "upscale_delay": plain(_or(service.replicas.upscale_delay, UPSCALE_DELAY_SECONDS)),
            "downscale_delay": plain(_or(service.replicas.downscale_delay, DOWNSCALE_DELAY_SECONDS)),
        },
        # One ingress for each replica that is always there. With none (scale to zero) the ingress must go as well:
        # as long as it runs it holds a worker, and with it the worker's GPUs.
        "ingress": {"min": low, "max": max(1, low), "target": target},
    }


def target_ongoing_requests(replicas: Replicas, engine: EngineSettings, capacity: float | None = None) -> int:
    """Requests in flight that a replica should have: half of what it can batch and hold, unless the user said so.

    The other half takes up what arrives while the next replica starts.
    """
    most = engine.max_num_seqs if capacity is None else min(engine.max_num_seqs, int(capacity))
    return replicas.target_ongoing_requests or max(1, most // 2)


def engine_deployment(model_id: str) -> str:
    """The name that Ray Serve LLM gives to the deployment of a model."""
    return "LLMServer:" + model_id.replace("/", "--").replace(".", "_")


def engine_kwargs(service: LLMService, parallelism: ParallelismPlan, engine: EngineSettings) -> dict[str, Any]:
    """vLLM's arguments: all that the plan settled, then the user's own."""
    settings: dict[str, Any] = {
        "tensor_parallel_size": parallelism.tensor,
        "pipeline_parallel_size": parallelism.pipeline,
        "max_model_len": engine.max_model_len,
        "max_num_seqs": engine.max_num_seqs,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "dtype": engine.dtype,
        "gpu_memory_utilization": engine.gpu_memory_utilization,
        "quantization": engine.quantization,
        "kv_cache_dtype": engine.kv_cache_dtype,
        "revision": service.model.revision,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    return {**given, **engine.args, **service.engine.args}


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
