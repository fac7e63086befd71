"""Plans made by hand: rendering is tested without the planner's figures, which may change."""

from __future__ import annotations

from typing import Any

from rayllm_ctl.catalog.releases import resolve_release
from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.model.plan.plan import (
    Band,
    EngineSettings,
    GPUChoice,
    ParallelismPlan,
    Plan,
    PodSizes,
    StartupPlan,
    StoragePlan,
)
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.deployment.deployment import with_deployment

NVIDIA_TAINTS = ("nvidia.com/gpu=present:NoSchedule", "sku=gpu:NoSchedule")
H100 = GPUChoice(
    "H100-80GB",
    8,
    "H100",
    {
        "nvidia.com/gpu.product": ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe"),
        "cloud.google.com/gke-accelerator": ("nvidia-h100-80gb", "nvidia-h100-mega-80gb"),
    },
    taints=NVIDIA_TAINTS,
)
L4 = GPUChoice("L4", 8, "L4", {"cloud.google.com/gke-accelerator": ("nvidia-l4",)})
RTX_4090 = GPUChoice("RTX-4090", 2, None, {"nvidia.com/gpu.product": ("NVIDIA-GeForce-RTX-4090",)})
MI300X = GPUChoice(
    "MI300X",
    8,
    "AMD-Instinct-MI300X-OAM",
    {"amd.com/gpu.product-name": ("X",)},
    "amd.com/gpu",
    ("amd.com/gpu:NoSchedule", "sku=gpu:NoSchedule"),
)


def plan(
    service: LLMService,
    gpu: GPUChoice | None,
    *,
    tensor: int = 1,
    pipeline: int = 1,
    pods: PodSizes | None = None,
    wait_seconds: int = 900,
    **engine: Any,
) -> Plan:
    """A plan that fits, with a context of 8192 tokens and 256 sequences unless `engine` says otherwise."""
    settings = {
        "vllm_version": "0.29.0",
        "max_model_len": 8192,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "dtype": "bfloat16",
        "gpu_memory_utilization": 0.9 if gpu else None,
        "args": dict(service.engine.args),
        **engine,
    }
    minutes = Band(60, 120, 240)
    fits = Plan(
        verdict="fits",
        model=service.model.id,
        facts_source="by hand",
        gpu=gpu,
        parallelism=ParallelismPlan(tensor, pipeline, service.replicas.min, service.replicas.max),
        engine=EngineSettings(**settings),
        pods=pods or PodSizes("1", "8Gi", "10", "80Gi", tensor if gpu else 0, pipeline, 1.0),
        storage=StoragePlan(10 * GIB, True, 1, 1, "hub", (), None, "", minutes),
        startup=StartupPlan(minutes, minutes, minutes, minutes, wait_seconds),
    )
    return with_deployment(fits, service, resolve_release(service.engine))


def tiny(service: LLMService, tensor: int = 1) -> Plan:
    return plan(
        service, None, tensor=tensor, pods=PodSizes("200m", "4Gi", "500m", "6Gi", 0, 1, 1.0), max_model_len=1024,
        max_num_seqs=8,
        max_num_batched_tokens=2048, dtype="auto",
        args={"enforce_eager": True, "kv_cache_memory_bytes": 2**30, **service.engine.args},
    )  # fmt: skip


def main_object(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    """The object that runs the service: claims and downloads come before it."""
    return next(item for item in manifests if item["kind"] in ("RayService", "RayCluster"))
