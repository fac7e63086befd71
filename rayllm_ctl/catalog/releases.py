"""Which Ray, vLLM and image belong together.

The vLLM version is the one that the extra `llm` of a Ray release requires exactly (Requires-Dist of ray 2.56.0 to
2.60.0; before 2.56 it was a lower bound). The image is Ray's public one for NVIDIA GPUs, under this name since 2.56;
the tags of 2.56.0 to 2.58.0 were seen on Docker Hub, those of later releases follow the same rule and were not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.image_tags import read_tag
from rayllm_ctl.model.kube.releases import is_older
from rayllm_ctl.model.plan.deployment import Runtime
from rayllm_ctl.model.spec.checks.ray_features import OLDEST_RAY, RayFeature
from rayllm_ctl.model.spec.service import Engine


@dataclass(frozen=True)
class Release:
    """A Ray release. verified: the image's tag was seen in its registry."""

    ray: str
    vllm: str
    verified: bool

    @property
    def image(self) -> str:
        return f"rayproject/ray-llm:{self.ray}-py312-cu130"


RELEASES = (
    Release("2.56.0", "0.22.0", verified=True),
    Release("2.57.0", "0.25.1", verified=True),
    Release("2.58.0", "0.26.0", verified=True),
    Release("2.59.0", "0.27.0", verified=False),
    Release("2.60.0", "0.29.0", verified=False),
)
DEFAULT = RELEASES[-1]
"""The release if the user names neither version nor image."""

_PUBLIC_IMAGE = re.compile(r"(?:.*/)?rayproject/ray-llm:(\d+\.\d+\.\d+)(?:-.*)?")
_PUBLIC_TAG = re.compile(r"(-py\d+)?(-cu\d+|-gpu)?")
"""What a tag of Ray's has after the version, in any mirror; what is built on its image has more."""

_NAME_AN_IMAGE = "--image REGISTRY/IMAGE:TAG"


def resolve_release(engine: Engine) -> Runtime:
    """Ray, vLLM and image as `engine` states them, the missing ones from the release that the others name.

    Raises UsageError if two of them contradict each other, and for a Ray that is too old.
    """
    ray, vllm = engine.ray_version, engine.vllm_version
    if ray is not None and is_older(ray, OLDEST_RAY):
        least = _number(OLDEST_RAY)
        raise UsageError(
            f"spec.engine.rayVersion is {ray}, which is not supported (requires {least} or newer)",
            hint=f"spec.engine.rayVersion: {DEFAULT.ray}, or leave it out",
        )
    if engine.image is not None:
        return _with_image(engine.image, ray, vllm)
    release = _find(ray, vllm)
    if release is None:
        _reject_contradiction(ray, vllm)
        missing = f"vLLM {vllm} has no known image" if vllm else f"Ray {ray} has no known image"
        return Runtime(ray or DEFAULT.ray, vllm or DEFAULT.vllm, None, missing, tuple(_assumed(ray, vllm)))
    unseen = "" if release.verified else "tag not verified"
    return Runtime(release.ray, release.vllm, release.image, unseen, public=True)


def require_release(features: Iterable[tuple[str, RayFeature]], runtime: Runtime, engine: Engine) -> None:
    """UsageError for the first feature that the Ray of `runtime`, which was resolved for `engine`, does not have.

    features: each with what it is called in messages.
    """
    for name, feature in features:
        if is_older(runtime.ray_version, feature.least):
            least = _number(feature.least)
            lacks = f"Ray {runtime.ray_version} has no {feature.lacking}"
            raise UsageError(
                f"{_source(engine, runtime)}, and {name} requires Ray {least} or newer: {lacks}",
                hint=_newer(engine, runtime, least),
            )


def _is_assumed(runtime: Runtime) -> bool:
    return f"Ray {runtime.ray_version}" in runtime.assumed


def _source(engine: Engine, runtime: Runtime) -> str:
    """What says which Ray it is."""
    if engine.ray_version is not None:
        return f"spec.engine.rayVersion is {engine.ray_version}"
    if engine.image is not None and not _is_assumed(runtime):
        return f"image {engine.image} contains Ray {runtime.ray_version}"
    return f"vLLM {runtime.vllm_version} comes with Ray {runtime.ray_version}"


