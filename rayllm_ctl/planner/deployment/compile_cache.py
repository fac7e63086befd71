"""What the engine compiles, and its memory profile, in a claim: later starts and other replicas find it there.

vLLM 0.29 keeps compiled graphs and DeepGEMM's kernels below VLLM_CACHE_ROOT (compilation/backends.py,
utils/deep_gemm.py). With graphs compiled ahead of time it moves PyTorch's cache there and leaves Triton's
(compilation/decorators.py), and FlashInfer's kernels are in the home of the user unless a variable says otherwise. The
key of a graph has the engine's version and settings but not the GPU, hence a folder for each kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from rayllm_ctl.model.kube.model_downloads import CACHE_VOLUME, CACHES_PATH
from rayllm_ctl.model.plan.plan import EngineSettings, GPUChoice
from rayllm_ctl.model.plan.pods import EnvVar, PodStorage, StorageMount, StorageVolume
from rayllm_ctl.model.plan.storage import PlannedClaim
from rayllm_ctl.model.spec.model_storage import Caches
from rayllm_ctl.planner import vllm_rules
from rayllm_ctl.planner.deployment.claims import cache_claim
from rayllm_ctl.planner.deployment.model_files import PodFiles

CACHE_SIZE = "20Gi"
"""Of a new claim: graphs and kernels of a model take hundreds of megabytes for each version of vLLM."""

_NIXL_PORT = EnvVar("VLLM_NIXL_SIDE_CHANNEL_PORT", "5600")
"""vLLM's own default. Ray gives each replica another one (serve/engines/vllm/kv_transfer/nixl.py) unless it is set, and
the key of a graph has it. A pod has one replica, so the port may be the same in all of them."""


_NOT_AHEAD = EnvVar("VLLM_USE_AOT_COMPILE", "0")
"""On CPUs vLLM 0.29 cannot load graphs that it compiled ahead of time: compilation/decorators.py expects a method of
VllmBackend, which compiles for GPUs only, so that each start compiles again. PyTorch's own cache is found."""


def cache_root(gpu: GPUChoice | None) -> str:
    """The folder for a kind of GPU, or for CPUs."""
    name = "cpu" if gpu is None else re.sub(r"[^a-z0-9]+", "-", gpu.name.lower()).strip("-")
    return f"{CACHES_PATH}/{name}"


def compile_cache(caches: Caches, gpu: GPUChoice | None, engine: EngineSettings) -> PodFiles:
    """What the pods with engines have for it."""
    if caches.compile is None:
        return PodFiles()
    return PodFiles(
        tuple(_environment(caches, gpu, engine)),
        PodStorage(
            (StorageVolume(CACHE_VOLUME, claim=caches.compile),),
            (StorageMount(CACHE_VOLUME, CACHES_PATH, read_only=False),),
        ),
    )


def compile_cache_claim(caches: Caches) -> tuple[PlannedClaim, ...]:
    """The claim, if it is created."""
    return () if caches.compile is None else cache_claim(caches.create, caches.compile, CACHE_SIZE)


def cache_notes(caches: Caches, gpu: GPUChoice | None, engine: EngineSettings) -> Iterator[str]:
    """Where a start does not find what another one has left."""
    if caches.compile is None:
        return
    ranks = engine.args.get("data_parallel_size")
    if isinstance(ranks, int) and ranks > 1:
        yield (
            "spec.storage.caches.compile: data-parallel ranks do not share compiled graphs, because the key of a graph "
            "has VLLM_RAY_BUNDLE_INDICES, which Ray sets for each rank"
        )
    if engine.args.get("enforce_eager"):
        yield "spec.storage.caches.compile: with enforce_eager the engine compiles no graphs, only kernels"
    if caches.startup_plan and gpu is not None and not _keeps_plans(engine):
        since = ".".join(map(str, vllm_rules.STARTUP_PLANS.since))
        yield f"spec.storage.caches.startupPlan has no effect: vLLM {engine.vllm_version} is older than {since}"


def _environment(caches: Caches, gpu: GPUChoice | None, engine: EngineSettings) -> Iterator[EnvVar]:
    root = cache_root(gpu)
    yield EnvVar("FLASHINFER_WORKSPACE_BASE", f"{root}/flashinfer")
    yield EnvVar("TORCHINDUCTOR_CACHE_DIR", f"{root}/torchinductor")
    yield EnvVar("TRITON_CACHE_DIR", f"{root}/triton")
    yield EnvVar("VLLM_CACHE_ROOT", f"{root}/vllm")
    if gpu is None:
        yield _NOT_AHEAD
    if caches.startup_plan and gpu is not None and _keeps_plans(engine):
        yield EnvVar("VLLM_ENABLE_STARTUP_PLAN", "1")
    if _transfers_by_nixl(engine.args.get("kv_transfer_config")):
        yield _NIXL_PORT


def _keeps_plans(engine: EngineSettings) -> bool:
    release = tuple(int(part) for part in engine.vllm_version.split(".")[:3] if part.isdigit())
    return vllm_rules.STARTUP_PLANS.holds(release)


def _transfers_by_nixl(config: object) -> bool:
    text = json.dumps(dict(config), default=str) if isinstance(config, Mapping) else str(config)
    return "nixl" in text.lower()
