"""vLLM's own OpenAI server on a RayCluster: where it runs, its command line, its probes.

Read against vLLM 0.29 (vllm/v1/executor/ray_utils.py, ray_executor_v2.py) and KubeRay 1.6.2
(ray-operator/controllers/ray/common/pod.go). The server runs in a pod with GPUs, next to Ray: up to vLLM 0.20 the Ray
executor fails unless the node of its driver holds a part of the placement group, and a server in a pod without GPUs
would be a further pod to lose. A replica is one such pod, and the pods of the group `workers` where it needs several.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.plan.deployment import ModelServer, Probe
from rayllm_ctl.model.plan.plan import EngineSettings, ParallelismPlan, PodSizes, Reason, StartupPlan
from rayllm_ctl.model.spec.checks.engine_args import FRONTEND_ARGUMENTS, SERVER_ARGUMENTS
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner import vllm_rules
from rayllm_ctl.planner.deployment.disruptions import GRACEFUL_SHUTDOWN_SECONDS

_PORT = kuberay.SERVE_PORT

HEALTH = "/health"
"""vLLM answers it with 200 once the engine runs, and with 503 after the engine has failed."""

READY = Probe(HEALTH, _PORT, https=False, initial_delay=0, period=5, timeout=5, failure_threshold=2)

_ALIVE = replace(READY, period=10, timeout=10, failure_threshold=6)
"""A minute: the server also answers late while it tokenizes long prompts. Where the engine or Ray ends, the container
ends by itself."""

_START_PERIOD = 10
_WITHOUT_A_PLAN = 1800

DRAIN_SECONDS = 5
"""Time in which endpoints and proxies learn that a pod is about to end, before its server takes no more requests."""

GRACE_SECONDS = DRAIN_SECONDS + GRACEFUL_SHUTDOWN_SECONDS
"""Time until the kubelet kills a server that has to end."""

_EXECUTOR = "distributed_executor_backend"


def model_server(
    service: LLMService, parallelism: ParallelismPlan, engine: EngineSettings, startup: StartupPlan | None
) -> ModelServer:
    """The server of one replica; on CPUs without Ray's executor, which does not support them."""
    limit = startup.wait_seconds if startup else _WITHOUT_A_PLAN
    arguments = engine_arguments(service, parallelism, engine)
    return ModelServer(
        model_source=service.model.path or service.model.id,
        arguments=tuple(command_line(arguments)),
        startup=replace(READY, period=_START_PERIOD, failure_threshold=math.ceil(limit / _START_PERIOD)),
        liveness=_ALIVE,
        drain=DRAIN_SECONDS,
    )


def engine_arguments(service: LLMService, parallelism: ParallelismPlan, engine: EngineSettings) -> dict[str, Any]:
    """What the engine is told, by vLLM's names; without what is left to vLLM."""
    planned = {
        "served_model_name": service.model.id,
        "port": _PORT,
        "tensor_parallel_size": parallelism.tensor,
        "pipeline_parallel_size": parallelism.pipeline,
        _EXECUTOR: "ray" if service.accelerator.kind == "gpu" else None,
        "max_model_len": engine.max_model_len,
        "max_num_seqs": engine.max_num_seqs,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "dtype": engine.dtype,
        "gpu_memory_utilization": engine.gpu_memory_utilization,
        "quantization": engine.quantization,
        "kv_cache_dtype": engine.kv_cache_dtype,
        "revision": service.model.revision,
        "shutdown_timeout": GRACEFUL_SHUTDOWN_SECONDS if _holds(vllm_rules.SERVERS_DRAIN, engine) else None,
    }
    return {
        name: value for name, value in {**planned, **dict(sorted(engine.args.items()))}.items() if value is not None
    }


def offline_arguments(service: LLMService, parallelism: ParallelismPlan, engine: EngineSettings) -> list[str]:
    """The command line of an engine without a server, in one pod; without what only concerns a server's requests."""
    others = {*SERVER_ARGUMENTS, *FRONTEND_ARGUMENTS}
    arguments = engine_arguments(service, parallelism, engine)
    return [*command_line({name: value for name, value in arguments.items() if name not in others})]


def command_line(arguments: Mapping[str, Any]) -> Iterator[str]:
    """`arguments` as `vllm serve` takes them: dashes, --no- for false, JSON for mappings (vllm/engine/arg_utils.py).

    Kubernetes expands $(NAME) in a container's arguments and reads $$ as one dollar sign.
    """
    for name, value in arguments.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
        elif isinstance(value, (list, tuple)):
            yield f"--{flag}"
            yield from (_literal(item) for item in value)
        else:
            yield f"--{flag}={_literal(value)}"


def server_problem(parallelism: ParallelismPlan, engine: EngineSettings, pods: PodSizes) -> Reason | None:
    """Why vLLM's server cannot run a replica of several pods, if it cannot."""
    if pods.workers_per_replica == 1:
        return None
    executor = engine.args.get(_EXECUTOR, "ray")
    if executor != "ray":
        return Reason(
            "executor-within-a-pod",
            f"a replica of {pods.workers_per_replica} pods requires Ray's executor, not {_EXECUTOR}={executor}",
            f"leave {_EXECUTOR} out",
        )
    if parallelism.replicas > 1 and not _holds(vllm_rules.SERVERS_ARE_PLACED_ANYWHERE, engine):
        return Reason(
            "replicas-take-each-other-s-gpus",
            f"vLLM {engine.vllm_version} places a replica of {pods.workers_per_replica} pods on GPUs that another "
            "replica's server needs",
            "--kind rayservice, or --replicas 1 for each of several services",
        )
    return None


def _literal(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("$", "$$")


def _holds(rule: vllm_rules.VersionRule, engine: EngineSettings) -> bool:
    return rule.holds(tuple(int(part) for part in engine.vllm_version.split(".")[:3] if part.isdigit()))
