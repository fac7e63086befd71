"""Which GPUs, TP and PP serve a model best: every candidate is judged, and each that loses leaves a line that says why.

Order of preference: it fits for sure, then by the objective
  cost        USD per hour of all replicas that the load needs, then fewer GPUs
  throughput  output tokens per second per GPU at the load
  latency     seconds of a request that has a replica for itself, from its prompt to the end of its answer
GPUs without a known price come after those with one, and those that need another image than the default after all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.planner.engine.parallelism import node_layouts, staged_layouts
from rayllm_ctl.planner.engine.settings import load_context
from rayllm_ctl.planner.evaluate import evaluate, hopeless, longest_sure_context
from rayllm_ctl.planner.request import Candidate, Request, Shape

CONTEXT_WITHOUT_A_WISH = 131072
"""Context that a candidate must hold where the user names none and the model has more."""

SHORTEST_CONTEXT = 8192
"""A shorter context than this is not chosen for a user who named none."""


def search_plan(request: Request) -> list[Candidate]:
    """All candidates, best first.

    With a context that the user named only that one is looked at. Without, the model's whole context (at most 128k, or
    what the load takes) is asked for first, and a shorter one only where no candidate on one node holds it; the best
    then gets as much more of the model's context as it surely holds.
    """
    context, preference = wanted_context(request), _preference(request)
    candidates = [candidate for gpu in request.gpus for candidate in _on(request, gpu, context)]
    open_context = request.service.engine.max_model_len is None
    if open_context and not any(c.verdict == "fits" and c.shape.pipeline == 1 for c in candidates):
        candidates += _shortened(request, candidates)
    best, *rest = sorted(candidates, key=preference)
    if best.verdict == "does-not-fit" and best.estimate is None:
        best = evaluate(request, best.shape, context)
    if open_context and best.verdict == "fits" and context < request.facts.max_model_len:
        best = _at_longest(request, best)
    return [best, *rest]


def _on(request: Request, gpu: GPU, context: int) -> Iterator[Candidate]:
    """The candidates on one kind of GPU: inside a node, and over several as soon as no node holds the model."""
    wanted, facts = request.service.parallelism, request.facts
    quantization = request.service.engine.quantization if facts.quantization is None else None
    many, fitting = len(request.gpus) > 1, False
    for tensor, pipeline in node_layouts(gpu, wanted.tensor, wanted.pipeline):
        shape = Shape(gpu, tensor, pipeline, quantization, request.data)
        candidate = (hopeless(request, shape) if many else None) or evaluate(request, shape, context)
        fitting = fitting or candidate.verdict == "fits"
        yield candidate
    if fitting or wanted.tensor is not None or wanted.pipeline is not None:
        return
    for tensor, pipeline in staged_layouts(facts, gpu, request.division(gpu)):
        shape = Shape(gpu, tensor, pipeline, quantization, request.data)
        candidate = hopeless(request, shape) or evaluate(request, shape, context)
        yield candidate
        if candidate.verdict == "fits":
            return


def wanted_context(request: Request) -> int:
    """The context length that a candidate is first judged at, in tokens."""
    named = request.service.engine.max_model_len
    least = max(CONTEXT_WITHOUT_A_WISH, load_context(request.service.load))
    return named if named is not None else min(request.facts.max_model_len, least)


def _shortened(request: Request, candidates: list[Candidate]) -> list[Candidate]:
    """The candidates that hold their weights, at the longest context that they surely hold."""
    short = [_at_longest(request, c) for c in candidates if c.verdict in ("does-not-fit", "risky")]
    return [c for c in short if c.verdict == "fits"]


def _at_longest(request: Request, candidate: Candidate) -> Candidate:
    """`candidate` with the longest context that it surely holds, or as it is where that is too short to be of use."""
    limit = request.facts.max_model_len
    longest = longest_sure_context(candidate, limit)
    least = min(limit, max(SHORTEST_CONTEXT, load_context(request.service.load)))
    if longest < least or (candidate.settings and longest == candidate.settings.max_model_len):
        return candidate
    again = evaluate(request, candidate.shape, longest)
    return again if again.verdict == "fits" else candidate


def _preference(request: Request) -> Callable[[Candidate], tuple[object, ...]]:
    rank = {"fits": 0, "risky": 1, "does-not-fit": 2, "invalid": 3}
    context = wanted_context(request)
    objectives: dict[str, Callable[[Candidate], tuple[float, ...]]] = {
        "cost": _by_cost,
        "throughput": _by_throughput,
        "latency": _by_latency,
    }
    own_image = request.service.engine.image is not None

    def foreign(candidate: Candidate) -> bool:
        return not has_public_image(candidate.shape.gpu) and not own_image

    objective = objectives[request.service.load.objective or "cost"]

    def key(candidate: Candidate) -> tuple[object, ...]:
        shorter = candidate.settings is not None and candidate.settings.max_model_len < context
        # A shorter context on one node is better than pipeline stages over several, but worse than the whole context.
        # Stages that the user asked for are not a reason against a candidate.
        place = (candidate.shape.pipeline > 1 and request.service.parallelism.pipeline is None, shorter)
        size = (candidate.shape.gpus, candidate.shape.gpu.memory_bytes)
        if candidate.verdict == "invalid":
            # More GPUs do not change what contradicts itself.
            return (rank[candidate.verdict], *size)
        if not candidate.runs:
            # Of what does not fit, the largest comes nearest to fitting.
            return (rank[candidate.verdict], -size[0] * size[1])
        return (rank[candidate.verdict], *place, foreign(candidate), *objective(candidate), *size)

    return key


def has_public_image(gpu: GPU) -> bool:
    """Whether there is a public image with Ray and vLLM for nodes with that GPU: NVIDIA's beside x86 CPUs only."""
    return gpu.vendor == "nvidia" and gpu.host_architecture == "amd64"


def _by_cost(candidate: Candidate) -> tuple[float, ...]:
    price = candidate.total_price
    return (float(price is None), price or 0.0)


def _by_throughput(candidate: Candidate) -> tuple[float, ...]:
    if candidate.throughput is None:
        return (0.0,)
    return (-candidate.throughput.at_load.output_tokens_per_second.typical / candidate.shape.gpus,)


def _by_latency(candidate: Candidate) -> tuple[float, ...]:
    if candidate.throughput is None:
        return (math.inf,)
    return (1 / candidate.throughput.one_request.requests_per_second.typical,)


def cheapest(candidates: list[Candidate], gpu: GPU | None = None) -> Candidate | None:
    """The first of `candidates` (best first) that fits, on `gpu` or on any."""
    return next((c for c in candidates if c.verdict == "fits" and gpu in (None, c.shape.gpu)), None)
