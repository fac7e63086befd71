"""Why this plan and no other: the line that ruled each candidate out, and every formula with its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from rayllm_ctl.model.kube.quantities import gib
from rayllm_ctl.model.plan.plan import CandidateSummary, Reason
from rayllm_ctl.planner.memory import Formula
from rayllm_ctl.planner.request import Candidate, Request
from rayllm_ctl.planner.speed.cost import per_million_output_tokens
from rayllm_ctl.planner.suggest import effect, layout_flags

_CLOSEST = 2


def why(request: Request, ranked: Sequence[Candidate]) -> tuple[Reason, ...]:
    """Why the first of `ranked` (best first, it runs) was taken: what smaller, cheaper or also fitting ones lack."""
    chosen, rest = ranked[0], ranked[1:]
    reasons = []
    if rest:
        reasons.append(Reason("chosen", _chosen(request, ranked)))
        reasons += _cheaper_tokens(request, chosen, rest)
    for candidate in _cheaper(chosen, rest)[:_CLOSEST]:
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
        return f"{chosen.shape} has the fewest GPUs of {counts}; no price of those that fit is known"
    known = "known " if any(c.price is None for c in fitting) else ""
    return f"{chosen.shape} has the best {known}cost of {counts}"


def _cheaper_tokens(request: Request, chosen: Candidate, rest: Sequence[Candidate]) -> list[Reason]:
    """That another one that could serve in its place answers for less per token, where USD per hour decided."""
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
    text = f"USD/h decides; {layout_flags(other)} costs {price:,.2f} instead of {mine:,.2f} USD per million tokens"
    return [Reason("cheaper-tokens", text)]


def _token_price(candidate: Candidate) -> float | None:
    """USD per million output tokens in cents, as the plan of a candidate shows it; None if it is not known."""
    if candidate.price is None or candidate.throughput is None:
        return None
    found = per_million_output_tokens(candidate.price, candidate.throughput.at_load.output_tokens_per_second)
    return None if found is None else round(found.typical, 2)


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


def _cheaper(chosen: Candidate, rest: Sequence[Candidate]) -> list[Candidate]:
    """Candidates that would cost less (no price known: need fewer GPUs) but do not fit, the nearest first."""
    if chosen.price is not None:
        less = [c for c in rest if c.verdict != "fits" and c.price is not None and c.price < chosen.price]
        return sorted(less, key=lambda c: -(c.price or 0.0))
    less = [c for c in rest if c.verdict != "fits" and c.shape.gpus < chosen.shape.gpus]
    return sorted(less, key=lambda c: -c.shape.gpus)


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
        tokens_per_second=round(throughput.at_load.output_tokens_per_second.typical) if throughput else None,
    )
