"""Contradictions between what a user asks and what the model, the GPU or the engine's version can do.

Each is rejected before memory is looked at, with the reason, and where one change resolves it, that change: it is
planned before it is suggested. What a version knows and needs is the data of the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.plan.engine_facts import EngineFacts
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import Reason
from rayllm_ctl.model.spec.checks.engine_args import FRONTEND_ARGUMENTS, type_problem
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner import vllm_rules
from rayllm_ctl.planner.engine.architecture import architecture_problems, runs_on_backend
from rayllm_ctl.planner.engine.context import context_problems, step_problems
from rayllm_ctl.planner.engine.items import item_problems
from rayllm_ctl.planner.engine.parallelism import sharding_problem
from rayllm_ctl.planner.engine.quantization import quantization_on, quantization_problems
from rayllm_ctl.planner.engine.refusal import Refusal, changed_engine, requires
from rayllm_ctl.planner.engine.settings import has_bfloat16, rejects_float16, resolve_dtype
from rayllm_ctl.planner.memory import speculation
from rayllm_ctl.planner.request import Request, Shape

_FP8_CACHE_CAPABILITY = (8, 0)
"""The first capability with an attention kernel for an fp8 KV cache: FlashInfer's (v1/attention/backends, 0.29)."""

_NVFP4_CACHE_CAPABILITY = (10, 0)


def request_problems(request: Request) -> Iterator[Refusal]:
    """What contradicts itself whatever the GPU: context, architecture, quantization, arguments of this version."""
    wanted = request.service.engine
    yield from context_problems(request.service, request.facts.max_model_len)
    yield from step_problems(request.service, request.engine, request.facts.max_model_len)
    yield from item_problems(request)
    yield from architecture_problems(request)
    yield from quantization_problems(request)
    yield from argument_problems(request.service, request.engine)
    yield from _accepted_tokens(request)
    if wanted.kv_cache_dtype and request.engine.kv_cache_dtypes:
        known = request.engine.kv_cache_dtypes
        if wanted.kv_cache_dtype not in known:
            close = nearest(wanted.kv_cache_dtype, known) or "auto"
            message = f'vLLM {request.engine.version} does not support KV cache type "{wanted.kv_cache_dtype}"'
            reason = Reason("kv-cache-dtype-unknown", message)
            yield Refusal(reason, f"--kv-cache-dtype {close}", changed_engine(kv_cache_dtype=close))


def _accepted_tokens(request: Request) -> Iterator[Refusal]:
    """A step adds the tokens that were guessed and are right, and one more."""
    asked, guessing = request.service.load.accepted_tokens, speculation(request.service.engine.args)
    most = guessing.tokens + 1
    if asked is None:
        return
    if guessing.own_layers and not request.facts.draft_layers:
        message = f"{request.facts.architecture} has no layers that guess tokens ahead (method mtp)"
        yield Refusal(Reason("accepted-tokens-without-guesses", message))
    elif most <= 1 and not guessing.own_layers:
        message = "accepted tokens have no effect: speculative_config has no num_speculative_tokens"
        yield Refusal(Reason("accepted-tokens-without-guesses", message))
    elif asked > most > 1:
        message = f"a step with {most - 1} guessed tokens adds at most {most}, not {asked:g}"
        yield Refusal(Reason("too-many-accepted-tokens", message), f"--accepted-tokens {most}", _accepting(most))


def _accepting(tokens: int) -> Callable[[LLMService], LLMService]:
    return lambda service: replace(service, load=replace(service.load, accepted_tokens=float(tokens)))


def gpu_problems(request: Request, shape: Shape) -> Iterator[Refusal]:
    """What this kind of GPU, or so many of it, cannot do: a dtype, a quantization, a KV cache, pipeline stages."""
    gpu, wanted, facts = shape.gpu, request.service.engine, request.facts
    uncut = facts.architecture in request.engine.no_pipeline and not runs_on_backend(
        request.service, facts, request.engine
    )
    if shape.pipeline > 1 and (facts.single_stage or uncut):
        message = f"vLLM {request.engine.version} does not support pipeline parallelism for {facts.architecture}"
        yield Refusal(Reason("no-pipeline-parallelism", message), "--pp 1", _one_stage)
    if wanted.dtype == "bfloat16" and not has_bfloat16(gpu):
        message = f"{gpu.name} does not support bfloat16 ({requires((8, 0), gpu)})"
        dtype = resolve_dtype(None, facts, gpu, request.engine.release)
        yield Refusal(Reason("dtype-needs-newer-gpu", message), f"--dtype {dtype}", changed_engine(dtype=dtype))
    if wanted.dtype in ("float16", "half") and rejects_float16(facts, request.engine.release):
        message = f"vLLM {request.engine.version} does not serve models of type {facts.model_type} in float16"
        dtype = resolve_dtype(None, facts, gpu, request.engine.release)
        yield Refusal(Reason("dtype-not-supported", message), f"--dtype {dtype}", changed_engine(dtype=dtype))
    yield from quantization_on(request, gpu)
    yield from _draft(request, shape)
    cache = wanted.kv_cache_dtype or "auto"
    least = _NVFP4_CACHE_CAPABILITY if "nvfp4" in cache else _FP8_CACHE_CAPABILITY if "fp8" in cache else (0, 0)
    if gpu.compute_capability is not None and gpu.compute_capability < least:
        message = f"{gpu.name} does not support a KV cache of type {cache} ({requires(least, gpu)})"
        reason = Reason("kv-cache-dtype-needs-newer-gpu", message)
        yield Refusal(reason, "--kv-cache-dtype auto", changed_engine(kv_cache_dtype=None))


