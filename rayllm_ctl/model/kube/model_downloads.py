"""Conventions of the Jobs that download a model's files: names, labels, places in the pods."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.kube.labels import COMPONENT

DOWNLOAD_COMPONENT = "model-download"
"""Value of COMPONENT on the Job and its pods."""

DOWNLOAD_CONTAINER = "download"
"""The container of the Job."""

WAIT_CONTAINER, COPY_CONTAINER = "wait-for-model", "copy-model"
"""Init containers of serving pods: the one waits for the files of a Job, the other copies them from a bucket."""

SOURCE_ANNOTATION = "rayllm.io/model-source"
"""Annotation of the Job: the URI of the files."""

KEEP = "rayllm.io/keep"
CLAIM_ANNOTATIONS = {
    KEEP: "true",
    "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
}
"""Annotations of the claims that are created with a service. Neither `delete` nor a GitOps controller deletes them."""

STORAGE_CODE_PATH = "/opt/rayllm/storage"
STORAGE_SETTINGS_PATH = "/etc/rayllm/storage"

MODEL_VOLUME = "model-storage"
CACHE_VOLUME = "compile-cache"
CODE_VOLUME = "storage-code"
STORAGE_SETTINGS_VOLUME = "storage-settings"
WAIT_VOLUME = "storage-wait"
SOURCE_VOLUME = "storage-source"
TARGET_VOLUME = "storage-target"
SCRATCH_VOLUME = "storage-scratch"
"""Volumes of pods: of the model's files, of a compile cache; of the code with its settings, those of the container that
waits, key files of two buckets, and /tmp of these containers."""

VOLUME_NAMES = (
    MODEL_VOLUME, CACHE_VOLUME, CODE_VOLUME, STORAGE_SETTINGS_VOLUME, WAIT_VOLUME, SOURCE_VOLUME, TARGET_VOLUME,
    SCRATCH_VOLUME,
)  # fmt: skip
"""All of them."""

MODELS_PATH = "/models"
HUB_PATH = "/models/hub"
IMAGE_PATH = "/models/image"
COPY_PATH = "/models/copy"
CACHES_PATH = "/caches"
"""Where pods mount a claim with models, a cache of huggingface_hub, an image volume, a copy, and a compile cache."""

_DIGITS = 8
_MOST = 63
"""The longest name of a Job: its pods have it as the value of a label."""


def code_config_map(service: str) -> str:
    """The ConfigMap with the code. Its name stays, so that other code does not restart the pods of a service."""
    return f"{service}-storage-code"


def job_prefix(service: str, short_name: str | None) -> str:
    """How the name of a Job begins. short_name: of one of several models."""
    return f"{service}-{short_name}-model" if short_name else f"{service}-model"


def job_name(prefix: str, spec: Mapping[str, Any]) -> str:
    """The name of a Job with this spec: a Job's pod template cannot change, so another spec is another Job."""
    return digest_name(prefix, json.dumps(spec, sort_keys=True))


def digest_name(prefix: str, text: str) -> str:
    """`prefix` and the digest of `text` as a name. Of one that would be too long the end is cut off."""
    found = hashlib.sha256(f"{prefix}\0{text}".encode()).hexdigest()[:_DIGITS]
    return f"{prefix[: _MOST - _DIGITS - 1].rstrip('-.')}-{found}"


def is_download(manifest: Mapping[str, Any]) -> bool:
    """Whether an object is a Job that downloads a model's files."""
    return manifest.get("kind") == "Job" and _metadata(manifest, "labels", COMPONENT) == DOWNLOAD_COMPONENT


def is_kept(manifest: Mapping[str, Any]) -> bool:
    """Whether an object stays when its service is deleted."""
    return _metadata(manifest, "annotations", KEEP) == "true"


def _metadata(manifest: Mapping[str, Any], *path: str) -> object:
    """The value at `path` of the metadata, or None: a patch may have put anything there that is rejected only later."""
    value = manifest.get("metadata")
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
