"""What the plan says of a load that was measured: the same formulas, at its lengths and its requests in flight."""

from __future__ import annotations

from collections.abc import Callable

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.plan import Figures
from rayllm_ctl.planner.evaluate import evaluate
from rayllm_ctl.planner.request import Request, Shape, Workload
from rayllm_ctl.planner.speed.throughput import at_load, speed

_HALVINGS = 40


@dataclass(frozen=True)
class Prediction:
    """The likely figures over all replicas: rates per second, ttft and tpot in seconds, means."""

    requests_per_second: float
    output_tokens_per_second: float
    ttft: float
    tpot: float


def predict(request: Request, shape: Shape, load: Workload, replicas: int) -> Prediction | str:
    """Of `replicas` that are placed as `shape` says, at the load's concurrency or rate; or why there is no prediction.

    request: with the context length, and the lengths of the load.
    """
    context = request.service.engine.max_model_len or request.facts.max_model_len
    candidate = evaluate(request, shape, context)
    if candidate.throughput is None or candidate.settings is None:
        return "the plan says that it does not fit"
    rate = speed(request.facts, request.work(candidate.settings), shape.gpu, shape.tensor, shape.pipeline)
    held = candidate.throughput.concurrency_at_load.typical

    def figures(batch: float) -> Figures:
        return at_load(rate, load, batch)

    if load.rate is not None:
        return _open(load.rate, load.output_tokens, figures, held, replicas)
    assert load.concurrency is not None
    each = max(1.0, load.concurrency / replicas)
    found, serving = figures(min(each, held)), min(replicas, load.concurrency)
    per_replica = found.requests_per_second.typical
    # What the KV cache does not hold waits (Little's law).
    waiting = max(0.0, each - held) / per_replica
    return Prediction(
        per_replica * serving,
        found.output_tokens_per_second.typical * serving,
        found.ttft.typical + waiting,
        found.tpot.typical,
    )


def _open(
    rate: float, output_tokens: int, figures: Callable[[float], Figures], held: float, replicas: int
) -> Prediction | str:
    """Requests that arrive: as many are in flight as make the replicas answer `rate` of them."""

    def answered(batch: float) -> float:
        return figures(batch).requests_per_second.typical * replicas

    low, high = 1.0, max(1.0, held)
    if answered(high) < rate:
        return f"the plan says that it answers {answered(high):.3g} requests/s at most"
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if answered(middle) < rate else (low, middle)
    found = figures(high if answered(1.0) < rate else 1.0)
    return Prediction(rate, rate * output_tokens, found.ttft.typical, found.tpot.typical)
