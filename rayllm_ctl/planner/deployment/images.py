"""What the image of head and workers contains, and whether it runs on the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rayllm_ctl.model.kube.image_tags import ImageTag, read_tag
from rayllm_ctl.model.plan.deployment import Deployment, Runtime
from rayllm_ctl.model.plan.plan import GPUChoice, Reason
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.spec.several_models import each_model
from rayllm_ctl.planner.deployment.gateway import counting_redis
from rayllm_ctl.planner.deployment.model_files import LOAD_FORMAT, STREAMED

_RECIPE = "rayllm-ctl image recipe | docker build -t REGISTRY/IMAGE:TAG -    # then --image REGISTRY/IMAGE:TAG"


_ANOTHER = "--image REGISTRY/IMAGE:TAG"

_LEAST_CUDA = (((12, 1), (12, 9)), ((12, 0), (12, 8)), ((10, 3), (12, 9)), ((10, 0), (12, 8)), ((8, 9), (11, 8)))
"""The first CUDA release for GPUs of a compute capability and up, newest first (release notes of CUDA 11.8, 12.8 and
12.9)."""

_PLATFORMS = {"cuda": "NVIDIA GPUs", "rocm": "AMD GPUs", "cpu": "CPUs", "tpu": "TPUs", "xpu": "Intel GPUs",
              "hpu": "Gaudi", "neuron": "Neuron"}  # fmt: skip
"""What an image is built for. vLLM finds the devices of one platform only, that of its build (vllm/platforms)."""

_DROPPED = ((13, 0), (7, 5))
"""CUDA 13.0 supports no GPU below this capability (its release notes)."""


def public_image_lacks(service: LLMService, gpu: GPUChoice | None, image: str) -> str:
    """Why Ray's public image does not run the service on the nodes; empty if it does."""
    if gpu is None or gpu.resource != "nvidia.com/gpu":
        return f"there is no public image with Ray and vLLM for {gpu.name if gpu else 'CPUs'}"
    if gpu.host_architecture != "amd64":
        return (
            f"there is no public image with Ray and vLLM for {gpu.host_architecture}, the architecture of nodes with "
            f"{gpu.name}"
        )
    if unsupported := _cuda_problem(gpu, read_tag(image)):
        return f"Ray's public image has {unsupported}"
    lacking = lacking_packages(service)
    return f"Ray's public image lacks {lacking} (rayllm-ctl image recipe)" if lacking else ""


def _platform_problem(service: LLMService, gpu: GPUChoice | None, image: str, tag: ImageTag) -> Reason | None:
    """Why an image for other devices than those of the plan does not run.

    On CPUs an image with CUDA is not rejected: the Transformers engine runs there, and so may vLLM's own build in it.
    """
    if tag.platform is None or (service.accelerator.kind == "gpu" and gpu is None):
        return None
    wanted = "cpu" if gpu is None else "cuda" if gpu.resource == "nvidia.com/gpu" else "rocm"
    allowed = {wanted, "cuda"} if gpu is None else {wanted}
    if tag.platform in allowed or (gpu is None and service.engine.kind == "transformers"):
        return None
    on = f"{gpu.name} is not one of them" if gpu else "the service runs on CPUs"
    message = f"{image} is built for {_PLATFORMS[tag.platform]}, and {on}"
    return Reason("image-platform", message, f"{_ANOTHER}, an image for {_PLATFORMS[wanted]}")


def _cuda_problem(gpu: GPUChoice, tag: ImageTag) -> str:
    """Which CUDA an image has that does not support the GPU; empty if it does, or if that is not known."""
    capability = gpu.compute_capability
    if tag.cuda is None or capability is None:
        return ""
    least = next((cuda for first, cuda in _LEAST_CUDA if capability >= first), (0, 0))
    name = f"CUDA {_number(tag.cuda)}, which does not support {gpu.name}"
    if tag.cuda < least:
        return f"{name} (compute capability {_number(capability)} requires CUDA {_number(least)} or newer)"
    if tag.cuda >= _DROPPED[0] and capability < _DROPPED[1]:
        return f"{name} (compute capability {_number(capability)}; CUDA 13 requires {_number(_DROPPED[1])} or higher)"
    return ""