def _newer(engine: Engine, runtime: Runtime, least: str) -> str:
    """How to get a Ray that is new enough."""
    if engine.image is not None and _is_assumed(runtime):
        return f"spec.engine.rayVersion: the version of Ray in {engine.image}"
    if engine.image is not None:
        return f"--image {DEFAULT.image}    # or another one with Ray {least} or newer"
    if engine.vllm_version is not None:
        return f"--vllm-version {DEFAULT.vllm}    # comes with Ray {DEFAULT.ray}"
    return f"spec.engine.rayVersion: {DEFAULT.ray}, or leave it out"


def _number(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


def _with_image(image: str, ray: str | None, vllm: str | None) -> Runtime:
    tag = read_tag(image)
    published = _PUBLIC_IMAGE.fullmatch(image) is not None
    if tag.ray is not None and is_older(tag.ray, OLDEST_RAY):
        least = _number(OLDEST_RAY)
        raise UsageError(
            f"image {image} contains Ray {tag.ray}, which is not supported (requires {least} or newer)",
            hint=f"--image {DEFAULT.image}    # or another one with Ray {least} or newer",
        )
    release = _find(tag.ray, None) if tag.ray and published else None
    has = (release.ray, release.vllm) if release else (tag.ray, tag.vllm)
    for name, wanted, inside in (("Ray", ray, has[0]), ("vLLM", vllm, has[1])):
        if wanted is not None and inside is not None and _exact(wanted) != _exact(inside):
            raise UsageError(
                f"image {image} contains {name} {inside}, not {name} {wanted}",
                hint=(f"leave out the {name} version, or the image", _NAME_AN_IMAGE),
            )
    if release is not None:
        public = _PUBLIC_TAG.fullmatch(image.rpartition(release.ray)[2]) is not None
        return Runtime(release.ray, release.vllm, image, public=public)
    ray, vllm = ray or tag.ray, vllm or tag.vllm
    named = _find(ray, vllm) or _find(_minor(ray), None) or DEFAULT
    return Runtime(ray or named.ray, vllm or named.vllm, image, "", tuple(_assumed(ray, vllm, (named.ray, named.vllm))))


def _minor(version: str | None) -> str | None:
    """The release whose patch release `version` is; of a version that is not stated one that no release has."""
    return ".".join(_exact(version).split(".")[:2]) if version else ""


def _find(ray: str | None, vllm: str | None) -> Release | None:
    """The release of both versions; None is any. The default one where neither is named."""
    if ray is None and vllm is None:
        return DEFAULT
    return next(
        (
            release
            for release in RELEASES
            if (ray is None or _exact(ray) == release.ray) and (vllm is None or _exact(vllm) == release.vllm)
        ),
        None,
    )


def _reject_contradiction(ray: str | None, vllm: str | None) -> None:
    if ray is None or vllm is None:
        return
    by_ray, by_vllm = _find(ray, None), _find(None, vllm)
    if by_ray is None and by_vllm is None:
        return
    known = by_ray or by_vllm
    assert known is not None
    why = f"Ray {known.ray} comes with vLLM {known.vllm}"
    hints = [f"--vllm-version {by_ray.vllm}    # for Ray {by_ray.ray}"] if by_ray else []
    hints += [f"rayVersion: {by_vllm.ray}  for vLLM {by_vllm.vllm} (spec.engine)"] if by_vllm else []
    raise UsageError(
        f"no known image contains Ray {ray} and vLLM {vllm}: {why}",
        hint=(*hints, f"{_NAME_AN_IMAGE}  an image that contains both"),
    )


def _assumed(ray: str | None, vllm: str | None, found: tuple[str, str] = (DEFAULT.ray, DEFAULT.vllm)) -> Iterator[str]:
    """The versions that were not stated."""
    if ray is None:
        yield f"Ray {found[0]}"
    if vllm is None:
        yield f"vLLM {found[1]}"


def _exact(version: str) -> str:
    """`version` with three numbers, without a leading v and what a build appends: v0.29+cu130 is 0.29.0."""
    numbers = version.strip().removeprefix("v").partition("+")[0]
    return numbers + ".0" * max(0, 2 - numbers.count("."))
