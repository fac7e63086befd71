"""The contents of a container image by its name and tag, following the conventions of the publishers.

Ray: {version}[-py312][-cu130|-gpu|-cpu][-aarch64], amd64 without the last part (docker/ray/README.md of Ray). vLLM:
v{version}[-cu129|...]. In other names, a part such as ray2.60.0, vllm0.29.0 or cu130. What is not built for CUDA has
one of rocm, cpu, tpu, xpu, hpu or neuron in its name or its tag (vllm/vllm-openai-rocm, vllm/vllm-tpu, rocm/vllm).
"""

from __future__ import annotations

import re

from rayllm_ctl.frozen import dataclass

_OF_RAY = ("ray", "ray-ml", "ray-llm")
_PUBLISHED = re.compile(r"(?:.*/)?(?:rayproject|anyscale)/(ray|ray-ml|ray-llm)")

_LEADING = re.compile(r"v?(\d+\.\d+(?:\.\d+)?)")
_PYTHON = re.compile(r"(?:^|[-_.])py3\d+(?:$|[-_.])")
_RAY = re.compile(r"(?:^|[-_.])ray[-_]?v?(\d+\.\d+(?:\.\d+)?)")
_VLLM = re.compile(r"(?:^|[-_.])vllm[-_]?v?(\d+\.\d+(?:\.\d+)?)")
_CUDA = re.compile(r"(?:^|[-_.+])cu(?:da)?[-_]?(\d\d)\.?(\d)(?!\d)")
_PLATFORM = re.compile(r"(?:^|[-_.+])(rocm|cpu|tpu|xpu|hpu|neuron)(?=$|[-_.+]|\d)")
_CUDA_ONLY = re.compile(r"(?:.*/)?(?:(?:rayproject|anyscale)/ray-llm|vllm/vllm-openai)")
_ARCHITECTURES = {"aarch64": "arm64", "arm64": "arm64", "x86_64": "amd64", "x86-64": "amd64", "amd64": "amd64"}


@dataclass(frozen=True)
class ImageTag:
    """ray, vllm: releases, as they are written there. cuda: of the toolkit. architecture: of the CPU, as Kubernetes
    names it. platform: what it is built for, as vLLM names it (cuda, rocm, cpu, tpu, ...). None: it says nothing.
    lacks_vllm: an image of Ray alone."""

    ray: str | None = None
    vllm: str | None = None
    cuda: tuple[int, int] | None = None
    architecture: str | None = None
    lacks_vllm: bool = False
    platform: str | None = None


def read_tag(image: str) -> ImageTag:
    """The contents of `image` by its name and tag."""
    repository, _, tag = _without_digest(image)
    name = repository.rpartition("/")[2]
    ray, vllm = _first(_RAY, tag), _first(_VLLM, tag)
    leading = _first(_LEADING, tag, start=True)
    # A name that only contains "ray" may have versions of its own, so its tag has to look like one of Ray's.
    if leading and ray is None and (name in _OF_RAY or (name.startswith("ray-") and leading.startswith("2."))):
        ray = leading
    elif leading and vllm is None and "vllm" in name and leading.startswith("0."):
        vllm = leading
    if name in _OF_RAY and ray is not None and not ray.startswith("2."):
        ray = None
    cuda = _CUDA.search(tag)
    architecture = next((known for part, known in _ARCHITECTURES.items() if part in tag), None)
    published = _PUBLISHED.fullmatch(repository)
    if architecture is None and (published or (name in _OF_RAY and _PYTHON.search(tag))):
        architecture = "amd64"
    return ImageTag(
        ray,
        vllm,
        (int(cuda[1]), int(cuda[2])) if cuda else None,
        architecture,
        lacks_vllm=published is not None and published[1] != "ray-llm",
        platform="cuda" if cuda else _platform(repository, tag),
    )


def _platform(repository: str, tag: str) -> str | None:
    """What an image without CUDA is built for: by its tag, else by its name where that is one of vLLM's
    (vllm-openai-rocm, vllm-cpu-release-repo), else by whose it is (rocm/vllm)."""
    owner, _, name = repository.rpartition("/")
    for part in (tag, name if name.startswith("vllm") else ""):
        found = set(_PLATFORM.findall(part))
        if found:
            return found.pop() if len(found) == 1 else None
    if _CUDA_ONLY.fullmatch(repository):
        return "cuda"
    return "rocm" if owner.rpartition("/")[2] == "rocm" else None


def _without_digest(image: str) -> tuple[str, str, str]:
    """(repository, ":", tag); a port is part of the repository."""
    named = image.partition("@")[0]
    path, slash, last = named.rpartition("/")
    name, colon, tag = last.partition(":")
    return path + slash + name, colon, tag


def _first(pattern: re.Pattern[str], tag: str, *, start: bool = False) -> str | None:
    found = pattern.match(tag) if start else pattern.search(tag)
    return found[1] if found else None
