"""Checks of volumes and variables in the place of those that model storage and caches add to the pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rayllm_ctl.model.kube.model_downloads import CACHES_PATH, MODELS_PATH, VOLUME_NAMES
from rayllm_ctl.model.spec.checks.storage.served import streamed_bucket
from rayllm_ctl.model.spec.model_storage import CREDENTIALS, ObjectStore
from rayllm_ctl.model.spec.service import LLMService, Storage
from rayllm_ctl.model.text.problems import Path, Problem, quoted

HUB_VARIABLES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")

CACHE_VARIABLES = (
    "VLLM_CACHE_ROOT", "VLLM_ENABLE_STARTUP_PLAN", "VLLM_DISABLE_COMPILE_CACHE", "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR", "DG_JIT_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE",
)  # fmt: skip
"""Where vLLM 0.29, PyTorch, Triton, DeepGEMM and FlashInfer keep what they compile, and whether they do."""


def mount_problems(service: LLMService) -> Iterator[Problem]:
    """Volumes and variables of the user that the pods could not have beside them."""
    mounted = _mounted(service.storage)
    for index, volume in enumerate(service.storage.volumes):
        at: Path = ("spec", "storage", "volumes", index)
        if mounted and volume.name in VOLUME_NAMES:
            yield Problem((*at, "name"), f"{quoted(volume.name)} is the name of a volume of model storage or caches")
        path = f"{volume.mount_path.rstrip('/')}/"
        for folder, field in mounted.items():
            if path.startswith(f"{folder}/"):
                yield Problem((*at, "mountPath"), f"{field} mounts a volume at {folder}", f"another path than {folder}")
    taken = _variables(service.storage)
    for name in service.engine.env:
        if name in taken:
            yield Problem(("spec", "engine", "env", name), f"{name} is set by {taken[name]}", "remove one of them")
    for role, pod in (("head", service.pods.head), ("worker", service.pods.worker)):
        for index, variable in enumerate(pod.env):
            if variable.name in taken:
                yield Problem(
                    ("spec", "pods", role, "env", index, "name"),
                    f"{variable.name} is set by {taken[variable.name]}",
                    "remove one of them",
                )


def _mounted(storage: Storage) -> Mapping[str, str]:
    """The folders at which volumes are mounted, and the fields that have it so."""
    found = {}
    if storage.model is not None and streamed_bucket(storage) is None:
        found[MODELS_PATH] = "spec.storage.model"
    if storage.caches is not None:
        found[CACHES_PATH] = "spec.storage.caches"
    return found


def _variables(storage: Storage) -> Mapping[str, str]:
    """The variables that are set for them, and the fields that set them."""
    found: dict[str, str] = {}
    if storage.model is not None and storage.model.hub is not None:
        found |= dict.fromkeys(HUB_VARIABLES, "spec.storage.model.hub")
    if storage.caches is not None:
        found |= dict.fromkeys(CACHE_VARIABLES, "spec.storage.caches")
    bucket = streamed_bucket(storage)
    return found if bucket is None else {**found, **_of_streamer(bucket)}


def _of_streamer(bucket: ObjectStore) -> Mapping[str, str]:
    """Variables that give the engine access to the bucket; those of settings that are not given are free."""
    of_google = bucket.uri.startswith("gs://")
    keys = ("GOOGLE_APPLICATION_CREDENTIALS", "RUNAI_STREAMER_GCS_CREDENTIAL_FILE") if of_google else tuple(CREDENTIALS)
    names: Mapping[str, tuple[str, ...]] = {
        "endpoint": ("AWS_ENDPOINT_URL", "RUNAI_STREAMER_S3_ENDPOINT", "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING"),
        "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
        "anonymous": ("RUNAI_STREAMER_S3_UNSIGNED",),
        "secret": keys,
    }
    return {
        variable: f"{field} of the bucket that is streamed (spec.storage.model)"
        for field, variables in names.items()
        if getattr(bucket, field)
        for variable in variables
    }
