"""Start-up plans of vLLM (VLLM_ENABLE_STARTUP_PLAN) as measurements: the KV cache that each rank profiled.

A plan is startup_plan_<fingerprint>.json below VLLM_CACHE_ROOT/startup_plan, one for each rank of a replica
(v1/worker/startup_plan.py, 0.29). The fingerprint is a hash of the model, the settings and the device, so the
file names none of them: what can be checked is how many there are, and whether they can be of this GPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rayllm_ctl.catalog.engines import engine
from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import gib
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.plan import decide
from rayllm_ctl.workflows.plan.model import gpu_request

_SCHEMA = 1
_MAX_BYTES = 10_000
_PATTERN = "startup_plan_*.json"
_FIELDS = ("kv_cache_memory_bytes", "free_memory_baseline")

_RESERVE = 150 * 2**20
"""What vLLM takes off the measured size before it writes it, for memory that the profile run did not see
(compile_or_warm_up_model of v1/worker/gpu_worker.py)."""


@dataclass(frozen=True)
class RankMemory:
    """What one rank profiled, in bytes. kv_cache: without the reserve that vLLM keeps. free: before the start."""

    file: Path
    fingerprint: str
    kv_cache: int
    free: int


def read_startup_plans(paths: Iterable[Path]) -> tuple[RankMemory, ...]:
    """The start-up plans of files and folders. UsageError for a file that is none."""
    found = tuple(_read(file) for path in paths for file in _files(path))
    seen: dict[str, Path] = {}
    for one in found:
        if one.fingerprint in seen:
            raise UsageError(
                f"--startup-plan: {seen[one.fingerprint]} and {one.file} are the plan of the same rank",
                hint="name each file once",
            )
        seen[one.fingerprint] = one.file
    return found


def measured_memory(ranks: Sequence[RankMemory], service: LLMService | str) -> dict[str, float]:
    """The KV cache of the fullest GPU as planned and as measured, and their ratio.

    service: as the planner is asked about it, or why it cannot be. UserError if there is no plan, or the files are not
    those of its ranks.
    """
    if isinstance(service, str):
        raise UserError(f"--startup-plan: there is no plan to compare with: {service}", hint="leave out --startup-plan")
    plan = _plan(service)
    memory, layout, gpu = plan.memory, plan.parallelism, plan.gpu
    if memory is None or layout is None or gpu is None:
        why = plan.reasons[0].message if plan.reasons else plan.verdict
        raise UserError(f"--startup-plan: there is no plan to compare with: {why}", hint="leave out --startup-plan")
    wanted = layout.gpus_per_replica
    if len(ranks) != wanted:
        shown = f"TP {layout.tensor}" + (f" × PP {layout.pipeline}" if layout.pipeline > 1 else "")
        raise UsageError(
            f"--startup-plan: {_counted(len(ranks))} for {shown}, which has {wanted}, one for each rank",
            hint="a folder collects those of other models and settings: name the files of this service, as its log "
            "does (Saved startup plan to FILE)",
        )
    for one in ranks:
        if one.free > memory.total_bytes:
            what = f"{gib(one.free)} GiB were free, and a {gpu.name} has {gib(memory.total_bytes)} GiB"
            raise UsageError(f"--startup-plan {one.file} is of another GPU: {what}")
        if one.kv_cache + memory.weights_bytes > one.free:
            what = (
                f"a KV cache of {gib(one.kv_cache)} GiB and weights of {gib(memory.weights_bytes)} GiB exceed the "
                f"{gib(one.free)} GiB that were free"
            )
            raise UsageError(f"--startup-plan {one.file} is of another model or TP: {what}")
    measured, planned = min(one.kv_cache for one in ranks), memory.kv_cache_bytes.typical
    if planned <= 0:
        raise UserError("--startup-plan: the plan has no KV cache to compare with", hint="leave out --startup-plan")
    return {"predicted": planned, "measured": measured, "ratio": measured / planned}


def _counted(count: int) -> str:
    return f"{count} start-up plan{'' if count == 1 else 's'}"


def _plan(service: LLMService) -> Plan:
    assert service.engine.vllm_version is not None
    return decide(gpu_request(service, engine(service.engine.vllm_version), OFFLINE, hand_sized=True))


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    files = sorted(path.glob(_PATTERN))
    if not files:
        raise UsageError(f"--startup-plan {path}: has no {_PATTERN}", hint="VLLM_CACHE_ROOT/startup_plan")
    yield from files


def _read(path: Path) -> RankMemory:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"--startup-plan {path}: cannot be read: {(error.strerror or str(error)).lower()}",
            hint="VLLM_CACHE_ROOT/startup_plan/startup_plan_*.json",
        ) from error
    if len(data) > _MAX_BYTES:
        raise _wrong(path, f"it is larger than {_MAX_BYTES // 1000} kB")
    try:
        plan = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _wrong(path, "it is damaged: not valid JSON") from error
    if not isinstance(plan, dict) or "schema" not in plan:
        raise _wrong(path, "it has no `schema`")
    if plan["schema"] != _SCHEMA or isinstance(plan["schema"], bool):
        raise _wrong(path, f"its schema is {plan['schema']!r}, and {_SCHEMA} is known")
    fingerprint = plan.get("fingerprint")
    if not isinstance(fingerprint, str) or not fingerprint:
        raise _wrong(path, "it has no `fingerprint`")
    if path.name.startswith("startup_plan_") and path.name != f"startup_plan_{fingerprint}.json":
        raise _wrong(path, f"its fingerprint is {fingerprint!r}, which is not that of its name")
    kv_cache, free = (_bytes(path, plan, name) for name in _FIELDS)
    if kv_cache > free:
        raise _wrong(
            path, f"its KV cache ({gib(kv_cache)} GiB) is larger than the memory that was free ({gib(free)} GiB)"
        )
    return RankMemory(path, fingerprint, kv_cache + _RESERVE, free)


def _bytes(path: Path, plan: dict[str, Any], name: str) -> int:
    value = plan.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise _wrong(path, f"`{name}` is {value!r}, not a number of bytes")
    return value


def _wrong(path: Path, problem: str) -> UsageError:
    return UsageError(
        f"--startup-plan {path}: not a start-up plan of vLLM: {problem}",
        hint="VLLM_CACHE_ROOT/startup_plan/startup_plan_*.json, which vLLM writes with VLLM_ENABLE_STARTUP_PLAN=1",
    )
