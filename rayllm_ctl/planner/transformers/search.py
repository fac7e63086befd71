"""Which layout is best, why, and what would work instead of one that does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.model.plan.plan import CandidateSummary, Reason, Suggestion
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.spec.transformers import QUANTIZATIONS
from rayllm_ctl.planner.request import Request
from rayllm_ctl.planner.search import has_public_image
from rayllm_ctl.planner.transformers.layouts import DEFAULT_BATCH, DeviceLayout, layouts, options_of
from rayllm_ctl.planner.transformers.parts import parts_of

_MOST = 4
_SHORTEST_CONTEXT = 512
_RANK = {"fits": 0, "risky": 1, "does-not-fit": 2, "invalid": 3}


def ranked(request: Request) -> list[DeviceLayout]:
    """All layouts, best first: what fits for sure, without layers in CPU memory, then the price and the GPUs."""
    own_image = request.service.engine.image is not None

    def key(layout: DeviceLayout) -> tuple[object, ...]:
        foreign = not has_public_image(layout.gpu) and not own_image
        size = (layout.gpus, layout.gpu.memory_bytes)
        if layout.verdict == "invalid":
            return (_RANK[layout.verdict], *size)
        if layout.verdict not in ("fits", "risky"):
            return (_RANK[layout.verdict], -size[0] * size[1])
        offloaded = layout.spread is not None and layout.spread.offloaded > 0
        return (_RANK[layout.verdict], foreign, offloaded, layout.price is None, layout.price or 0.0, *size)

    return sorted(layouts(request), key=key)


def why_transformers(request: Request, found: Sequence[DeviceLayout]) -> Iterator[Reason]:
    """Why the first of `found`, which fits, was taken, and why it generates fewer requests at once than usual."""
    chosen, rest = found[0], found[1:]
    if rest:
        fitting = [one for one in found if one.verdict == "fits"]
        counts = f"{len(found)} candidates, {len(fitting)} of which fit"
        known = "known " if any(one.price is None for one in fitting) else ""
        if chosen.price is not None:
            text = f"{chosen} has the lowest {known}USD/h of {counts}"
        elif all(one.price is None for one in fitting):
            text = f"{chosen} has the fewest GPUs of {counts}; no price of those that fit is known"
        else:
            others = "those with a known price keep layers in CPU memory or need another image"
            text = f"the price of {chosen} is unknown; of {counts}, {others}"
        yield Reason("chosen", text)
    smaller = [one for one in rest if one.gpu == chosen.gpu and one.gpus < chosen.gpus]
    for one in sorted(smaller, key=lambda one: -one.gpus)[:1]:
        yield Reason("smaller-does-not", f"{one} is insufficient: {_line(one)}")
    if request.service.engine.max_num_seqs is None and chosen.batch < DEFAULT_BATCH:
        yield Reason(
            "fewer-requests",
            f"{chosen.batch} request{'s' if chosen.batch > 1 else ''} at once instead of {DEFAULT_BATCH}: cache and "
            f"activations of {chosen.batch + 1} of {chosen.loading.context:,} tokens do not fit beside the weights",
        )


def transformers_summaries(found: Sequence[DeviceLayout]) -> tuple[CandidateSummary, ...]:
    """Every layout, in order. Its GPUs stand as pipeline stages, since each has whole layers."""
    return tuple(
        CandidateSummary(
            gpu=one.gpu.name,
            tensor=1,
            pipeline=one.gpus,
            quantization=one.loading.quantization,
            verdict=one.verdict,
            replicas=1,
            price_per_hour=None if one.price is None else round(one.price, 2),
            line=_line(one),
            max_model_len=one.loading.context if one.spread else None,
        )
        for one in found
    )


def transformers_alternatives(request: Request, layout: DeviceLayout) -> tuple[Suggestion, ...]:
    """Up to four changes with which a layout that does not fit does; each has been planned."""
    found: dict[str, Suggestion] = {}
    for kind, flags, service in _variations(request, layout):
        if kind in found or len(found) == _MOST - 1:
            continue
        best = _best(replace(request, service=service, gpus=(layout.gpu,)))
        if best is not None:
            found[kind] = Suggestion(flags, transformers_effect(best))
    other = _other_gpu(request, layout)
    return (*found.values(), *((other,) if other else ()))


def with_cpu_memory(request: Request, layout: DeviceLayout) -> Suggestion | None:
    """CPU memory for the layers that the GPUs do not hold, where that is all that is needed."""
    options, engine = options_of(request.service), request.service.engine
    if options.cpu_memory is not None or engine.quantization is not None:
        return None
    weights = sum(part.weights for part in parts_of(request.facts, layout.loading))
    for size in (weights, 2 * weights):
        service = _with(request.service, gpus=layout.gpus, cpu_memory=str(size))
        best = _best(replace(request, service=service, gpus=(layout.gpu,)))
        if best is not None and best.spread is not None:
            break
    else:
        return None
    # The CPU keeps room for the largest layer as well.
    largest = max(part.weights for part in parts_of(request.facts, layout.loading))
    needed = ceil((best.spread.offloaded + largest) / GIB)
    again = _best(replace(request, service=_with(request.service, gpus=layout.gpus, cpu_memory=f"{needed}Gi")))
    flags = f"spec.engine.transformers.cpuMemory: {needed}Gi"
    return Suggestion(flags, f"{transformers_effect(best)}, slow") if again is not None else None


def transformers_effect(layout: DeviceLayout) -> str:
    """A layout that fits, in a line."""
    requests = f"{layout.batch} request{'s' if layout.batch > 1 else ''} of {layout.loading.context:,} tokens"
    price = f", {layout.price:,.2f} USD/h" if layout.price is not None else ""
    return f"fits on {layout}, {requests}{price}"


def _variations(request: Request, layout: DeviceLayout) -> Iterator[tuple[str, str, LLMService]]:
    """Changes worth a try as (kind, flags, changed service); the first of a kind that fits counts."""
    service, options = request.service, options_of(request.service)
    engine = service.engine

    def changed(kind: str, flags: str, **fields: Any) -> tuple[str, str, LLMService]:
        return kind, flags, replace(service, engine=replace(engine, **fields))

    if options.max_memory_per_gpu is not None:
        yield "limit", "without spec.engine.transformers.maxMemoryPerGPU", _with(service, max_memory_per_gpu=None)
    if engine.max_num_seqs is not None:
        for batch in (engine.max_num_seqs // 2, engine.max_num_seqs // 4, 1):
            if 0 < batch < engine.max_num_seqs:
                yield changed("sequences", f"--max-num-seqs {batch}", max_num_seqs=batch)
    for gpus in (2, 4, 8):
        if options.gpus is not None and options.gpus < gpus <= layout.gpu.max_per_node:
            yield "gpus", f"spec.engine.transformers.gpus: {gpus}", _with(service, gpus=gpus)
    if engine.quantization is None and request.facts.quantization is None and options.cpu_memory is None:
        for method in QUANTIZATIONS:
            yield changed("quantization", f"--quantization {method}", quantization=method)
    context = layout.loading.context // 2
    while context >= _SHORTEST_CONTEXT:
        yield changed("context", f"--max-model-len {context}", max_model_len=context)
        context //= 2


def _with(service: LLMService, **fields: Any) -> LLMService:
    """`service` with other options of the engine."""
    options = replace(options_of(service), **fields)
    return replace(service, engine=replace(service.engine, transformers=options))


def _best(request: Request) -> DeviceLayout | None:
    best = ranked(request)[0]
    return best if best.verdict == "fits" else None


def _other_gpu(request: Request, layout: DeviceLayout) -> Suggestion | None:
    others = tuple(gpu for gpu in request.catalog if gpu.name != layout.gpu.name and gpu.price_per_hour)
    best = _best(replace(request, gpus=others)) if others else None
    return None if best is None else Suggestion(f"--gpu {best.gpu.name}", transformers_effect(best))


def _line(layout: DeviceLayout) -> str:
    if layout.verdict == "fits":
        return transformers_effect(layout)
    return layout.reasons[0].message if layout.reasons else layout.verdict
