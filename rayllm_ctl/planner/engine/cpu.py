"""The plan of a service on CPUs: no memory to divide by vLLM's rules, but a pod and a KV cache to size.

vLLM's CPU back end would take gpu_memory_utilization of the whole machine's RAM, whatever the pod's limit is, so the
KV cache is always given in bytes (v1/worker/cpu_worker.py, 0.29).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rayllm_ctl.model.kube.quantities import GIB, gib, parse_quantity
from rayllm_ctl.model.plan.engine_facts import EngineFacts
from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.model.plan.plan import EngineSettings, ParallelismPlan, Plan, Reason
from rayllm_ctl.model.spec.service import LLMService, Resources
from rayllm_ctl.planner.deployment.pods import cpu_pods, size_notes
from rayllm_ctl.planner.engine.architecture import model_caveats
from rayllm_ctl.planner.engine.checks import argument_problems
from rayllm_ctl.planner.engine.context import context_reasons, default_context, ignored_load, step_problems
from rayllm_ctl.planner.engine.parallelism import Division, sharding_problem
from rayllm_ctl.planner.engine.resolved import ResolvedSettings
from rayllm_ctl.planner.memory import CPU_BLOCK, cpu_request_bytes, speculation, whole_weights
from rayllm_ctl.planner.memory.options import read_options
from rayllm_ctl.planner.speed.engineinit import EngineStart
from rayllm_ctl.planner.speed.loading import origin_of
from rayllm_ctl.planner.speed.startup import startup
from rayllm_ctl.planner.speed.ways import compare_ways

_MAX_NUM_SEQS = 8
_BATCHED_TOKENS = 2048
"""vLLM's own default for an API server on CPUs."""

_UNSEEN_CONTEXT = 1024
_LONGEST_CONTEXT = 4096
"""What a CPU service gets without a wish: prompts beyond it take minutes on a few cores."""

_KV_ARGUMENT = "kv_cache_memory_bytes"
_KV_BYTES = 1 * GIB


def plan_cpu(
    service: LLMService, engine: EngineFacts, facts: ModelFacts | None, source: str, notes: tuple[str, ...] = ()
) -> Plan:
    """The plan of a CPU service. facts None: the model lies in a volume that only the pod sees; nothing is proven."""
    kv_bytes = _kv_bytes(service)
    refused = tuple(_contradictions(service, engine, facts, kv_bytes))
    if refused or kv_bytes is None:
        return Plan("invalid", service.model.id, source, refused, notes=notes)
    settings = _settings(service, engine, facts, kv_bytes)
    tensor = service.parallelism.tensor or 1
    weights = 0.0
    if facts is not None:
        weights = float(whole_weights(facts, settings.dtype))
    pods = cpu_pods(weights, kv_bytes, tensor, service.resources)
    planned = cpu_pods(weights, kv_bytes, tensor, Resources())
    origin, start, caches = origin_of(service), EngineStart(eager=_eager(settings), cpu=True), service.storage.caches
    plan = Plan(
        verdict="fits",
        model=service.model.id,
        facts_source=source,
        parallelism=ParallelismPlan(tensor, 1, service.replicas.min, service.replicas.max),
        engine=settings,
        pods=pods,
        startup=startup(weights, origin, start, caches=caches),
        storage=None
        if facts is None
        else compare_ways(weights, origin, start, nodes=1, replicas=service.replicas.max, caches=caches, counted=False),
        notes=(*notes, *size_notes(pods, planned)),
        warnings=tuple(_unplanned(service)),
    )
    if facts is None:
        return replace(plan, verdict="risky", proven=False, reasons=(_not_visible(service),))
    problem = _too_large(facts, engine, settings, tensor, kv_bytes, weights, pods.worker_memory)
    if problem is not None:
        return replace(plan, verdict="does-not-fit", reasons=(problem,))
    caveats = tuple(model_caveats(service, facts, engine))
    return replace(plan, verdict="risky", reasons=caveats) if caveats else plan


def _unplanned(service: LLMService) -> Iterator[str]:
    """What the user asked for that has no say in a plan on CPUs."""
    ignored = ignored_load(service.load)
    if ignored:
        yield f"{ignored}: speed on CPUs is not planned"
    draft = speculation(service.engine.args).model
    if draft:
        yield f"the draft model {draft} is not counted on CPUs: --memory sets the worker's limit"


def _contradictions(
    service: LLMService, engine: EngineFacts, facts: ModelFacts | None, kv_bytes: int | None
) -> Iterator[Reason]:
    """What contradicts itself before any size is looked at."""
    yield from (problem.reason for problem in argument_problems(service, engine))
    context = tuple(context_reasons(service, facts.max_model_len if facts else None))
    yield from context
    if not context:
        longest = _default_context(service, facts)
        yield from (replace(one.reason, suggestion=one.flags) for one in step_problems(service, engine, longest))
    if kv_bytes is None:
        yield _not_a_size(service)
    tensor, pipeline = service.parallelism.tensor or 1, service.parallelism.pipeline or 1
    if pipeline > 1:
        yield Reason(
            "no-pipeline-parallelism", "vLLM does not support pipeline parallelism on CPUs under Ray", "--pp 1"
        )
    if read_options(service.engine.args).data > 1:
        yield Reason("no-data-parallelism", "data parallelism is not planned on CPUs", "--replicas N")
    if facts is None:
        return
    division = Division(engine.release, read_options(service.engine.args).expert_parallel)
    split = sharding_problem(facts, tensor, division)
    if split is not None:
        yield split


