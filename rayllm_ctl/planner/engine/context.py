"""Context lengths that the model does not have, and loads that are longer than the context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.model.plan.plan import Reason
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.engine.refusal import CONTEXT, Refusal, changed_engine
from rayllm_ctl.planner.engine.settings import load_context
from rayllm_ctl.planner.request import Request


def context_problems(request: Request) -> Iterator[Refusal]:
    """The contradiction between the model, the context and the load, if there is one."""
    wanted, longest = request.service.engine.max_model_len, request.facts.max_model_len
    if wanted is not None and wanted > longest and not _stretched(request):
        message = f"a context of {wanted:,} tokens exceeds the model's maximum of {longest:,}"
        reason = Reason("context-above-model", message)
        yield Refusal(reason, f"--max-model-len {CONTEXT}", changed_engine(max_model_len=None))
    else:
        yield from _load(request)


def _load(request: Request) -> Iterator[Refusal]:
    """A load whose average request is longer than the context."""
    load, named, longest = request.service.load, request.service.engine.max_model_len, request.facts.max_model_len
    needed = load_context(load)
    if needed <= (longest if named is None else named) or (named is None and _stretched(request)):
        return
    parts = ((load.input_tokens, "input"), (load.output_tokens, "output"))
    lengths = " and ".join(f"{number:,} {name}" for number, name in parts if number is not None)
    whose = f"the model's maximum context of {longest:,}" if named is None else f"a context of {named:,}"
    reason = Reason("load-above-context", f"requests of {lengths} tokens exceed {whose}")
    if needed <= longest:
        yield Refusal(reason, f"--max-model-len {needed}", changed_engine(max_model_len=needed))
        return
    for field, flag, number, other in (
        ("input_tokens", "--input-tokens", load.input_tokens, load.output_tokens),
        ("output_tokens", "--output-tokens", load.output_tokens, load.input_tokens),
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


def _stretched(request: Request) -> bool:
    """Whether the user changed the model's own limit (rope scaling, or vLLM's switch for longer contexts)."""
    args = request.service.engine.args
    allowed = request.service.engine.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0") == "1"
    return allowed or any(name in args for name in ("hf_overrides", "rope_scaling"))
