"""What would work instead: changes to one or two flags, each proven by planning again with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rayllm_ctl.model.plan.plan import Suggestion
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.engine.checks import gpu_problems
from rayllm_ctl.planner.engine.parallelism import layout_problem, nearest_tensor_sizes, valid_tensor_sizes
from rayllm_ctl.planner.engine.quantization import online_fp8
from rayllm_ctl.planner.engine.refusal import CONTEXT, Refusal
from rayllm_ctl.planner.evaluate import longest_sure_context, most_sure_sequences
from rayllm_ctl.planner.request import Candidate, Request
from rayllm_ctl.planner.search import cheapest, search_plan
from rayllm_ctl.planner.speed.cost import per_million_output_tokens

_MOST = 4
_FEWER_SEQUENCES = 256


def corrections(request: Request, problems: Sequence[Refusal]) -> tuple[Suggestion, ...]:
    """The change that resolves all `problems` of a request at once, if there is one and the plan then fits."""
    service = request.service
    for problem in problems:
        if problem.change is None:
            return ()
        service = problem.change(service)
    best = cheapest(search_plan(replace(request, service=service)))
    if best is None:
        return ()
    return (Suggestion(_flags(problems, best), effect(best)),)


def suggestions(request: Request, candidate: Candidate) -> tuple[Suggestion, ...]:
    """Up to four changes that turn `candidate`, which does not fit for sure, into a plan that does."""
    found: dict[str, Suggestion] = {}
    # Only a price that the user asked for is compared: of all that does not run, the candidate is just the nearest.
    before = candidate if request.names_hardware else None
    for kind, flags, service in _variations(request, candidate):
        if kind in found or len(found) == _MOST - 1:
            continue
        best = cheapest(search_plan(replace(request, service=service, gpus=(candidate.shape.gpu,))))
        if best is not None:
            found[kind] = Suggestion(flags, effect(best, before))
    other = _other_gpu(request, candidate, before)
    return (*found.values(), *((other,) if other else ()))


def alternatives(request: Request, ranked: Sequence[Candidate]) -> tuple[Suggestion, ...]:
    """What also fits beside the first of `ranked`: fewer GPUs where the user named TP, other kinds otherwise; and what
    costs less per token."""
    found = {change.flags: change for change in _beside(request, ranked)}
    return tuple((found | {change.flags: change for change in _cheaper_tokens(request, ranked)}).values())


def _beside(request: Request, ranked: Sequence[Candidate]) -> tuple[Suggestion, ...]:
    chosen = ranked[0]
    if request.service.parallelism.tensor is not None:
        return _fewer_gpus(request, chosen)
    found: dict[str, Suggestion] = {}
    for candidate in ranked[1:]:
        gpu = candidate.shape.gpu.name
        if candidate.verdict == "fits" and gpu != chosen.shape.gpu.name and gpu not in found:
            found[gpu] = Suggestion(layout_flags(candidate), effect(candidate))
        if len(found) == 2:
            break
    return tuple(found.values())


def _cheaper_tokens(request: Request, ranked: Sequence[Candidate]) -> list[Suggestion]:
    """The one that could serve in place of the first for the least per token, where USD per hour decided."""
    chosen, rest = ranked[0], ranked[1:]
    mine = _token_price(chosen)
    if (request.service.load.objective or "cost") != "cost" or mine is None or chosen.settings is None:
        return []
    context, vendor = chosen.settings.max_model_len, chosen.shape.gpu.vendor
    others = [
        (price, number, other)
        for number, other in enumerate(rest)
        if other.verdict == "fits" and other.shape.gpu.vendor == vendor
        if other.settings is not None and other.settings.max_model_len >= context
        if (price := _token_price(other)) is not None and price < mine
    ]
    if not others:
        return []
    price, _, other = min(others)
    tokens = f"{price:,.2f} instead of {mine:,.2f} USD per million output tokens"
    return [Suggestion(layout_flags(other), f"{effect(other)}, {tokens}")]


def _token_price(candidate: Candidate) -> float | None:
    """USD per million output tokens in cents, as the plan of a candidate shows it; None if it is not known."""
    if candidate.price is None or candidate.throughput is None:
        return None
    found = per_million_output_tokens(candidate.price, candidate.throughput.at_load.output_tokens_per_second)
    return None if found is None else round(found.typical, 2)


def effect(chosen: Candidate, instead_of: Candidate | None = None) -> str:
    """A candidate that fits, in a line: replicas, requests of each, context, price."""
    text = ["fits"]
    if chosen.replicas > 1:
        text.append(f"{chosen.replicas:,} replicas")
    if chosen.estimate and chosen.settings:
        requests = chosen.shape.data * chosen.estimate.plan.max_concurrency.typical
        plural = "s" if requests >= 1.5 else ""
        text.append(f"{requests:,.0f} request{plural} of {chosen.settings.max_model_len:,} tokens")
    if chosen.total_price is not None:
        other = instead_of.total_price if instead_of else None
        changed = other is not None and other != chosen.total_price
        text.append(f"{chosen.total_price:,.2f} USD/h" + (f" instead of {other:,.2f}" if changed else ""))
    return ", ".join(text)


def _fewer_gpus(request: Request, chosen: Candidate) -> tuple[Suggestion, ...]:
    """The fewest GPUs of a node that hold the same context."""
    parallel, context = request.service.parallelism, chosen.settings.max_model_len if chosen.settings else None
    engine = replace(request.service.engine, max_model_len=context)
    for tensor in valid_tensor_sizes(request.facts, chosen.shape.gpu, request.division(chosen.shape.gpu)):
        if tensor >= chosen.shape.tensor or tensor & (tensor - 1):
            continue
        service = replace(request.service, parallelism=replace(parallel, tensor=tensor), engine=engine)
        best = cheapest(search_plan(replace(request, service=service, gpus=(chosen.shape.gpu,))))
        if best is not None:
            return (Suggestion(f"--tp {tensor}", f"{effect(best)} (fewer GPUs, fewer requests)"),)
    return ()


def _variations(request: Request, candidate: Candidate) -> Iterator[tuple[str, str, LLMService]]:
    """Changes worth a try as (kind, flags, changed service), the smallest first; the first of a kind counts."""
    if candidate.verdict == "invalid":
        yield from _legal(request, candidate)
        return
    service, facts, gpu, shape = request.service, request.facts, candidate.shape.gpu, candidate.shape
    engine, parallel = service.engine, service.parallelism

    def changed(kind: str, flags: str, **fields: Any) -> tuple[str, str, LLMService]:
        return kind, flags, replace(service, engine=replace(engine, **fields))

    longest = longest_sure_context(candidate, facts.max_model_len)
    usual = request.engine.gpu_memory_utilization
    if engine.gpu_memory_utilization is not None and engine.gpu_memory_utilization < usual:
        yield changed("utilization", f"--gpu-memory-utilization {usual:g}", gpu_memory_utilization=None)
    if engine.max_model_len is not None and 0 < longest < engine.max_model_len:
        yield changed("context", f"--max-model-len {longest}", max_model_len=longest)
    if engine.kv_cache_dtype in (None, "auto") and "fp8" in gpu.flops:
        yield changed("kv", "--kv-cache-dtype fp8", kv_cache_dtype="fp8")
    sure = most_sure_sequences(candidate.estimate) if candidate.estimate else 0
    for fewer in (sure, _FEWER_SEQUENCES):
        if candidate.settings and 0 < fewer < candidate.settings.max_num_seqs:
            yield changed("sequences", f"--max-num-seqs {fewer}", max_num_seqs=fewer)
    for tensor in valid_tensor_sizes(facts, gpu, request.division(gpu)):
        if tensor > shape.tensor and tensor & (tensor - 1) == 0:
            yield "gpus", f"--tp {tensor}", replace(service, parallelism=replace(parallel, tensor=tensor))
    for factor in (2, 4):
        wider = replace(parallel, tensor=shape.tensor, pipeline=shape.pipeline * factor)
        yield "gpus", f"--tp {shape.tensor} --pp {wider.pipeline}", replace(service, parallelism=wider)
    if engine.quantization is None and facts.quantization is None and "fp8" in gpu.flops:
        method = online_fp8(request.engine.release)
        yield changed("quantization", f"--quantization {method}", quantization=method)


def _legal(request: Request, candidate: Candidate) -> Iterator[tuple[str, str, LLMService]]:
    """The request without what its GPU or its layout cannot do."""
    shape, service = candidate.shape, request.service
    problems = list(gpu_problems(request, shape))
    for problem in problems:
        if problem.change is None:
            return
        service = problem.change(service)
    flags = _flags(problems, candidate)
    consent, pipeline = service.parallelism.across_nodes, service.parallelism.pipeline or 1
    facts, division = request.facts, request.division(shape.gpu)
    if layout_problem(facts, shape.gpu, shape.tensor, pipeline, division, across_nodes=consent) is None:
        yield "legal", flags, service
        return
    for tensor in nearest_tensor_sizes(facts, shape.gpu, shape.tensor, division, across_nodes=consent):
        parallel = replace(service.parallelism, tensor=tensor)
        yield f"tp {tensor}", f"{flags} --tp {tensor}".strip(), replace(service, parallelism=parallel)


def _flags(problems: Sequence[Refusal], best: Candidate) -> str:
    context = str(best.settings.max_model_len) if best.settings else ""
    return " ".join(problem.flags.replace(CONTEXT, context) for problem in problems)


def layout_flags(candidate: Candidate) -> str:
    """The flags that choose the GPUs of a candidate."""
    shape = candidate.shape
    return f"--gpu {shape.gpu.name} --tp {shape.tensor}" + (f" --pp {shape.pipeline}" if shape.pipeline > 1 else "")


def _other_gpu(request: Request, candidate: Candidate, before: Candidate | None) -> Suggestion | None:
    """The cheapest other kind of GPU that does what was asked."""
    others = tuple(gpu for gpu in request.catalog if gpu.name != candidate.shape.gpu.name and gpu.price_per_hour)
    if not others:
        return None
    free = replace(request.service, parallelism=replace(request.service.parallelism, tensor=None, pipeline=None))
    best = cheapest(search_plan(replace(request, service=free, gpus=others)))
    return None if best is None else Suggestion(layout_flags(best), effect(best, before))
