"""Which GPUs, TP and PP serve a model best: every candidate is judged, and each that loses leaves a line that says why.

Order of preference: it fits for sure, then by the objective
  cost        USD per hour of all replicas that the load needs, then fewer GPUs
  throughput  output tokens per second per GPU at the load
  latency     seconds per output token at the load, then to the first token
GPUs without a known price come after those with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rayllm_ctl.model.hardware import GPU
from rayllm_ctl.model.plan import Band
from rayllm_ctl.planner.evaluate import evaluate, longest_sure_context
from rayllm_ctl.planner.parallelism import node_layouts, staged_layouts
from rayllm_ctl.planner.request import Candidate, Request, Shape

CONTEXT_WITHOUT_A_WISH = 131072
"""Context that a candidate must hold where the user names none and the model has more."""

SHORTEST_CONTEXT = 8192
"""A shorter context than this is not chosen for a user who named none."""


def search(request: Request) -> list[Candidate]:
    """All candidates, best first.

    With a context that the user named only that one is looked at. Without, the model's whole context (at most 128k) is
    asked for first, and a shorter one only where no candidate on one node holds it.
    """
    context = wanted_context(request)
    candidates = [candidate for gpu in request.gpus for candidate in _on(request, gpu, context)]
    if request.service.engine.max_model_len is None:
        candidates = _lengthened(request, candidates, context)
        if not any(c.verdict == "fits" and c.shape.pipeline == 1 for c in candidates):
            candidates += _shortened(request, candidates)
    return sorted(candidates, key=_preference(request))


def _on(request: Request, gpu: GPU, context: int) -> Iterator[Candidate]:
    """The candidates on one kind of GPU: inside a node, and over several as soon as no node holds the model."""
    wanted, facts = request.service.parallelism, request.facts
    quantization = request.service.engine.quantization if facts.quantization is None else None
    fitting = False
    for tensor, pipeline in node_layouts(gpu, wanted.tensor, wanted.pipeline):
        candidate = evaluate(request, Shape(gpu, tensor, pipeline, quantization), context)
        fitting = fitting or candidate.verdict == "fits"
        yield candidate
    if fitting or wanted.tensor is not None or wanted.pipeline is not None:
        return
    for tensor, pipeline in staged_layouts(facts, gpu):
        candidate = evaluate(request, Shape(gpu, tensor, pipeline, quantization), context)
        yield candidate
        if candidate.verdict == "fits":
            return


def wanted_context(request: Request) -> int:
    """The context length that a candidate is first judged at, in tokens."""
    named = request.service.engine.max_model_len
    return named if named is not None else min(request.facts.max_model_len, CONTEXT_WITHOUT_A_WISH)


def _lengthened(request: Request, candidates: list[Candidate], context: int) -> list[Candidate]:
    """A model with more context than is asked for gets as much of it as surely fits."""
    limit = request.facts.max_model_len
    if context >= limit:
        return candidates
    return [_at_longest(request, c, limit) if c.verdict == "fits" else c for c in candidates]


def _shortened(request: Request, candidates: list[Candidate]) -> list[Candidate]:
    """The candidates on one node that hold their weights, at the longest context that they surely hold."""
    limit = request.facts.max_model_len
    short = [_at_longest(request, c, limit) for c in candidates if c.verdict in ("does-not-fit", "risky")]
    return [c for c in short if c.verdict == "fits"]


def _at_longest(request: Request, candidate: Candidate, limit: int) -> Candidate:
    longest = longest_sure_context(candidate, limit)
    load = request.service.load
    least = min(limit, max(SHORTEST_CONTEXT, (load.input_tokens or 0) + (load.output_tokens or 0)))
    if longest < least or (candidate.settings and longest == candidate.settings.max_model_len):
        return candidate
    again = evaluate(request, candidate.shape, longest)
    return again if again.verdict == "fits" else candidate


def _preference(request: Request) -> Callable[[Candidate], tuple[object, ...]]:
    rank = {"fits": 0, "risky": 1, "does-not-fit": 2, "invalid": 3}
    objectives = {"cost": _by_cost, "throughput": _by_throughput, "latency": _by_latency}
    objective = objectives[request.service.load.objective or "cost"]
    context = wanted_context(request)

    def key(candidate: Candidate) -> tuple[object, ...]:
        shorter = candidate.settings is not None and candidate.settings.max_model_len < context
        # A shorter context on one node is better than pipeline stages over several, but worse than the whole context.
        place = (candidate.shape.pipeline > 1) * 2 if not shorter else 1
        size = (candidate.shape.gpus, candidate.shape.gpu.memory_bytes)
        return (rank[candidate.verdict], place, *objective(candidate), *size)

    return key


def _by_cost(candidate: Candidate) -> tuple[float, ...]:
    price = candidate.total_price
    return (float(price is None), price or 0.0)


def _by_throughput(candidate: Candidate) -> tuple[float, ...]:
    figures = _figures(candidate, "outputTokensPerSecond")
    return (-figures.typical / candidate.shape.gpus,) if figures else (0.0,)


def _by_latency(candidate: Candidate) -> tuple[float, ...]:
    each, first = _figures(candidate, "tpot"), _figures(candidate, "ttft")
    return (each.typical, first.typical) if each and first else (float("inf"), 0.0)


def _figures(candidate: Candidate, name: str) -> Band | None:
    band = candidate.throughput["atLoad"][name] if candidate.throughput else None
    return band if isinstance(band, Band) else None


def cheapest(candidates: list[Candidate], gpu: GPU | None = None) -> Candidate | None:
    """The first of `candidates` (best first) that fits, on `gpu` or on any."""
    return next((c for c in candidates if c.verdict == "fits" and gpu in (None, c.shape.gpu)), None)
