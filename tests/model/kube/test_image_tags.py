"""What images say of themselves, as their publishers and their users name them."""

from __future__ import annotations

import pytest

from rayllm_ctl.model.kube.image_tags import ImageTag, read_tag


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("rayproject/ray-llm:2.52.0-py311-cu128", ImageTag("2.52.0", None, (12, 8), "amd64", platform="cuda")),
        ("rayproject/ray-llm:2.52.0-py311-cu128-aarch64", ImageTag("2.52.0", None, (12, 8), "arm64", platform="cuda")),
        (
            "mirror:5000/rayproject/ray-llm:2.58.0-py311-cu128",
            ImageTag("2.58.0", None, (12, 8), "amd64", platform="cuda"),
        ),
        ("registry.example/ray-llm:2.57.0-py312-cu130", ImageTag("2.57.0", None, (13, 0), "amd64", platform="cuda")),
        ("registry.example/ray-llm:2.60", ImageTag("2.60")),
        (
            "rayproject/ray-llm:2.60.0-py312-cu130@sha256:0123",
            ImageTag("2.60.0", None, (13, 0), "amd64", platform="cuda"),
        ),
        ("rayproject/ray:2.60.0-py312-gpu", ImageTag("2.60.0", architecture="amd64", lacks_vllm=True)),
        ("rayproject/ray-llm:nightly-py311-cu128", ImageTag(None, None, (12, 8), "amd64", platform="cuda")),
        ("registry.example/ray-llm-gateway:2.60.0", ImageTag("2.60.0")),
        ("vllm/vllm-openai:v0.19.0-cu129", ImageTag(None, "0.19.0", (12, 9), platform="cuda")),
        (
            "registry.example/serving:ray2.58.0-vllm0.26.0-cuda12.8",
            ImageTag("2.58.0", "0.26.0", (12, 8), platform="cuda"),
        ),
        ("registry.example/vllm:rocm", ImageTag(platform="rocm")),
        ("registry.example/vllm:0.29.0-rocm6.4", ImageTag(vllm="0.29.0", platform="rocm")),
        ("vllm/vllm-openai-rocm:v0.29.0", ImageTag(vllm="0.29.0", platform="rocm")),
        ("vllm/vllm-openai:v0.29.0", ImageTag(vllm="0.29.0", platform="cuda")),
        ("rocm/vllm:latest", ImageTag(platform="rocm")),
        ("registry.example/serving-cpu:1.0", ImageTag()),
        ("rayproject/ray:2.60.0-py312-cpu", ImageTag("2.60.0", None, None, "amd64", lacks_vllm=True, platform="cpu")),
        ("registry.example/own:tpu", ImageTag(platform="tpu")),
        ("registry.example/own:cpu-or-tpu", ImageTag()),
        ("registry.example/own:cpuless", ImageTag()),
        ("registry.example/team/serving:cu130-arm64", ImageTag(None, None, (13, 0), "arm64", platform="cuda")),
    ],
)
def test_what_a_tag_states_is_read(image: str, said: ImageTag) -> None:
    assert read_tag(image) == said


@pytest.mark.parametrize(
    "image",
    [
        "registry.example/own:1",
        "registry.example/own",
        "registry.example:5000/own",
        "registry.example/ray-llm:1.4.2",
        "registry.example/ray-llm-gateway:1.4.2",
        "registry.example/ray-tools:2024.10.1",
        "registry.example/ray-llm@sha256:0123",
        "registry.example/app:2.60.0",
        "registry.example/custard:cu1",
    ],
)
def test_versions_of_others_are_not_taken_for_those_of_ray_or_vllm(image: str) -> None:
    assert read_tag(image) == ImageTag()
