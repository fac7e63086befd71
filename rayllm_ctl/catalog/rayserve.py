"""The fields that Ray Serve LLM takes, for each release of Ray.

Data: data/rayserve.json, the oldest release in full and each later one as its difference from the one before it, read
from Ray's wheels by scripts/rayserve_fields.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rayllm_ctl.catalog import data, gpus
from rayllm_ctl.catalog.engines import changed, engine
from rayllm_ctl.model.kube.releases import is_older
from rayllm_ctl.model.plan.deployment import Runtime
from rayllm_ctl.model.plan.llm_fields import LLMFields
from rayllm_ctl.model.spec.checks.engine_args import FRONTEND_ARGUMENTS

_LISTS = ("deployment", "accelerators")


def releases() -> Mapping[str, Mapping[str, Any]]:
    """What is known of each release of Ray in full, oldest first."""
    full: dict[str, dict[str, Any]] = {}
    current: dict[str, Any] = {}
    for release, changes in json.loads(data.read_data("rayserve.json")).items():
        current = changed(current, changes)
        full[release] = current
    return full


def fields(runtime: Runtime) -> LLMFields:
    """What the Ray and vLLM of `runtime` take. Of a release that is not known, that of the one before it."""
    known = releases()
    chosen = _nearest(tuple(known), runtime.ray_version)
    facts, vllm = known[chosen], engine(runtime.vllm_version)
    note = "" if chosen == runtime.ray_version else f"Ray {runtime.ray_version} is not known: checked as {chosen}"
    types = {
        name.casefold(): gpu.ray_accelerator_type
        for gpu in gpus.load_gpus().values()
        if gpu.ray_accelerator_type is not None
        for name in (gpu.name, *gpu.aliases)
    }
    return LLMFields(
        ray=runtime.ray_version,
        vllm=runtime.vllm_version,
        classes={name: values for name, values in facts.items() if name not in _LISTS},
        deployment=tuple(facts["deployment"]),
        accelerators=tuple(facts["accelerators"]),
        arguments={**FRONTEND_ARGUMENTS, **vllm.arguments},
        gpu_types=types,
        note=note,
    )


def _nearest(known: tuple[str, ...], release: str) -> str:
    earlier = [one for one in known if not is_older(release, _numbers(one))]
    return earlier[-1] if earlier else known[0]


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
