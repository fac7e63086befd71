"""Whether the image of a service runs on the nodes of its GPUs, and what is said where that is not known."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.catalog import gpus
from rayllm_ctl.catalog.releases import DEFAULT
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.model.spec.service import Accelerator, Engine, LLMService, Model
from rayllm_ctl.workflows.plan.model import make_plan

RAY = f"rayproject/ray-llm:{DEFAULT.ray}"


def planned(gpu: str, image: str | None, **engine: Any) -> Plan:
    service = LLMService(
        "q", Model("Qwen/Qwen3-8B"), engine=Engine(image=image, **engine), accelerator=Accelerator(gpu=gpu)
    )
    return make_plan(service, OFFLINE)


@pytest.mark.parametrize(
    ("gpu", "image", "code", "said"),
    [
        ("B200-180GB", f"{RAY}-py312-cu126", "image-cuda", "requires CUDA 12.8 or newer"),
        ("RTX-5090", f"{RAY}-py312-cu124", "image-cuda", "CUDA 12.4, which does not support RTX-5090"),
        ("B300", f"{RAY}-py312-cu128", "image-cuda", "requires CUDA 12.9 or newer"),
        ("H100-80GB", "registry.example/own:cuda11.7", "image-cuda", "requires CUDA 11.8 or newer"),
        ("V100-32GB", f"{RAY}-py312-cu130", "image-cuda", "CUDA 13 requires 7.5 or higher"),
        ("GH200-96GB", f"{RAY}-py312-cu130", "image-architecture", "for amd64, and nodes with GH200-96GB are arm64"),
        ("GB200", "registry.example/own:1-x86_64", "image-architecture", "nodes with GB200 are arm64"),
        ("L4", f"{RAY}-py312-cu130-aarch64", "image-architecture", "built for arm64, and nodes with L4 are amd64"),
        ("L4", f"rayproject/ray:{DEFAULT.ray}-py312-gpu", "image-lacks-engine", "without vLLM"),
        ("MI300X", f"{RAY}-py312-cu130", "image-platform", "built for NVIDIA GPUs, and MI300X is not one of them"),
        ("H100-80GB", "registry.example/serving:rocm6.4", "image-platform", "built for AMD GPUs, and H100-80GB is not"),
        ("H100-80GB", "rocm/vllm:latest", "image-platform", "built for AMD GPUs"),
        ("H100-80GB", "vllm/vllm-tpu:nightly", "image-platform", "built for TPUs"),
        ("MI300X", "registry.example/vllm:0.29.0-cpu", "image-platform", "built for CPUs"),
    ],
)  # fmt: skip
def test_an_image_that_cannot_run_on_the_nodes_is_rejected(gpu: str, image: str, code: str, said: str) -> None:
    plan = planned(gpu, image)
    assert (plan.verdict, [reason.code for reason in plan.reasons]) == ("invalid", [code])
    assert said in plan.reasons[0].message
    assert plan.reasons[0].suggestion.startswith("--image ")


@pytest.mark.parametrize(
    ("gpu", "image"),
    [
        ("B200-180GB", f"{RAY}-py312-cu128"),
        ("B300", f"{RAY}-py312-cu130"),
        ("T4", f"{RAY}-py312-cu130"),
        ("H100-80GB", f"{RAY}-py312-cu118"),
        ("GH200-96GB", f"{RAY}-py312-cu130-aarch64"),
        ("MI300X", "registry.example/ray-llm:rocm6.4"),
        ("MI300X", "registry.example/own:1"),
    ],
)
def test_an_image_that_runs_on_the_nodes_is_taken(gpu: str, image: str) -> None:
    assert planned(gpu, image).verdict == "fits"


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        ("GH200-96GB", "for arm64, the architecture of nodes with GH200-96GB"),
        ("V100-32GB", "CUDA 13.0, which does not support V100-32GB"),
        ("MI300X", "for MI300X"),
    ],
)
def test_the_public_image_is_not_taken_where_it_does_not_run(gpu: str, why: str) -> None:
    deployment = planned(gpu, None).deployment
    assert deployment is not None
    assert deployment.runtime.image is None
    assert why in deployment.runtime.image_note


@pytest.mark.parametrize(
    ("image", "codes"),
    [
        ("registry.example/ray-llm:rocm6.4", ["image-platform"]),
        ("vllm/vllm-tpu:nightly", ["image-platform"]),
        ("registry.example/ray-vllm-cpu:2.60.0", []),
        (f"{RAY}-py312-cu130", []),
    ],
)
def test_images_for_cpus(image: str, codes: list[str]) -> None:
    service = LLMService("q", Model("Qwen/Qwen3-8B"), engine=Engine(image=image), accelerator=Accelerator("cpu"))
    plan = make_plan(service, OFFLINE)
    assert [reason.code for reason in plan.reasons if reason.code.startswith("image-")] == codes


def test_what_is_not_known_of_an_image_is_said() -> None:
    (unknown,) = planned("L4", "registry.example/own:1").warnings
    assert unknown.startswith("what registry.example/own:1 contains is not known: planned for Ray")
    assert planned("L4", "registry.example/own:1", ray_version="2.60.0", vllm_version="0.29.0").warnings == ()
    assert planned("L4", f"registry.example/ray-llm:{DEFAULT.ray}").warnings == ()
    (without_ray,) = planned("L4", "vllm/vllm-openai:v0.19.0").warnings
    assert (
        without_ray == f"vllm/vllm-openai:v0.19.0 does not state which Ray it contains: planned for Ray {DEFAULT.ray}"
    )
    _, foreign = planned("GB200", "registry.example/own:1").warnings
    assert foreign.startswith("nodes with GB200 are arm64: registry.example/own:1 must be built for that")
    (head,) = planned("GB200", f"{RAY}-py312-cu130-aarch64").warnings
    assert "the head needs a node of that architecture too" in head


def test_the_catalog_knows_which_gpus_have_arm_cpus_beside_them() -> None:
    arm = [gpu.name for gpu in gpus.load_gpus().values() if gpu.host_architecture == "arm64"]
    assert arm == ["GH200-96GB", "GH200-144GB", "GB200", "GB300", "GB10"]
