"""Which way the weights take to the pods, and what in the rest of the spec contradicts it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.model.spec.checks.pod_fields import is_absolute
from rayllm_ctl.model.spec.checks.storage.buckets import bucket_problems, mirror_source_problems
from rayllm_ctl.model.spec.checks.storage.caches import cache_problems
from rayllm_ctl.model.spec.checks.storage.claims import claim_problems, shared_claim_problems
from rayllm_ctl.model.spec.checks.storage.loading import loading_problems
from rayllm_ctl.model.spec.checks.storage.mounts import mount_problems
from rayllm_ctl.model.spec.checks.storage.served import streamed_bucket
from rayllm_ctl.model.spec.model_storage import (
    HUB,
    Mirror,
    MirrorTarget,
    ModelClaim,
    ModelImage,
    ModelStorage,
    NewClaim,
)
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.text.json_form import camel
from rayllm_ctl.model.text.patterns import IMAGE
from rayllm_ctl.model.text.problems import Path, Problem, quoted

_AT: Path = ("spec", "storage", "model")


def storage_problems(service: LLMService) -> Iterator[Problem]:
    """All that is wrong with them, in the order of the spec file."""
    model, caches = service.storage.model, service.storage.caches
    if model is not None:
        ways = given_fields(model)
        if len(ways) != 1:
            yield Problem(_AT, f"must have exactly one of {_names(ModelStorage)}, not {len(ways)}")
        for way, settings in ways.items():
            yield from _way(service, way, settings)
        if len(ways) == 1:
            yield from _beside(service, next(iter(ways)), model)
    if caches is not None:
        yield from cache_problems(service, caches)
    yield from shared_claim_problems(service)
    yield from mount_problems(service)
    yield from loading_problems(service)


def given_fields(section: ModelStorage | MirrorTarget) -> Mapping[str, Any]:
    """The ways of a section that are given, by their keys in the file."""
    fields = ((camel(field.name), getattr(section, field.name)) for field in dataclasses.fields(section))
    return {key: value for key, value in fields if value is not None}


def _names(section: type) -> str:
    return ", ".join(camel(field.name) for field in dataclasses.fields(section))


def _way(service: LLMService, way: str, settings: Any) -> Iterator[Problem]:
    at = (*_AT, way)
    if way == "hub":
        yield from claim_problems(service, (*at, "cache"), settings.cache, (*at, "create"), settings.create)
    elif way == "claim":
        yield from _claim(service, at, settings, None)
    elif way == "mirror":
        yield from _mirror(service, at, settings)
    elif way == "objectStore":
        yield from bucket_problems(at, settings)
    else:
        yield from _image(at, settings)


def _mirror(service: LLMService, at: Path, mirror: Mirror) -> Iterator[Problem]:
    yield from mirror_source_problems(at, mirror)
    targets = given_fields(mirror.to)
    if len(targets) != 1:
        yield Problem((*at, "to"), f"must have exactly one of {_names(MirrorTarget)}, not {len(targets)}")
    if mirror.to.claim is not None:
        yield from _claim(service, (*at, "to", "claim"), mirror.to.claim, mirror.to.claim.create)
    store = mirror.to.object_store
    if store is None:
        return
    here = (*at, "to", "objectStore")
    yield from bucket_problems(here, store)
    if store.anonymous:
        yield Problem(
            (*here, "anonymous"),
            "cannot be combined with a mirror, which takes credentials to write",
            "spec.storage.model.mirror.to.objectStore.secret (--storage-secret), or the identity of the pods",
        )
    source, target = (f"{uri.rstrip('/')}/" for uri in (mirror.from_, store.uri))
    if source.startswith(target) or target.startswith(source):
        yield Problem((*here, "uri"), "overlaps with the folder from which the mirror reads", "another folder")


def _claim(service: LLMService, at: Path, claim: ModelClaim, create: NewClaim | None) -> Iterator[Problem]:
    yield from claim_problems(service, (*at, "name"), claim.name, (*at, "create"), create)
    yield from _folder((*at, "path"), claim.path, "the volume")


def _image(at: Path, image: ModelImage) -> Iterator[Problem]:
    if not IMAGE.fullmatch(image.reference):
        yield Problem((*at, "reference"), "not a valid image reference, such as registry.example.com/qwen3-8b:v1")
    yield from _folder((*at, "path"), image.path, "the image")


def _folder(at: Path, path: str | None, root: str) -> Iterator[Problem]:
    if path is not None and (not path.strip("/ ") or path[0] == "/" or path[-1] == "/" or not is_absolute(f"/{path}")):
        yield Problem(
            at,
            f"{quoted(path)} is not a folder below {root}: a relative path without '..', such as Qwen/Qwen3-8B",
            "leave it out for the root" if not path.strip("/ ") else "",
        )


def _beside(service: LLMService, way: str, model: ModelStorage) -> Iterator[Problem]:
    """What else says which files a model has. way: the one of `model`."""
    here = f"spec.storage.model.{way}"
    from_hub = way == "hub" or (model.mirror is not None and model.mirror.from_ == HUB)
    named: tuple[tuple[Path, Any], ...] = (
        *(() if not service.model.id else ((("spec", "model"), service.model),)),
        *((("spec", "models", index), entry) for index, entry in enumerate(service.models)),
    )
    for at, one in named:
        if one.path is not None:
            yield Problem(
                (*at, "path"), f"cannot be combined with {here}, which provides the model's files", "remove one of them"
            )
        elif one.revision is not None and not from_hub:
            yield Problem(
                (*at, "revision"), f"has no effect with {here}: only the Hugging Face Hub has revisions", "remove it"
            )
    if service.models:
        yield from _several(way, model, from_hub)
    kinds = {entry.engine.kind for entry in service.models} or {service.engine.kind}
    if streamed_bucket(service.storage) is not None and "transformers" in kinds:
        at = (*_AT, "mirror", "to", "objectStore") if model.mirror is not None else (*_AT, "objectStore")
        yield Problem(
            (*at, "load"), "stream requires engine kind vllm: Transformers reads files from a disk", "load: copy"
        )


def _several(way: str, model: ModelStorage, from_hub: bool) -> Iterator[Problem]:
    """Ways that name the files of one model, where there are several."""
    if not from_hub:
        yield Problem(
            (*_AT, way, *(("from",) if way == "mirror" else ())),
            "names the files of one model, and spec.models lists several",
            f"hub, or mirror with from: {HUB}, which has a folder for each model",
        )
    elif model.mirror is not None and model.mirror.to.claim is not None and model.mirror.to.claim.path is not None:
        yield Problem(
            (*_AT, "mirror", "to", "claim", "path"),
            "names the folder of one model, and spec.models lists several",
            "remove it: each model has the folder MODEL/REVISION",
        )
