"""The Job that downloads a model's files once: its pod, and where it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rayllm_ctl.model.kube.labels import COMPONENT
from rayllm_ctl.model.kube.model_downloads import (
    DOWNLOAD_COMPONENT,
    DOWNLOAD_CONTAINER,
    MODEL_VOLUME,
    MODELS_PATH,
    STORAGE_SETTINGS_VOLUME,
    job_prefix,
)
from rayllm_ctl.model.plan.plan import GPUChoice
from rayllm_ctl.model.plan.pods import (
    EnvVar,
    PodPlacement,
    PodStorage,
    PodTemplate,
    StorageContainer,
    StorageMount,
    StorageVolume,
)
from rayllm_ctl.model.plan.storage import Download
from rayllm_ctl.model.spec.model_storage import MirrorClaim
from rayllm_ctl.model.spec.pod_options import KeyOf
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.deployment.affinity import labelled_terms
from rayllm_ctl.planner.deployment.buckets import files_of_the_user, source_variables
from rayllm_ctl.planner.deployment.init_containers import CODE_CPU, CODE_ENV, CODE_MEMORY, code_volumes
from rayllm_ctl.planner.deployment.model_files import DownloadJob, download_job
from rayllm_ctl.planner.deployment.pod_templates import worker_template

_ONE_NODE = ("ReadWriteOnce", "ReadWriteOncePod")


def downloads(
    service: LLMService, gpu: GPUChoice | None, file_bytes: int | None, short_name: str | None = None
) -> tuple[Download, ...]:
    """The Job of a mirror of one model; none of any other way. short_name: of one of several models."""
    job = download_job(service, short_name)
    if job is None:
        return ()
    return (
        Download(
            name=job_prefix(service.name, short_name),
            model_id=service.model.id,
            source=job.source.uri,
            target=job.folder or job.target.uri,
            settings=job.settings,
            container=_container(service, job),
            pod=_pod(service, job, gpu),
            file_bytes=file_bytes,
        ),
    )


def _container(service: LLMService, job: DownloadJob) -> StorageContainer:
    options = service.pods.worker
    env = sorted(_environment(service, job), key=lambda one: one.name)
    _, mounts = code_volumes(service, STORAGE_SETTINGS_VOLUME, job.settings)
    models = (StorageMount(MODEL_VOLUME, MODELS_PATH, read_only=False),) if job.claim is not None else ()
    own = (StorageMount(one.name, one.mount_path) for one in files_of_the_user(service))
    mounts = (*mounts, *models, *job.access.mounts, *own)
    return StorageContainer(
        DOWNLOAD_CONTAINER, "download", tuple(env), mounts, CODE_CPU, CODE_MEMORY, env_from=options.env_from
    )


def _pod(service: LLMService, job: DownloadJob, gpu: GPUChoice | None) -> PodTemplate:
    """The pod: as that of a worker in who it is and where its image comes from. It requests no GPU."""
    worker = worker_template(service, None, gpu, service.scheduling)
    volumes, _ = code_volumes(service, STORAGE_SETTINGS_VOLUME, job.settings)
    models = (StorageVolume(MODEL_VOLUME, claim=job.claim.name),) if job.claim is not None else ()
    own = (StorageVolume(one.name, secret=one.secret, config_map=one.config_map) for one in files_of_the_user(service))
    return replace(
        worker,
        placement=_placement(service, worker.placement, job.claim, gpu),
        labels={**worker.labels, COMPONENT: DOWNLOAD_COMPONENT},
        priority_class_name=None,
        runtime_class_name=None,
        topology_spread_constraints=(),
        env=(),
        env_from=(),
        storage=PodStorage((*volumes, *models, *job.access.volumes, *own)),
    )


def _environment(service: LLMService, job: DownloadJob) -> Iterator[EnvVar]:
    yield CODE_ENV
    yield from job.access.env
    token = service.model.token_secret
    yield from (one for one in source_variables(service) if token is None or one.name != "HF_TOKEN")
    if not job.source.uri.startswith("hf://"):
        return
    yield EnvVar("HF_HOME", "/tmp/huggingface")  # noqa: S108  the only folder that it may write besides the model's
    # An image may have it set for serving.
    yield EnvVar("HF_HUB_OFFLINE", "0")
    if token is not None:
        yield EnvVar("HF_TOKEN", secret=KeyOf(token.name, token.key))


def _placement(
    service: LLMService, worker: PodPlacement, claim: MirrorClaim | None, gpu: GPUChoice | None
) -> PodPlacement:
    """Where the Job runs.

    A claim whose StorageClass waits for the first consumer gets its volume in the zone of the Job's node, and the
    workers have to run there too. So the Job may run on nodes with GPUs: it tolerates their taints, follows what the
    spec says of the workers' nodes, and prefers nodes with the GPU. A new claim that one node mounts requires them.
    """
    if claim is None:
        return PodPlacement({}, {}, ())
    if gpu is None or service.scheduling.node_selector or not gpu.node_labels:
        return worker
    if claim.create is not None and set(claim.create.access_modes) <= set(_ONE_NODE):
        return worker
    plain = worker_template(service, None, None, service.scheduling).placement.affinity
    return replace(worker, affinity=_preferring(plain, gpu))


def _preferring(given: Any, gpu: GPUChoice) -> dict[str, Any]:
    """The affinity `given` that also prefers nodes with the GPU."""
    nodes = dict(given.get("nodeAffinity") or {})
    field = "preferredDuringSchedulingIgnoredDuringExecution"
    wanted = [{"weight": 100, "preference": term} for term in labelled_terms(gpu.node_labels)]
    return {**given, "nodeAffinity": {**nodes, field: [*(nodes.get(field) or ()), *wanted]}}
