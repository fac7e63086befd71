"""Which Ray and which image serve when the user names none."""

from __future__ import annotations

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.plan import GPUChoice
from rayllm_ctl.model.service import LLMService

RAY_VERSION = "2.60.0"
"""Ray that manifests are rendered for unless the user says otherwise; it pins vLLM 0.29.0."""

_TAG = "rayproject/ray-llm:{version}-py312-cu130"
"""The public image with Ray and vLLM for NVIDIA GPUs, under this tag since Ray 2.56 (Docker Hub: 2.56.0 to 2.58.0)."""


def ray_version(service: LLMService) -> str:
    return service.engine.ray_version or RAY_VERSION


def image(service: LLMService, gpu: GPUChoice | None) -> str:
    """The image of head and workers; UsageError where no public one fits, such as vLLM for CPUs or for AMD's GPUs."""
    if service.engine.image:
        return service.engine.image
    if gpu is None or gpu.resource != "nvidia.com/gpu":
        raise UsageError(
            f"no image was named, and there is no public one with Ray and vLLM for {gpu.name if gpu else 'CPUs'}",
            hint="--image REGISTRY/IMAGE:TAG, or spec.engine.image",
        )
    return _TAG.format(version=ray_version(service))