def _kv_bytes(service: LLMService) -> int | None:
    """Bytes of the KV cache: the environment's, the argument's, or the default. None: not a size, or two of them."""
    space, size = service.engine.env.get("VLLM_CPU_KVCACHE_SPACE", ""), service.engine.args.get(_KV_ARGUMENT)
    if space:
        bytes_of_space = int(space) * GIB if space.isdecimal() and int(space) > 0 else None
        return bytes_of_space if size in (None, bytes_of_space) else None
    size = _KV_BYTES if size is None else size
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None


def _not_a_size(service: LLMService) -> Reason:
    space, size = service.engine.env.get("VLLM_CPU_KVCACHE_SPACE", ""), service.engine.args.get(_KV_ARGUMENT)
    if space.isdecimal() and int(space) > 0:
        # vLLM takes the variable and says nothing.
        message = f"VLLM_CPU_KVCACHE_SPACE={space} ({int(space) * GIB} bytes) contradicts {_KV_ARGUMENT}={size}"
        return Reason("kv-cache-size", message, f"--engine-arg {_KV_ARGUMENT}={int(space) * GIB}")
    what = f"VLLM_CPU_KVCACHE_SPACE={space}" if space else f"{_KV_ARGUMENT}={size}"
    remedy = "--env VLLM_CPU_KVCACHE_SPACE=1" if space else f"--engine-arg {_KV_ARGUMENT}={_KV_BYTES}"
    return Reason("kv-cache-size", f"{what} is not a valid KV cache size", remedy)


def _settings(service: LLMService, engine: EngineFacts, facts: ModelFacts | None, kv_bytes: int) -> EngineSettings:
    wanted = service.engine
    max_model_len = wanted.max_model_len or _default_context(service, facts)
    sequences, tokens = wanted.max_num_seqs, wanted.max_num_batched_tokens
    if sequences is None:
        sequences = min(_MAX_NUM_SEQS, tokens or _MAX_NUM_SEQS)
    if tokens is None:
        tokens = max(_BATCHED_TOKENS, max_model_len, sequences)  # vLLM does not start with less than a token for each
    args: dict[str, Any] = {"enforce_eager": True, **wanted.args}
    if not engine.arguments or _KV_ARGUMENT in engine.arguments:
        args[_KV_ARGUMENT] = kv_bytes
    return EngineSettings(
        vllm_version=engine.version,
        max_model_len=max_model_len,
        max_num_seqs=sequences,
        max_num_batched_tokens=tokens,
        dtype=wanted.dtype or "auto",
        gpu_memory_utilization=wanted.gpu_memory_utilization,
        quantization=wanted.quantization,
        kv_cache_dtype=wanted.kv_cache_dtype,
        args=args,
    )


def _default_context(service: LLMService, facts: ModelFacts | None) -> int:
    usual, longest = (_LONGEST_CONTEXT, facts.max_model_len) if facts else (_UNSEEN_CONTEXT, None)
    return default_context(service.load, usual, longest)


def _eager(settings: EngineSettings) -> bool:
    return bool(settings.args.get("enforce_eager"))


def _not_visible(service: LLMService) -> Reason:
    return Reason(
        "model-not-visible",
        f"folder {service.model.path} is only visible in the pods: memory cannot be checked without a copy of its "
        "config.json",
        "--model-config FOLDER",
    )


def _too_large(
    facts: ModelFacts,
    engine: EngineFacts,
    settings: EngineSettings,
    tensor: int,
    kv_bytes: int,
    weights: float,
    limit: str,
) -> Reason | None:
    """What does not fit: a request into the KV cache, or both with the weights into the pod."""
    resolved = ResolvedSettings(
        max_model_len=settings.max_model_len,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        gpu_memory_utilization=0.0,
        dtype=settings.dtype,
        kv_cache_dtype=settings.kv_cache_dtype or "auto",
        args=settings.args,
        tensor=tensor,
    )
    needed = cpu_request_bytes(facts, engine.release, resolved)
    if needed > kv_bytes:
        fitting = max(CPU_BLOCK, int(settings.max_model_len * kv_bytes / needed) // CPU_BLOCK * CPU_BLOCK)
        return Reason(
            "kv-cache-too-small",
            f"one request of {settings.max_model_len:,} tokens needs {gib(needed)} GiB of KV cache; "
            f"{gib(kv_bytes)} GiB is set",
            f"--max-model-len {fitting}",
        )
    if weights + kv_bytes > parse_quantity(limit):
        return Reason(
            "worker-memory",
            f"weights of {gib(weights)} GiB and a KV cache of {gib(kv_bytes)} GiB exceed the worker's limit of {limit}",
            f"--memory {int((weights + kv_bytes) / GIB) + 5}Gi",
        )
    return None
