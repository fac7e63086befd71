"""A plan with the files of its model: the service as pods run it, engine arguments, memory, and what is rendered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.deployment import WorkerGroup
from rayllm_ctl.model.plan.plan import EngineSettings, GPUChoice, Plan
from rayllm_ctl.model.plan.pods import EnvVar
from rayllm_ctl.model.plan.storage import ModelStoragePlan
from rayllm_ctl.model.spec.model_storage import Caches, ModelStorage
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.deployment.claims import require_capacity, shared_claims
from rayllm_ctl.planner.deployment.compile_cache import (
    cache_notes,
    cache_root,
    compile_cache,
    compile_cache_claim,
)
from rayllm_ctl.planner.deployment.downloads import downloads
from rayllm_ctl.planner.deployment.model_files import (
    LOAD_FORMAT,
    STREAMER,
    ModelFiles,
    PodFiles,
    model_files,
    reads_hub,
)
from rayllm_ctl.planner.deployment.pods import streaming_pods

_LIMIT = "RUNAI_STREAMER_MEMORY_LIMIT"
_EXTRA = "model_loader_extra_config"


@dataclass(frozen=True)
class PlacedFiles:
    """service: with the folder of the files as spec.model.path, for all that reads where the model is. engine: what the
    pods of engines have. storage: None if the spec says nothing of files and caches."""

    plan: Plan
    service: LLMService
    files: ModelFiles
    engine: PodFiles
    storage: ModelStoragePlan | None

    def on(self, group: WorkerGroup) -> WorkerGroup:
        """Workers with engines that have the files."""
        return replace(group, pod=self.engine.on(group.pod))


def place_files(plan: Plan, service: LLMService, gpu: GPUChoice | None, short_name: str | None) -> PlacedFiles:
    """The plan of a model, with the settings by which its engine loads the files from where the spec has them.

    short_name: of one of several models, whose claim is checked with the files of all of them (`all_storage`). Raises
    UsageError if the size of a claim cannot be derived, or is too small.
    """
    wanted = service.storage
    if wanted.model is None and wanted.caches is None:
        return PlacedFiles(plan, service, ModelFiles(), PodFiles(), None)
    files = model_files(service, plan.file_bytes, short_name)
    pods = files.engine
    if files.streamed:
        plan, limit = _streaming(plan, service)
        pods |= PodFiles((EnvVar(_LIMIT, limit),)) if limit else PodFiles()
    caches, root, notes = wanted.caches or Caches(), None, files.notes
    if wanted.model is not None and short_name is None:
        notes = (*notes, *require_capacity(wanted.model, {service.model.id: plan.file_bytes}))
    if caches.compile is not None and plan.engine is not None:
        root = cache_root(gpu)
        pods |= compile_cache(caches, gpu, plan.engine)
        notes = (*notes, *cache_notes(caches, gpu, plan.engine))
    storage = replace(
        files.plan,
        claims=(*files.claims, *compile_cache_claim(caches)),
        downloads=downloads(service, gpu, plan.file_bytes, short_name),
        cache_root=root,
        notes=notes,
    )
    return PlacedFiles(plan, _placed(service, files), files, pods, storage)


def files_of_ingress(services: Iterable[LLMService], plans: Mapping[str, Plan]) -> PodFiles:
    """What the pods of an ingress have of the files of all models. services: of the models, in the order of `plans`."""
    several = len(plans) > 1
    found = PodFiles()
    for service, (name, plan) in zip(services, plans.items(), strict=True):
        if service.storage.model is not None:
            found |= model_files(service, plan.file_bytes, name if several else None).ingress
    return found


def all_storage(service: LLMService, plans: Iterable[Plan]) -> ModelStoragePlan | None:
    """What is rendered for all models of a service. Raises UsageError if a claim is too small for their files."""
    placed = [plan for plan in plans if plan.deployment is not None]
    found = [one for plan in placed if plan.deployment is not None and (one := plan.deployment.storage) is not None]
    if not found:
        return None
    open_questions = require_capacity(
        service.storage.model or ModelStorage(), {plan.model: plan.file_bytes for plan in placed}
    )
    return ModelStoragePlan(
        model_source=found[0].model_source if len(found) == 1 else None,
        claims=shared_claims(claim for one in found for claim in one.claims),
        settings=tuple({item.config_map: item for one in found for item in one.settings}.values()),
        downloads=tuple(item for one in found for item in one.downloads),
        cache_root=found[0].cache_root if len({one.cache_root for one in found}) == 1 else None,
        notes=tuple(dict.fromkeys((*(note for one in found for note in one.notes), *open_questions))),
    )


def _placed(service: LLMService, files: ModelFiles) -> LLMService:
    model = service.model
    if files.source is not None:
        model = replace(model, path=files.source, revision=None)
    return replace(service, model=model if reads_hub(service) else replace(model, token_secret=None))


def _streaming(plan: Plan, service: LLMService) -> tuple[Plan, str | None]:
    """`plan` with an engine that streams, and the limit of its buffers; None if the user has set one."""
    engine, pods, parallelism = plan.engine, plan.pods, plan.parallelism
    if engine is None or pods is None or parallelism is None:
        return plan, None
    given = _given_limit(service, engine)
    processes = pods.gpus_per_worker or parallelism.gpus_per_replica
    pods, limit = streaming_pods(pods, processes, plan.file_bytes, given, service.resources)
    args = {LOAD_FORMAT: STREAMER, **engine.args}
    return replace(plan, engine=replace(engine, args=args), pods=pods), None if given is not None else str(limit)


def _given_limit(service: LLMService, engine: EngineSettings) -> int | None:
    """What the user allows each process to buffer; 0 for -1, an unlimited buffer, which cannot be counted."""
    extra = engine.args.get(_EXTRA)
    found = extra.get("memory_limit") if isinstance(extra, Mapping) else None
    text = str(service.engine.env.get(_LIMIT, "") if found is None else found)
    try:
        return max(0, int(text))
    except ValueError:
        return None
