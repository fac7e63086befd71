"""Checks of spec.storage.caches."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.spec.checks.storage.claims import claim_problems
from rayllm_ctl.model.spec.checks.storage.served import loaded_models
from rayllm_ctl.model.spec.model_storage import Caches
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.text.problems import Path, Problem

_AT: Path = ("spec", "storage", "caches")


def cache_problems(service: LLMService, caches: Caches) -> Iterator[Problem]:
    """All that is wrong with them."""
    if caches.compile is None:
        yield Problem(
            (*_AT, "compile"), "required: the PersistentVolumeClaim that holds the caches", "--compile-cache CLAIM"
        )
    else:
        yield from claim_problems(service, (*_AT, "compile"), caches.compile, (*_AT, "create"), caches.create)
    models = list(loaded_models(service))
    if all(one.engine.kind == "transformers" for one in models):
        yield Problem(
            (*_AT, "compile"),
            "has no effect: engine kind transformers keeps no compiled graphs",
            "remove spec.storage.caches",
        )
    if not caches.startup_plan:
        return
    if any(one.accelerator.kind == "cpu" for one in models):
        yield Problem(
            (*_AT, "startupPlan"), "does not apply to CPU services: only vLLM's GPU workers profile memory", "remove it"
        )
    elif any("kv_cache_memory_bytes" in one.engine.args for one in models):
        yield Problem(
            (*_AT, "startupPlan"),
            "has no effect with the engine argument kv_cache_memory_bytes, which says what it would find",
            "remove one of them",
        )
