"""How the files of a model come to the pods: where the engine loads from, volumes, variables, init containers, claims.

Read against Ray 2.60 (ray/llm/_internal). With one application only the replicas of the engine read the model's
folder: the config is read where the engine starts (serve/engines/vllm/vllm_engine.py), the tokenizer in its process,
and neither the head nor the ingress opens it. The gateway in front of several applications counts tokens, so the pods
of its ingress mount the folder too. In a batch job the driver on the head only looks at the config for telemetry and
continues without it (batch/processor/vllm_engine_proc.py); of a bucket it fetches the config, with its credentials. A
claim with ReadWriteOnce has to be on the node of all these pods, and of the Job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.model_downloads import (
    COPY_CONTAINER,
    COPY_PATH,
    HUB_PATH,
    IMAGE_PATH,
    MODEL_VOLUME,
    MODELS_PATH,
    STORAGE_SETTINGS_VOLUME,
    WAIT_CONTAINER,
    WAIT_VOLUME,
    digest_name,
    job_prefix,
)
from rayllm_ctl.model.plan.pods import (
    EnvVar,
    PodStorage,
    PodTemplate,
    StorageMount,
    StorageVolume,
)
from rayllm_ctl.model.plan.storage import Download, DownloadSettings, ModelStoragePlan, PlannedClaim
from rayllm_ctl.model.spec.model_storage import (
    HubCache,
    Mirror,
    MirrorClaim,
    ModelClaim,
    ModelImage,
    ModelStorage,
    ObjectStore,
)
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.deployment.buckets import (
    NOWHERE,
    Access,
    Bucket,
    access_of_code,
    access_of_engine,
    bucket_of,
    mirror_source,
)
from rayllm_ctl.planner.deployment.claims import folder_size, planned_claim
from rayllm_ctl.planner.deployment.init_containers import init_container

STREAMER = "runai_streamer"
STREAMED = (STREAMER, "runai_streamer_sharded")
LOAD_FORMAT = "load_format"

_OFFLINE = EnvVar("HF_HUB_OFFLINE", "1")


@dataclass(frozen=True)
class PodFiles:
    """What pods have for the model's files: variables, and what they mount and run beforehand."""

    env: tuple[EnvVar, ...] = ()
    storage: PodStorage = PodStorage()

    def __or__(self, other: PodFiles) -> PodFiles:
        """With what the other has; what both have is the same."""
        mine, its = self.storage, other.storage
        storage = PodStorage(
            _once(mine.volumes, its.volumes), _once(mine.mounts, its.mounts), _once(mine.init, its.init)
        )
        return PodFiles(_once(self.env, other.env), storage)

    def on(self, pod: PodTemplate) -> PodTemplate:
        """`pod` with them. Variables that it has already stay."""
        own = {variable.name for variable in pod.env}
        added = tuple(sorted((one for one in self.env if one.name not in own), key=lambda one: one.name))
        return replace(pod, env=(*added, *pod.env), storage=self.storage if self.storage != PodStorage() else None)


