"""What would work instead: changes to one or two flags, each proven by planning again with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rayllm_ctl.model.plan import Suggestion
from rayllm_ctl.model.service import LLMService
from rayllm_ctl.planner.evaluate import longest_sure_context
from rayllm_ctl.planner.parallelism import nearest_tensor_sizes, valid_tensor_sizes
from rayllm_ctl.planner.request import Candidate, Request
from rayllm_ctl.planner.search import cheapest, search

_MOST = 4
_FEWER_SEQUENCES = 256


def suggestions(request: Request, candidate: Candidate) -> tuple[Suggestion, ...]:
    """Up to four changes that turn `candidate`, which does not fit for sure, into a plan that does."""
    found: list[Suggestion] = []
    for flags, service in _variations(request, candidate):
        best = cheapest(search(replace(request, service=service, gpus=(candidate.shape.gpu,))))
        if best is not None:
            found.append(Suggestion(flags, effect(best, candidate)))
        if len(found) == _MOST - 1:
            break
    other = _other_gpu(request, candidate)
    return tuple([*found, other] if other else found)


def effect(chosen: Candidate, instead_of: Candidate | None = None) -> str:
    """A candidate that fits, in a line: requests, context, price."""
    text = ["fits"]
    if chosen.estimate and chosen.settings:
        requests = chosen.estimate.plan.max_concurrency.typical
        plural = "s" if requests >= 1.5 else ""
        text.append(f"{requests:,.0f} request{plural} of {chosen.settings.max_model_len:,} tokens")
    if chosen.total_price is not None:
        other = instead_of.total_price if instead_of else None
        text.append(f"{chosen.total_price:.2f} USD/h" + (f" instead of {other:.2f}" if other else ""))
    return ", ".join(text)


def _variations(request: Request, candidate: Candidate) -> Iterator[tuple[str, LLMService]]:
    """Changes worth a try, the smallest first."""
    service, facts, gpu, shape = request.service, request.facts, candidate.shape.gpu, candidate.shape
    engine, parallel = service.engine, service.parallelism
    if candidate.verdict == "invalid":
        if engine.dtype not in (None, "auto"):
            yield "--dtype auto", replace(service, engine=replace(engine, dtype=None))
        for tensor in nearest_tensor_sizes(facts, gpu, shape.tensor):
            yield f"--tp {tensor}", replace(service, parallelism=replace(parallel, tensor=tensor))
        return
    longest = longest_sure_context(candidate, facts.max_model_len)
    if engine.max_model_len is not None and 0 < longest < engine.max_model_len:
        yield f"--max-model-len {longest}", replace(service, engine=replace(engine, max_model_len=longest))
    if engine.kv_cache_dtype in (None, "auto") and "fp8" in gpu.flops:
        yield "--kv-cache-dtype fp8", replace(service, engine=replace(engine, kv_cache_dtype="fp8"))
    if candidate.settings and candidate.settings.max_num_seqs > _FEWER_SEQUENCES:
        fewer = replace(engine, max_num_seqs=_FEWER_SEQUENCES)
        yield f"--max-num-seqs {_FEWER_SEQUENCES}", replace(service, engine=fewer)
    more = [n for n in valid_tensor_sizes(facts, gpu) if n > shape.tensor and n & (n - 1) == 0]
    for tensor in more:
        yield f"--tp {tensor}", replace(service, parallelism=replace(parallel, tensor=tensor))
    if not more:
        for pipeline in (2, 4):
            wider = replace(parallel, tensor=shape.tensor, pipeline=shape.pipeline * pipeline)
            yield f"--tp {shape.tensor} --pp {wider.pipeline}", replace(service, parallelism=wider)
    if engine.quantization is None and facts.quantization is None and "fp8" in gpu.flops:
        yield "--quantization fp8", replace(service, engine=replace(engine, quantization="fp8"))


def _other_gpu(request: Request, candidate: Candidate) -> Suggestion | None:
    """The cheapest other kind of GPU that does what was asked."""
    others = tuple(gpu for gpu in request.catalog if gpu.name != candidate.shape.gpu.name and gpu.price_per_hour)
    free = replace(request.service, parallelism=replace(request.service.parallelism, tensor=None, pipeline=None))
    best = cheapest(search(replace(request, service=free, gpus=others)))
    if best is None:
        return None
    flags = f"--gpu {best.shape.gpu.name} --tp {best.shape.tensor}"
    flags += f" --pp {best.shape.pipeline}" if best.shape.pipeline > 1 else ""
    return Suggestion(flags, effect(best, candidate))
