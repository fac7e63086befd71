"""Context lengths that the model does not have, and loads that are longer than the context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.model.plan.engine_facts import EngineFacts
from rayllm_ctl.model.plan.plan import Reason
from rayllm_ctl.model.spec.service import LLMService, Load
from rayllm_ctl.model.text.lengths import average
from rayllm_ctl.planner.engine.refusal import CONTEXT, Refusal, changed_engine
from rayllm_ctl.planner.engine.settings import average_context, load_context


def context_problems(service: LLMService, longest: int | None) -> Iterator[Refusal]:
    """The contradiction between the model, the context and the load, if there is one.

    longest: the model's maximum context; None: unknown.
    """
    wanted, limit = service.engine.max_model_len, None if _stretched(service) else longest
    if limit is not None and wanted is not None and wanted > limit:
        message = f"a context of {wanted:,} tokens exceeds the model's maximum of {limit:,}"
        reason = Reason("context-above-model", message)
        yield Refusal(reason, f"--max-model-len {CONTEXT}", changed_engine(max_model_len=None))
    else:
        yield from _load(service, limit)


def context_reasons(service: LLMService, longest: int | None) -> Iterator[Reason]:
    """`context_problems` of a plan that has no alternatives: each names the flags that resolve it."""
    for problem in context_problems(service, longest):
        yield replace(problem.reason, suggestion=problem.flags.replace(CONTEXT, str(longest)))


def default_context(load: Load, usual: int, longest: int | None) -> int:
    """The context where the user states none: `usual`, or what the load needs, and no more than the model has."""
    wanted = max(usual, load_context(load))
    return wanted if longest is None else min(longest, wanted)


def ignored_load(load: Load) -> str:
    """What a plan without speeds makes of a load; empty if there is none."""
    if load == Load():
        return ""
    return "of the load, only the lengths of requests count" if load_context(load) else "the load is ignored"


def step_problems(service: LLMService, engine: EngineFacts, longest: int) -> Iterator[Refusal]:
    """Steps that cannot hold a prompt, where prompts are not split over steps (SchedulerConfig, 0.7 to 0.33).

    longest: the model's maximum context.
    """
    wanted = service.engine
    tokens, context = wanted.max_num_batched_tokens, wanted.max_model_len or longest
    if tokens is None or tokens >= context or wanted.args.get("enable_chunked_prefill", engine.chunked_prefill):
        return
    message = f"{tokens:,} tokens per step are less than a context of {context:,}, as needed without chunked prefill"
    yield Refusal(
        Reason("step-below-context", message), f"--max-model-len {tokens}", changed_engine(max_model_len=tokens)
    )


def _load(service: LLMService, longest: int | None) -> Iterator[Refusal]:
    """A load whose average request is longer than the context that the user states, or `longest`."""
    load, named = service.load, service.engine.max_model_len
    needed, limit = average_context(load), longest if named is None else named
    if limit is None or needed <= limit:
        return
    given, answered = average(load.input_tokens), average(load.output_tokens)
    parts = ((given, "input"), (answered, "output"))
    lengths = " and ".join(f"{number:,} {name}" for number, name in parts if number is not None)
    whose = f"the model's maximum context of {limit:,}" if named is None else f"a context of {limit:,}"
    reason = Reason("load-above-context", f"requests of {lengths} tokens exceed {whose}")
    if longest is None or needed <= longest:
        yield Refusal(reason, f"--max-model-len {needed}", changed_engine(max_model_len=needed))
        return
    for field, flag, number, other in (
        ("input_tokens", "--input-tokens", given, answered),
        ("output_tokens", "--output-tokens", answered, given),
    ):
        left = longest - (other or 1)
        if number is not None and left > 0:
            wider = "" if named is None else f"--max-model-len {longest} "
            yield Refusal(reason, f"{wider}{flag} {left}", _shorter(None if named is None else longest, {field: left}))
            return
    yield Refusal(reason)


def _shorter(context: int | None, lengths: Mapping[str, Any]) -> Callable[[LLMService], LLMService]:
    return lambda service: replace(
        service, engine=replace(service.engine, max_model_len=context), load=replace(service.load, **lengths)
    )


def _stretched(service: LLMService) -> bool:
    """Whether the user changed the model's own limit (rope scaling, or vLLM's switch for longer contexts)."""
    args = service.engine.args
    allowed = service.engine.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0") == "1"
    return allowed or any(name in args for name in ("hf_overrides", "rope_scaling"))
