"""The models of a service, as checks of storage see them: where they are in the file, and what reads their files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rayllm_ctl.model.spec.model_storage import ObjectStore
from rayllm_ctl.model.spec.service import Accelerator, LLMService, ModelEngine, Parallelism, Storage
from rayllm_ctl.model.text.problems import Path


class Served(NamedTuple):
    """at: the path of the mapping that has the sections of the model."""

    at: Path
    engine: ModelEngine
    accelerator: Accelerator
    parallelism: Parallelism


def loaded_models(service: LLMService) -> Iterator[Served]:
    """The models of `service`."""
    if not service.models:
        yield Served(("spec",), service.engine, service.accelerator, service.parallelism)
    for index, entry in enumerate(service.models):
        yield Served(("spec", "models", index), entry.engine, entry.accelerator, entry.parallelism)


def serving_bucket(storage: Storage) -> ObjectStore | None:
    """The bucket from which serving pods read: that of the model, or the one into which it is mirrored."""
    model = storage.model
    if model is None:
        return None
    return model.object_store if model.mirror is None else model.mirror.to.object_store


def streamed_bucket(storage: Storage) -> ObjectStore | None:
    """The bucket from which the engine itself reads; None if it reads files of a disk."""
    store = serving_bucket(storage)
    return store if store is not None and store.load == "stream" else None
