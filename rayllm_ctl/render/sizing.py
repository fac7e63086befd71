"""Replicas, CPUs and bundles: the arithmetic that the Serve configuration and the pods must agree on."""

from __future__ import annotations

import math

from rayllm_ctl.model.plan import ParallelismPlan, PodSizes
from rayllm_ctl.model.quantities import parse_quantity
from rayllm_ctl.model.service import LLMService

INGRESS_CPUS = 0.5
"""Logical CPUs of a replica of the OpenAI ingress: it runs on a worker, since the head offers none."""


def replica_bounds(service: LLMService, parallelism: ParallelismPlan) -> tuple[int, int]:
    """The fewest and the most replicas of the model. The plan may ask for more than the user, never for more than 0."""
    low = 0 if service.replicas.min == 0 else parallelism.replicas
    return low, max(parallelism.max_replicas, low, 1)


def worker_bounds(bounds: tuple[int, int], pods: PodSizes) -> tuple[int, int]:
    """The fewest and the most worker pods for so many replicas."""
    return bounds[0] * pods.workers_per_replica, bounds[1] * pods.workers_per_replica


def bundle(kind: str) -> dict[str, int]:
    """Ray resources of one engine process. vLLM's GPU processes ask Ray for no CPU."""
    return {"GPU": 1} if kind == "gpu" else {"CPU": 1}


def worker_cpus(service: LLMService, parallelism: ParallelismPlan, pods: PodSizes, cpu: str) -> int:
    """The logical CPUs that a worker tells Ray of (`num-cpus`), for a pod that requests `cpu`.

    They must hold a replica and an ingress replica, whatever the pod requests. On CPUs they must not hold two replicas,
    since the pod's memory is that of one; on GPUs the GPUs see to that, and what is left is free for Ray's own tasks.
    """
    processes = parallelism.gpus_per_replica if service.accelerator.kind == "cpu" else 0
    needed = math.ceil(pods.engine_cpus + processes + INGRESS_CPUS)
    return needed if service.accelerator.kind == "cpu" else max(needed, math.floor(parse_quantity(cpu)))


def plain(number: float) -> int | float:
    """2.0 as 2: figures as a person would write them."""
    return int(number) if number == int(number) else number
