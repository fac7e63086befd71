"""Which image serves when the user names none."""

from __future__ import annotations

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.service import LLMService

RAY_VERSION = "2.60.0"
"""Ray that manifests are rendered for unless the user says otherwise; it pins vLLM 0.29.0."""

_TAG_SUFFIXES = (((2, 56), "py312-cu130"), ((2, 44), "py311-cu128"))
"""Public tags of rayproject/ray-llm by the first Ray version that has them (Docker Hub: 2.55.0-py311-cu128,
2.56.0-py312-cu130, 2.58.0-py312-cu130)."""


def ray_version(service: LLMService) -> str:
    return service.engine.ray_version or RAY_VERSION


def image(service: LLMService) -> str:
    """The image of head and workers. UsageError where no public image fits: vLLM for CPUs, unknown Ray versions."""
    if service.engine.image:
        return service.engine.image
    if service.accelerator.kind == "cpu":
        raise UsageError(
            "no image was named, and there is no public one with Ray and vLLM for CPUs",
            hint="--image REGISTRY/IMAGE:TAG, or spec.engine.image",
        )
    version = ray_version(service)
    numbers = tuple(int(part) for part in version.split(".")[:2])
    for first, suffix in _TAG_SUFFIXES:
        if numbers >= first:
            return f"rayproject/ray-llm:{version}-{suffix}"
    raise UsageError(
        f"there is no public image with Ray {version} and vLLM",
        hint="--image REGISTRY/IMAGE:TAG, or a newer engine.rayVersion",
    )
