"""The flags of spec.storage.model and spec.storage.caches, and what they make of a spec."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from rayllm_ctl.cli.option_groups import FlagTable
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.model_storage import (
    HUB,
    BucketLoad,
    Caches,
    Mirror,
    MirrorClaim,
    MirrorTarget,
    ModelClaim,
    ModelStorage,
    ObjectStore,
)
from rayllm_ctl.model.text.problems import quoted

if TYPE_CHECKING:
    from rayllm_ctl.model.spec.batch import BatchJob
    from rayllm_ctl.model.spec.service import LLMService

S = TypeVar("S", bound="LLMService | BatchJob")

_STORE = "storage.model.object_store"
_CLAIM, _URI, _MIRROR = "storage.model.claim", f"{_STORE}.uri", "storage.model.mirror"
_LOAD, _SECRET, _ENDPOINT = f"{_STORE}.load", f"{_STORE}.secret", f"{_STORE}.endpoint"
_COMPILE = "storage.caches.compile"

_IN_CLAIM = "claim/"


class ClaimFolder(click.ParamType[ModelClaim]):
    """A PersistentVolumeClaim, and a folder in it: NAME or NAME/PATH."""

    name = "claim"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ModelClaim:
        name, separator, path = str(value).partition("/")
        if not name or (separator and not path):
            self.fail(f"{quoted(str(value))} is not NAME or NAME/PATH, such as models/Qwen/Qwen3-8B", param, ctx)
        return ModelClaim(name, path or None)


class MirrorPlace(click.ParamType[MirrorTarget]):
    """Where a mirror keeps the files: claim/NAME[/PATH], or a folder of a bucket."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> MirrorTarget:
        text = str(value)
        if text.startswith(_IN_CLAIM):
            claim = ClaimFolder().convert(text.removeprefix(_IN_CLAIM), param, ctx)
            return MirrorTarget(claim=MirrorClaim(claim.name, claim.path))
        if "://" not in text:
            self.fail(f"{quoted(text)} is not claim/NAME[/PATH], s3://BUCKET/PATH or gs://BUCKET/PATH", param, ctx)
        return MirrorTarget(object_store=ObjectStore(text))


STORAGE_FLAGS: FlagTable = (
    (
        ("--model-claim",),
        _CLAIM,
        {
            "type": ClaimFolder(),
            "metavar": "NAME[/PATH]",
            "help": "PersistentVolumeClaim with the model's files, and their folder in it.",
        },
    ),
    (
        ("--model-uri",),
        _URI,
        {"metavar": "URI", "help": "Folder of a bucket with the model's files: s3://... or gs://..."},
    ),
    (
        ("--model-load",),
        _LOAD,
        {
            "type": click.Choice(get_args(BucketLoad)),
            "help": "How pods read the bucket: copy to their disk first (default), or stream into the engine.",
        },
    ),
    (
        ("--mirror",),
        _MIRROR,
        {
            "type": MirrorPlace(),
            "metavar": "PLACE",
            "help": "Download the model once, by a Job, to claim/NAME[/PATH], s3://BUCKET/PATH or gs://BUCKET/PATH.",
        },
    ),
    (
        ("--compile-cache",),
        _COMPILE,
        {"metavar": "CLAIM", "help": "PersistentVolumeClaim for compiled graphs and kernels, for faster starts."},
    ),
)

BUCKET_ACCESS_FLAGS: FlagTable = (
    (("--storage-secret",), _SECRET, {"metavar": "NAME", "help": "Secret with the credentials of the model's bucket."}),
    (
        ("--storage-endpoint",),
        _ENDPOINT,
        {"metavar": "URL", "help": "Address of the self-hosted S3 service with the model's bucket."},
    ),
)

STORAGE_FIELDS = tuple(field for _, field, _ in STORAGE_FLAGS + BUCKET_ACCESS_FLAGS)