def _number(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def image_problem(service: LLMService, runtime: Runtime, gpu: GPUChoice | None) -> Reason | None:
    """Why the image cannot run the service on the nodes; None if it can, or where nothing is known of it."""
    if runtime.image is not None:
        tag = read_tag(runtime.image)
        if tag.lacks_vllm:
            message = f"{runtime.image} is Ray's image without vLLM and Transformers"
            return Reason("image-lacks-engine", message, "--image rayproject/ray-llm:TAG")
        if other := _platform_problem(service, gpu, runtime.image, tag):
            return other
        if gpu is not None and tag.architecture not in (None, gpu.host_architecture):
            message = f"{runtime.image} is built for {tag.architecture}, and nodes with {gpu.name} are"
            remedy = f"{_ANOTHER}, an image for {gpu.host_architecture}"
            return Reason("image-architecture", f"{message} {gpu.host_architecture}", remedy)
        if gpu is not None and (unsupported := _cuda_problem(gpu, tag)):
            return Reason("image-cuda", f"{runtime.image} has {unsupported}", f"{_ANOTHER}, with another CUDA")
    needed = next(_needed(service), None) if runtime.public and runtime.image is not None else None
    if needed is None:
        return None
    field, packages = needed
    noun = "packages" if " and " in packages else "package"
    message = f"{field} requires the Python {noun} {packages}, which {runtime.image} lacks"
    return Reason("image-lacks-packages", message, _RECIPE)


def image_warnings(runtime: Runtime, gpus: Iterable[GPUChoice]) -> Iterator[str]:
    """What is not known of an image, and what its architecture asks of nodes. gpus: of the models."""
    if runtime.image is None:
        return
    tag = read_tag(runtime.image)
    if runtime.assumed and tag.ray is None and tag.vllm is None:
        yield (
            f"what {runtime.image} contains is not known: planned for Ray {runtime.ray_version} and vLLM "
            f"{runtime.vllm_version} (spec.engine.rayVersion, --vllm-version)"
        )
    elif runtime.assumed and tag.ray is None:
        yield f"{runtime.image} does not state which Ray it contains: planned for Ray {runtime.ray_version}"
    foreign = next((gpu for gpu in gpus if gpu.host_architecture != "amd64"), None)
    if foreign is None:
        return
    if tag.architecture is None:
        yield (
            f"nodes with {foreign.name} are {foreign.host_architecture}: {runtime.image} must be built for that, and "
            "for the architecture of the head's node"
        )
    else:
        yield f"{runtime.image} is built for {tag.architecture}: the head needs a node of that architecture too"


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


STREAMER_PACKAGES = "runai-model-streamer[gcs,s3]"
"""What vLLM's extra runai installs. Ray's public image has none of it; pyarrow, with which files are copied, it has."""


def _needed(service: LLMService) -> Iterator[tuple[str, str]]:
    """Fields of the spec, and the packages that they need."""
    storage = service.storage.model
    if storage is not None and storage.object_store is not None and storage.object_store.load == "stream":
        yield "spec.storage.model.objectStore.load: stream", STREAMER_PACKAGES
    target = storage.mirror.to.object_store if storage is not None and storage.mirror is not None else None
    if target is not None and target.load == "stream":
        yield "spec.storage.model.mirror.to.objectStore.load: stream", STREAMER_PACKAGES
    if service.engine.args.get(LOAD_FORMAT) in STREAMED:
        yield f"spec.engine.args.{LOAD_FORMAT}: {service.engine.args[LOAD_FORMAT]}", STREAMER_PACKAGES
    if counting_redis(service) is not None:
        yield "spec.gateway.limits.redis", "limits and redis"
    if packages := lacking_packages(service):
        yield "spec.engine.kind: transformers", packages
