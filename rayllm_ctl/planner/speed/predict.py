"""What the plan says of a load that was measured: the same formulas, at its lengths and its requests in flight."""

from __future__ import annotations

from collections.abc import Callable

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.planner.evaluate import evaluate
from rayllm_ctl.planner.request import Request, Shape, Workload
from rayllm_ctl.planner.speed.figures import Likely, in_flight, likely
from rayllm_ctl.planner.speed.replica import replica_speed


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
    rate = replica_speed(request, shape, candidate.settings)
    held = candidate.throughput.concurrency_at_load.typical

    def figures(batch: float) -> Likely:
        return likely(rate, load, batch)

    if load.rate is not None:
        return _open(load.rate, load.output_tokens, figures, held, replicas)
    assert load.concurrency is not None
    each = max(1.0, load.concurrency / replicas)
    found, serving = figures(min(each, held)), min(replicas, load.concurrency)
    # What the KV cache does not hold waits (Little's law).
    waiting = max(0.0, each - held) / found.requests_per_second
    return Prediction(
        found.requests_per_second * serving,
        found.output_tokens_per_second * serving,
        found.ttft + waiting,
        found.tpot,
    )


def _open(
    rate: float, output_tokens: int, figures: Callable[[float], Likely], held: float, replicas: int
) -> Prediction | str:
    """Requests that arrive: as many are in flight as make the replicas answer `rate` of them."""

    def answered(batch: float) -> float:
        return figures(batch).requests_per_second * replicas

    most = max(1.0, held)
    batch = in_flight(rate, answered, most)
    if batch is None:
        return f"the plan says that it answers {answered(most):.3g} requests/s at most"
    found = figures(batch)
    return Prediction(rate, rate * output_tokens, found.ttft, found.tpot)
