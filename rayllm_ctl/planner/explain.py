"""Why this plan and no other: the line that ruled each candidate out, and every formula with its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from rayllm_ctl.model.kube.quantities import gib
from rayllm_ctl.model.plan.plan import CandidateSummary, Reason
from rayllm_ctl.planner.engine.checks import build_caveats
from rayllm_ctl.planner.memory import Formula
from rayllm_ctl.planner.request import Candidate, Request
from rayllm_ctl.planner.suggest import effect


def why(request: Request, ranked: Sequence[Candidate]) -> tuple[Reason, ...]:
    """Why the first of `ranked` (best first, it runs) was taken: what smaller, cheaper or also fitting ones lack."""
    chosen, rest = ranked[0], ranked[1:]
    reasons = []
    if rest:
        reasons.append(Reason("chosen", _chosen(request, ranked)))
    for candidate in _next(request, chosen, rest):
        reasons.append(Reason("smaller-does-not", f"{candidate.shape} is insufficient: {_line(candidate)}"))
    return tuple(reasons)


def _chosen(request: Request, ranked: Sequence[Candidate]) -> str:
    """What the first of `ranked` has before the others that fit."""
    chosen, fitting = ranked[0], [c for c in ranked if c.verdict == "fits"]
    counts = f"{len(ranked)} candidates, {len(fitting)} of which fit"
    objective = request.service.load.objective or "cost"
    if objective != "cost":
        return f"{chosen.shape} has the best {objective} of {counts}"
    if chosen.price is None:
        if all(c.price is None for c in fitting):
            return f"{chosen.shape} has the fewest GPUs of {counts}; no price of those that fit is known"
        others = "those with a known price hold a shorter context, span nodes or need another image"
        return f"the price of {chosen.shape} is unknown; of {counts}, {others}"
    known = "known " if any(c.price is None for c in fitting) else ""
    return f"{chosen.shape} has the lowest {known}USD/h of {counts}"


def summaries(ranked: Sequence[Candidate]) -> tuple[CandidateSummary, ...]:
    """Every candidate, in order."""
    return tuple(_summary(candidate) for candidate in ranked)


def formula_lines(formulas: Sequence[Formula]) -> tuple[str, ...]:
    """Every formula with its numbers and its result."""
    width = max((len(f.name) for f in formulas), default=0)
    return tuple(f"{f.name:<{width}}  {f.text} = {_value(f)}" for f in formulas)


def _value(formula: Formula) -> str:
    if formula.unit == "bytes":
        return f"{formula.value:,.0f} bytes ({formula.value / 2**30:.2f} GiB)"
    return f"{formula.value:,.2f} {formula.unit}".rstrip()


def _next(request: Request, chosen: Candidate, rest: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that a user asks about first, and that do not fit: the next cheaper, and the next smaller.

    The next cheaper has no more GPUs, of a kind that the default image runs on; the next smaller is of the same kind.
    """
    lacking = [one for one in rest if one.verdict != "fits" and one.shape.pipeline <= chosen.shape.pipeline]
    found: list[Candidate] = []
    if chosen.price is not None:
        cheaper = [
            one
            for one in lacking
            if one.price is not None and one.price < chosen.price and one.shape.gpus <= chosen.shape.gpus
            if one.shape.gpu.vendor == chosen.shape.gpu.vendor and not any(build_caveats(request, one.shape.gpu))
        ]
        found += sorted(cheaper, key=lambda one: -(one.price or 0.0))[:1]
    smaller = [one for one in lacking if one.shape.gpu == chosen.shape.gpu and one.shape.gpus < chosen.shape.gpus]
    found += [one for one in sorted(smaller, key=lambda one: -one.shape.gpus)[:1] if one not in found]
    return found


def _line(candidate: Candidate) -> str:
    if candidate.verdict == "fits":
        return effect(candidate)
    return candidate.reasons[0].message if candidate.reasons else candidate.verdict


def _summary(candidate: Candidate) -> CandidateSummary:
    found, settings, throughput = candidate.estimate, candidate.settings, candidate.throughput
    judged = found is not None and settings is not None
    return CandidateSummary(
        gpu=candidate.shape.gpu.name,
        tensor=candidate.shape.tensor,
        pipeline=candidate.shape.pipeline,
        quantization=candidate.shape.quantization,
        verdict=candidate.verdict,
        replicas=candidate.replicas,
        price_per_hour=None if candidate.total_price is None else round(candidate.total_price, 2),
        line=_line(candidate),
        max_model_len=settings.max_model_len if judged and settings else None,
        kv_cache_gib=float(gib(found.plan.kv_cache_bytes.typical)) if judged and found else None,
        data=candidate.shape.data if candidate.shape.data > 1 else None,
        tokens_per_second=round(throughput.at_load.output_tokens_per_second.typical) if throughput else None,
    )
