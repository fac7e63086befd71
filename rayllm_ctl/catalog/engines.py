"""The engine catalog: what planning needs to know of each vLLM version.

Data: data/engines.json, the oldest version in full and each later one as its difference from the one before it, read
from vLLM's wheels by scripts/engine_facts.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from rayllm_ctl.catalog import data
from rayllm_ctl.catalog.releases import DEFAULT
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.plan.engine_facts import BatchDefault, EngineFacts
from rayllm_ctl.model.text.problems import quoted

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+)(?:\.\d+)?)?(?:[.+-]?(?:post|rc|dev|cu|cpu|rocm)[\w.+]*|\+[\w.]+)?")


def engine_versions() -> tuple[str, ...]:
    """All known versions, oldest first."""
    return tuple(_document())


def engine(version: str | None = None) -> EngineFacts:
    """The facts of vLLM `version` (None: the default). UsageError if it is not a version, or older than those known.

    A patch release that is not known takes the facts of the nearest one of its minor release, a release after the
    newest those of the newest; `note` then says so.
    """
    return _engine(version or DEFAULT.vllm)


@cache
def _engine(version: str) -> EngineFacts:
    match = _VERSION.fullmatch(version.strip())
    if not match:
        raise UsageError(f"{quoted(version)} is not a vLLM version", hint=f"versions look like {DEFAULT.vllm}")
    wanted = (int(match[1]), int(match[2]), int(match[3] or 0))
    known = {_release(name): name for name in engine_versions()}
    oldest, newest = min(known), max(known)
    if wanted[0] != newest[0] or wanted[:2] < oldest[:2]:
        raise UsageError(
            f"nothing is known of vLLM {version}, only of {known[oldest]} to {known[newest]}",
            hint=f"--vllm-version {known[newest]}",
        )
    same_minor = [release for release in known if release[:2] == wanted[:2]]
    if same_minor:
        chosen = max((r for r in same_minor if r <= wanted), default=min(same_minor))
    else:
        chosen = max(r for r in known if r < wanted)
    return _facts(known[chosen], chosen, _note(version, wanted, chosen, newest))


def _note(
    version: str, wanted: tuple[int, int, int], chosen: tuple[int, int, int], newest: tuple[int, int, int]
) -> str:
    if wanted == chosen:
        return ""
    used = ".".join(map(str, chosen))
    why = f"newer than the newest known, {'.'.join(map(str, newest))}" if wanted[:2] > newest[:2] else "not known"
    return f"vLLM {version} is {why}: planned as {used}"


def _facts(version: str, release: tuple[int, int, int], note: str) -> EngineFacts:
    values = _data()[version]
    return EngineFacts(
        version=version,
        release=release,
        note=note,
        gpu_memory_utilization=values["gpuMemoryUtilization"],
        cuda_graphs_in_budget=values["cudaGraphsInBudget"],
        batch_defaults=tuple(
            BatchDefault(rule["minGiB"], tuple(rule["except"]), rule["tokens"], rule["seqs"])
            for rule in values["batchDefaults"]
        ),
        chunked_prefill=values["chunkedPrefill"],
        second_runner=values["v2Runner"],
        second_runner_architectures=frozenset(values["v2Architectures"]),
        quantization={
            method: None if least is None else (least // 10, least % 10)
            for method, least in values["quantization"].items()
        },
        architectures=frozenset(values["architectures"]),
        no_pipeline=frozenset(values["noPipeline"]),
        removed=values["removed"],
        arguments=values["arguments"],
        kv_cache_dtypes=tuple(values["kvCacheDtypes"]),
        sampling_parameters=frozenset(values["samplingParameters"]),
    )


@cache
def _data() -> Mapping[str, Mapping[str, Any]]:
    """The data of each version, each as the one before with its differences."""
    found: dict[str, Mapping[str, Any]] = {}
    current: dict[str, Any] = {}
    for name, changes in _document().items():
        found[name] = current = changed(current, changes)
    return found


def changed(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`before` with the differences of one version applied, as scripts/engine_facts.py writes them."""
    after = dict(before)
    for key, change in changes.items():
        if key not in before or not (isinstance(change, dict) and change.keys() == {"add", "drop"}):
            after[key] = change
            continue
        dropped = frozenset(change["drop"])
        kept = [item for item in before[key] if item not in dropped] if dropped else before[key]
        if isinstance(before[key], dict):
            after[key] = {**{item: before[key][item] for item in kept}, **change["add"]}
        else:
            after[key] = [*kept, *change["add"]]
    return after


def _release(version: str) -> tuple[int, int, int]:
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    return major, minor, patch


@cache
def _document() -> Mapping[str, Mapping[str, Any]]:
    text = data.read_data("engines.json")
    document: dict[str, dict[str, Any]] = json.loads(text)
    return document
