"""Containers with the code of rayllm-ctl: the init containers that wait for a model's files or copy them, and what
the Job's has in common with them."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.model.kube.model_downloads import (
    CODE_VOLUME,
    SCRATCH_VOLUME,
    STORAGE_CODE_PATH,
    STORAGE_SETTINGS_PATH,
    code_config_map,
)
from rayllm_ctl.model.plan.pods import EnvVar, PodStorage, StorageContainer, StorageMount, StorageVolume
from rayllm_ctl.model.plan.storage import DownloadSettings
from rayllm_ctl.model.spec.gateway import CODE_ARCHIVE
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.deployment.buckets import Access, files_of_the_user, source_variables

SCRATCH_SIZE = "1Gi"
CODE_CPU, CODE_MEMORY = "500m", "512Mi"
"""Of a container with the code of rayllm-ctl. The memory is what it keeps to, whatever the size of the model."""

CODE_ENV = EnvVar("PYTHONPATH", f"{STORAGE_CODE_PATH}/{CODE_ARCHIVE}")


def init_container(
    service: LLMService,
    name: str,
    command: str,
    volume: str,
    settings: DownloadSettings,
    access: Access,
    disk: str | None = None,
) -> PodStorage:
    """An init container with the code of rayllm-ctl, and the volumes that it mounts. disk: what it fills."""
    volumes, mounts = code_volumes(service, volume, settings)
    env, mounts = (CODE_ENV, *access.env), (*mounts, *access.mounts)
    container = StorageContainer(name, command, env, mounts, CODE_CPU, CODE_MEMORY, disk)
    if command == "download" or not settings.data["target"].startswith("/"):
        container = _reaching_buckets(service, container)
    return PodStorage((*volumes, *access.volumes), init=(container,))


def _reaching_buckets(service: LLMService, container: StorageContainer) -> StorageContainer:
    """`container` with what the user has given the workers to reach a bucket, as the Job has it. The pod has the
    volumes already."""
    variables = (one for one in source_variables(service) if not one.name.startswith(("HF_", "HUGGING")))
    given = {one.name: one for one in (*variables, *container.env)}
    certificates = (StorageMount(one.name, one.mount_path) for one in files_of_the_user(service))
    return replace(
        container,
        env=tuple(sorted(given.values(), key=lambda one: one.name)),
        mounts=(*container.mounts, *certificates),
        env_from=service.pods.worker.env_from,
    )


def code_volumes(
    service: LLMService, volume: str, settings: DownloadSettings
) -> tuple[tuple[StorageVolume, ...], tuple[StorageMount, ...]]:
    """The volumes of a container with the code of rayllm-ctl, and their mounts. volume: with its settings."""
    volumes = (
        StorageVolume(CODE_VOLUME, config_map=code_config_map(service.name)),
        StorageVolume(volume, config_map=settings.config_map),
        StorageVolume(SCRATCH_VOLUME, size_limit=SCRATCH_SIZE),
    )
    mounts = (
        # As a single file, which the kubelet never replaces below a process that imports from it.
        StorageMount(CODE_VOLUME, f"{STORAGE_CODE_PATH}/{CODE_ARCHIVE}", sub_path=CODE_ARCHIVE),
        StorageMount(volume, STORAGE_SETTINGS_PATH),
        StorageMount(SCRATCH_VOLUME, "/tmp", read_only=False),  # noqa: S108  the root file system is read-only
    )
    return volumes, mounts