def with_storage(
    spec: S, overrides: Mapping[str, Any], flags: Mapping[str, str]
) -> tuple[S, dict[str, Any], dict[str, str]]:
    """`spec` with the flags of storage among `overrides`; and `overrides` and `flags` with the fields that these have
    set. A flag that chooses another way to the model's files replaces that of a file. UsageError for flags that
    contradict each other."""
    called = {field: flags.get(field, f"--{field}") for field in STORAGE_FIELDS if field in overrides}
    if not called:
        return spec, dict(overrides), dict(flags)
    model, places = _model(spec.storage.model, overrides, called)
    caches = spec.storage.caches
    if _COMPILE in overrides:
        caches = dataclasses.replace(caches or Caches(), compile=overrides[_COMPILE])
    storage: Any = dataclasses.replace(spec.storage, model=model, caches=caches)
    # The innermost field first: its flag is named where several have set a part of what is wrong.
    moved = dict(sorted(((places.get(field, field), overrides[field]) for field in called), key=_depth, reverse=True))
    others = {field: value for field, value in overrides.items() if field not in called}
    names = {places.get(field, field): flag for field, flag in called.items()}
    return dataclasses.replace(spec, storage=storage), {**moved, **others}, {**flags, **names}


def _depth(field: tuple[str, Any]) -> int:
    return field[0].count(".")


def _model(
    given: ModelStorage | None, overrides: Mapping[str, Any], called: Mapping[str, str]
) -> tuple[ModelStorage | None, Mapping[str, str]]:
    """Where the weights come from, and the fields in which flags are that may belong to several."""
    ways = [called[way] for way in (_CLAIM, _URI, _MIRROR) if way in called]
    if len(ways) > 1:
        bucket = "spec.storage.model.mirror.from of a spec file    # mirrors the files of a bucket"
        raise UsageError(
            f"{' and '.join(ways)} cannot be combined: each says where the model's files are",
            hint=bucket if _URI in called and _MIRROR in called else f"{ways[0]} alone",
        )
    model = given or ModelStorage()
    places: dict[str, str] = {}
    if _CLAIM in overrides:
        model = ModelStorage(claim=overrides[_CLAIM])
    elif _URI in overrides:
        model = ModelStorage(object_store=_renamed(model.object_store, overrides[_URI]))
    elif _MIRROR in overrides:
        model, places = ModelStorage(mirror=_mirror(model.mirror, overrides[_MIRROR])), {_MIRROR: f"{_MIRROR}.to"}
    settings = {field.rpartition(".")[2]: field for field in (_LOAD, _SECRET, _ENDPOINT) if field in called}
    if settings:
        changes = {name: overrides[field] for name, field in settings.items()}
        model, at = _with_access(model, changes, {name: called[field] for name, field in settings.items()})
        places |= {field: f"{at}.{name}" for name, field in settings.items()}
    return (None if model == ModelStorage() else model), places


def _renamed(store: ObjectStore | None, uri: str) -> ObjectStore:
    return ObjectStore(uri) if store is None else dataclasses.replace(store, uri=uri)


def _mirror(given: Mirror | None, to: MirrorTarget) -> Mirror:
    """A mirror to another place, from where the file says."""
    if given is None:
        return Mirror(to)
    same = given.to.claim
    if to.object_store is not None:
        to = MirrorTarget(object_store=_renamed(given.to.object_store, to.object_store.uri))
    elif to.claim is not None and same is not None and same.name == to.claim.name:
        to = MirrorTarget(claim=dataclasses.replace(same, path=to.claim.path or same.path))
    return dataclasses.replace(given, to=to)


def _with_access(
    model: ModelStorage, changes: Mapping[str, Any], called: Mapping[str, str]
) -> tuple[ModelStorage, str]:
    """`model` with settings of its bucket, and the field of that bucket: the one that pods read, or else the source of
    the mirror. called: the flags of the settings."""
    mirror = model.mirror
    if model.object_store is not None:
        return ModelStorage(object_store=dataclasses.replace(model.object_store, **changes)), _STORE
    if mirror is not None and mirror.to.object_store is not None:
        to = MirrorTarget(object_store=dataclasses.replace(mirror.to.object_store, **changes))
        return ModelStorage(mirror=dataclasses.replace(mirror, to=to)), f"{_MIRROR}.to.object_store"
    if mirror is not None and mirror.from_ != HUB and "load" not in changes:
        return ModelStorage(mirror=dataclasses.replace(mirror, **changes)), _MIRROR
    raise UsageError(
        f"{' and '.join(called.values())}: no bucket with the model's files is given",
        hint=("--model-uri s3://BUCKET/PATH", "--mirror s3://BUCKET/PATH"),
    )
