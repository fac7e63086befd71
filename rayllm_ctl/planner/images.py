"""What the image of head and workers must contain beside Ray and vLLM."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.deployment import Deployment, Runtime
from rayllm_ctl.model.plan import Reason
from rayllm_ctl.model.service import LLMService
from rayllm_ctl.model.severalmodels import each_model
from rayllm_ctl.planner.gateway import counting_redis

_RECIPE = "rayllm-ctl image recipe | docker build -t REGISTRY/IMAGE:TAG -    # then --image REGISTRY/IMAGE:TAG"


def image_problem(service: LLMService, runtime: Runtime) -> Reason | None:
    """Why the image cannot run the service; None where it can, or where nothing is known of it."""
    needed = next(_needed(service), None) if runtime.public and runtime.image is not None else None
    if needed is None:
        return None
    field, packages = needed
    noun = "packages" if " and " in packages else "package"
    message = f"{field} requires the Python {noun} {packages}, which {runtime.image} lacks"
    return Reason("image-lacks-packages", message, _RECIPE)


def image_notes(service: LLMService, deployment: Deployment) -> Iterator[str]:
    """What to make sure of in an image of which nothing is known."""
    if deployment.runtime.image is None:
        return
    found = dict.fromkeys(one for alone in each_model(service).values() for one in _needed(alone))
    for field, packages in found:
        yield f"{field}: {deployment.runtime.image} must contain {packages} (rayllm-ctl image recipe)"


def lacking_packages(service: LLMService) -> str:
    """What the engine needs and Ray's public image does not have; empty if nothing.

    device_map requires accelerate, and so does bitsandbytes (transformers 5.23, check_and_set_device_map). Neither is
    among the requirements of Ray 2.60 and vLLM 0.29, of which the image is made.
    """
    engine = service.engine
    if engine.kind != "transformers":
        return ""
    if engine.quantization is not None:
        return "accelerate and bitsandbytes"
    return "accelerate" if service.accelerator.kind == "gpu" else ""


def _needed(service: LLMService) -> Iterator[tuple[str, str]]:
    """Fields of the spec, and the packages that they need."""
    if counting_redis(service) is not None:
        yield "spec.gateway.limits.redis", "limits and redis"
    if packages := lacking_packages(service):
        yield "spec.engine.kind: transformers", packages