@dataclass(frozen=True)
class ModelFiles:
    """The files of one model.

    source: the folder or URI that the engine loads; None: the repository on the Hub, or spec.model.path. engine,
    ingress, driver: what the pods of engines, of the ingress and of a batch job's driver have. tokenizer: as
    ServeApplication.tokenizer.
    """

    source: str | None = None
    engine: PodFiles = PodFiles()
    ingress: PodFiles = PodFiles()
    driver: PodFiles = PodFiles()
    tokenizer: str | None = None
    streamed: bool = False
    claims: tuple[PlannedClaim, ...] = ()
    settings: tuple[DownloadSettings, ...] = ()
    downloads: tuple[Download, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def plan(self) -> ModelStoragePlan:
        return ModelStoragePlan(self.source, self.claims, self.settings, self.downloads, notes=self.notes)


@dataclass(frozen=True)
class DownloadJob:
    """What a mirror asks of its Job: settings, access to both stores, the claim into which it writes."""

    source: Bucket
    target: Bucket
    folder: str | None
    settings: DownloadSettings
    access: Access
    claim: MirrorClaim | None


def model_files(service: LLMService, file_bytes: int | None, short_name: str | None = None) -> ModelFiles:
    """Of a service of one model. short_name: of one of several models, which have folders of their own.

    The Job of a mirror is in `download_job`. Raises UsageError if the size of a claim cannot be derived.
    """
    storage = service.storage.model or ModelStorage()
    if storage.hub is not None:
        return _hub(service, storage.hub, file_bytes)
    if storage.claim is not None:
        return _in_folder(service, _folder(MODELS_PATH, storage.claim.path), _claim_volume(storage.claim, True))
    if storage.image is not None:
        return _image(service, storage.image)
    if storage.object_store is not None:
        return _bucket(service, storage.object_store, bucket_of(storage.object_store), file_bytes, PodFiles(), ())
    if storage.mirror is not None:
        return _mirrored(service, storage.mirror, file_bytes, short_name)
    return ModelFiles()


def download_job(service: LLMService, short_name: str | None = None) -> DownloadJob | None:
    """The Job of a mirror, None of any other way."""
    mirror = service.storage.model.mirror if service.storage.model else None
    if mirror is None:
        return None
    source, store, claim = mirror_source(mirror, service.model.id), mirror.to.object_store, mirror.to.claim
    target = NOWHERE if store is None else bucket_of(store, model_folder(service) if short_name else "")
    folder = None if claim is None else _folder(MODELS_PATH, _path_in(claim, service, short_name))
    access = access_of_code(source), access_of_code(target, target=True)
    return DownloadJob(
        source,
        target,
        folder,
        _settings(service, short_name, source, folder or target.uri, source, target),
        access[0] | access[1],
        claim,
    )


def model_folder(service: LLMService) -> str:
    """The folder of a model in a claim or bucket, where the spec names none."""
    return f"{service.model.id}/{service.model.revision or 'main'}"


def reads_hub(service: LLMService) -> bool:
    """Whether serving pods may ask the Hub, and need its token."""
    storage = service.storage.model
    if storage is None or storage.hub is not None or loads_from_hub(service):
        return True
    store = storage.mirror.to.object_store if storage.mirror else storage.object_store
    return store is not None and service.gateway is not None and bool(_hub_tokenizer(service))


def loads_from_hub(service: LLMService) -> bool:
    """Whether engine arguments name something else that may be on the Hub: code, a tokenizer, a draft model."""
    args = service.engine.args
    speculation = args.get("speculative_config")
    draft = speculation.get("model") if isinstance(speculation, Mapping) else speculation
    named = (args.get("tokenizer"), args.get("hf_config_path"), draft)
    options = service.engine.transformers
    code = args.get("trust_remote_code") or (options is not None and options.trust_remote_code)
    return bool(code) or any(isinstance(one, str) and not one.startswith("/") for one in named)


def _hub(service: LLMService, hub: HubCache, file_bytes: int | None) -> ModelFiles:
    volume = StorageVolume(MODEL_VOLUME, claim=hub.cache)
    mount = StorageMount(MODEL_VOLUME, HUB_PATH, read_only=False)
    files = PodFiles((EnvVar("HF_HOME", HUB_PATH),), PodStorage((volume,), (mount,)))
    claims = planned_claim(ModelStorage(hub=hub), service.model.id, file_bytes)
    return ModelFiles(engine=files, ingress=files, claims=claims)


def _in_folder(service: LLMService, folder: str, volume: StorageVolume, mount: str = MODELS_PATH) -> ModelFiles:
    """Files that are complete in a volume."""
    files = PodFiles(storage=PodStorage((volume,), (StorageMount(MODEL_VOLUME, mount),)))
    return _complete(service, ModelFiles(folder, files, files))


def _complete(service: LLMService, files: ModelFiles) -> ModelFiles:
    """`files` with pods that do not ask the Hub, unless something else is there."""
    if loads_from_hub(service):
        return files
    offline = PodFiles((_OFFLINE,))
    ingress = files.ingress | offline if files.tokenizer is None else files.ingress
    return replace(files, engine=files.engine | offline, ingress=ingress)


def _image(service: LLMService, image: ModelImage) -> ModelFiles:
    volume = StorageVolume(MODEL_VOLUME, image=image.reference, pull_policy=image.pull_policy)
    return _in_folder(service, _folder(IMAGE_PATH, image.path), volume, IMAGE_PATH)


def _mirrored(service: LLMService, mirror: Mirror, file_bytes: int | None, short_name: str | None) -> ModelFiles:
    job = download_job(service, short_name)
    assert job is not None
    # Nothing of the source is in the settings of serving pods, which its change would restart.
    waits = _settings(service, short_name, job.source, job.folder or job.target.uri, NOWHERE, job.target)
    access = access_of_code(job.target, target=True)
    claim, store = mirror.to.claim, mirror.to.object_store
    mounts = (StorageMount(MODEL_VOLUME, MODELS_PATH),) if claim is not None else ()
    wait = init_container(service, WAIT_CONTAINER, "wait", WAIT_VOLUME, waits, access | Access(mounts=mounts))
    if store is not None:
        return _bucket(service, store, job.target, file_bytes, PodFiles(storage=wait), (waits,))
    assert claim is not None
    files = _in_folder(service, str(job.folder), _claim_volume(claim, False))
    claims = planned_claim(ModelStorage(mirror=mirror), service.model.id, file_bytes)
    return replace(files, engine=files.engine | PodFiles(storage=wait), claims=claims, settings=(waits,))


def _bucket(
    service: LLMService,
    store: ObjectStore,
    bucket: Bucket,
    file_bytes: int | None,
    before: PodFiles,
    settings: tuple[DownloadSettings, ...],
) -> ModelFiles:
    """before: the container that waits for a mirror, with its settings."""
    tokenizer = _hub_tokenizer(service)
    notes = tuple(_tokenizer_notes(service, tokenizer))
    if store.load == "stream":
        access = access_of_engine(bucket)
        reads = PodFiles(access.env, PodStorage(access.volumes, access.mounts))
        # Not offline: before 0.29 vLLM then took the URI for a repository (engine/arg_utils.py).
        return ModelFiles(
            bucket.uri,
            reads | before,
            driver=reads,
            tokenizer=tokenizer,
            streamed=True,
            settings=settings,
            notes=notes,
        )
    copied = _settings(service, None, bucket, COPY_PATH, bucket, NOWHERE)
    size = None if file_bytes is None else folder_size(file_bytes)
    access = access_of_code(bucket) | Access(mounts=(StorageMount(MODEL_VOLUME, COPY_PATH, read_only=False),))
    copy = init_container(service, COPY_CONTAINER, "download", STORAGE_SETTINGS_VOLUME, copied, access, size)
    disk = StorageVolume(MODEL_VOLUME, size_limit=size)
    files = PodFiles(storage=PodStorage((disk,), (StorageMount(MODEL_VOLUME, COPY_PATH),)))
    return _complete(
        service,
        ModelFiles(
            COPY_PATH,
            files | before | PodFiles(storage=copy),
            tokenizer=tokenizer,
            settings=(*settings, copied),
            notes=notes,
        ),
    )


def _hub_tokenizer(service: LLMService) -> str:
    """Where the gateway reads the tokenizer of a model in a bucket: it takes a folder or a repository of the Hub."""
    return service.model.id if "/" in service.model.id else ""


def _tokenizer_notes(service: LLMService, tokenizer: str) -> Iterator[str]:
    if service.gateway is None:
        return
    if tokenizer:
        yield f"the gateway counts tokens with the tokenizer of {tokenizer} on the Hub: the ingress must reach it"
    else:
        yield f"the gateway does not count tokens of {service.model.id}: its tokenizer is in the bucket alone"


def _settings(
    service: LLMService, short_name: str | None, source: Bucket, target: str, source_store: Bucket, target_store: Bucket
) -> DownloadSettings:
    data: dict[str, Any] = {
        "source": source.uri,
        "revision": (service.model.revision or "main") if source.uri.startswith("hf://") else None,
        "target": target,
        "source_store": source_store.settings,
        "target_store": target_store.settings,
    }
    return DownloadSettings(digest_name(job_prefix(service.name, short_name), json.dumps(data, sort_keys=True)), data)


def _claim_volume(claim: ModelClaim, filled: bool) -> StorageVolume:
    """filled: whether nothing writes to the claim, so that it may be attached read-only."""
    return StorageVolume(MODEL_VOLUME, claim=claim.name, read_only=filled)


def _path_in(claim: ModelClaim, service: LLMService, short_name: str | None) -> str:
    if claim.path is None or short_name is not None:
        return "/".join(part for part in (claim.path, model_folder(service)) if part)
    return claim.path


def _folder(root: str, path: str | None) -> str:
    return f"{root}/{path.strip('/')}" if path and path.strip("/") else root


def _once(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys((*first, *second)))