def uncounted_arguments(request: Request) -> Iterator[Reason]:
    """Engine arguments that change memory and are not counted: with quantization_config vLLM quantizes layers while
    loading as the user says of each kind (config/quantization.py QuantizationConfigArgs, 0.22 to 0.33)."""
    given = request.service.engine.args.get("quantization_config")
    if given and request.facts.quantization is None:
        message = "the engine argument quantization_config is not counted: weights are planned "
        method = request.service.engine.quantization
        message += f"as {method} alone makes them" if method else "as the checkpoint has them"
        yield Reason("quantization-config-not-counted", message)


_BLACKWELL = (10, 0)


def build_caveats(request: Request, gpu: GPU) -> Iterator[Reason]:
    """Why the released builds of this version do not run on `gpu`, though a build of one's own may.

    They are PyTorch's, which have left out Volta, and have had Blackwell only since CUDA 12.8.
    """
    capability, release = gpu.compute_capability, request.engine.release
    if capability is None:
        return
    lacking = ""
    if capability < (7, 5) and vllm_rules.BUILDS_LACK_VOLTA.holds(release):
        lacking = requires((7, 5), gpu)
    elif capability >= _BLACKWELL and not vllm_rules.BUILDS_HAVE_BLACKWELL.holds(release):
        lacking = f"compute capability {capability[0]}.{capability[1]}; vLLM 0.9 is the first that is built for it"
    if lacking:
        message = f"the released builds of vLLM {request.engine.version} do not support {gpu.name} ({lacking})"
        yield Reason("gpu-not-in-builds", f"{message}; it needs a custom build")


def argument_problems(service: LLMService, engine: EngineFacts) -> Iterator[Refusal]:
    """Arguments that this version does not have, and values that it would not take."""
    args = service.engine.args
    known = {**FRONTEND_ARGUMENTS, **engine.arguments}
    yield from _values(args, known, engine.version)
    if args.get("enable_auto_tool_choice") is True and not args.get("tool_call_parser"):
        message = "engine argument enable_auto_tool_choice requires tool_call_parser, which depends on the model"
        yield Refusal(Reason("engine-argument-value", message, "--engine-arg tool_call_parser=hermes"))
    for name in args:
        if name in known or not engine.arguments:
            continue
        close = nearest(name.replace("-", "_"), known)
        message = f'vLLM {engine.version} has no engine argument "{name}"'
        if close is None:
            advice = f"leave {name} out, or --vllm-version of a release that has it"
            yield Refusal(Reason("unknown-engine-argument", message, advice))
        else:
            reason = Reason("unknown-engine-argument", f"{message}; did you mean {close}?")
            yield Refusal(reason, f"--engine-arg {close}={args[name]}", _renamed(name, close))


_COUNTS = frozenset(
    {
        "block_size",
        "kv_cache_memory_bytes",
        "max_loras",
        "max_lora_rank",
        "data_parallel_size",
        "num_gpu_blocks_override",
    }
)


_SWITCHES = frozenset({"enable_chunked_prefill", "enable_prefix_caching"})
"""Planning reads these; vLLM also takes null, for its default."""


def _values(args: Mapping[str, Any], types: Mapping[str, str], version: str) -> Iterator[Refusal]:
    for name, value in args.items():
        problem = type_problem(value, types.get(name, ""))
        if problem is None and name in _COUNTS and not _is_count(value):
            problem = f"must be an integer greater than 0, not {'null' if value is None else value}"
        if problem is None and name in _SWITCHES and value is None:
            problem = "must be true or false, not null"
        if problem is not None:
            message = f"engine argument {name} {problem} (vLLM {version})"
            yield Refusal(Reason("engine-argument-value", message, f"--engine-arg {name}=VALUE, or leave it out"))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63


def _renamed(name: str, close: str) -> Callable[[LLMService], LLMService]:
    def change(service: LLMService) -> LLMService:
        args = {close if key == name else key: value for key, value in service.engine.args.items()}
        return replace(service, engine=replace(service.engine, args=args))

    return change


def _one_stage(service: LLMService) -> LLMService:
    return replace(service, parallelism=replace(service.parallelism, pipeline=1))


def _draft(request: Request, shape: Shape) -> Iterator[Refusal]:
    """What vLLM refuses of a draft model: a vocabulary or a TP that is not the model's, or one that cannot be cut."""
    draft, tensor = request.draft, shape.tensor
    if draft is None:
        return
    own, guessing = request.facts.vocab_size, speculation(request.service.engine.args)
    if draft.kind == "draft_model" and draft.facts.vocab_size != own:
        message = f"the draft model's vocabulary of {draft.facts.vocab_size:,} tokens differs from the model's {own:,}"
        yield Refusal(Reason("draft-vocabulary", message))
    if draft.kind == "draft_model" and guessing.tensor not in (0, tensor):
        message = f"draft_tensor_parallel_size {guessing.tensor} differs from the model's TP {tensor}"
        yield Refusal(Reason("draft-tensor-parallel-size", message))
    split = sharding_problem(draft.facts, tensor, request.division(shape.gpu))
    if split is not None:
        yield Refusal(replace(split, message=f"the draft model: {split.message}"))
