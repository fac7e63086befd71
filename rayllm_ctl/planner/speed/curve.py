"""The speed of one replica from one request in flight to as many as it holds."""

from __future__ import annotations

from rayllm_ctl.model.plan.plan import CurvePoint
from rayllm_ctl.planner.engine.settings import resolve_load
from rayllm_ctl.planner.request import Candidate, Request
from rayllm_ctl.planner.speed.throughput import at_load, speed

_STEPS = 24
"""Points on a curve, besides those of its capacity."""


def load_curve(request: Request, candidate: Candidate) -> tuple[CurvePoint, ...] | None:
    """Figures by requests in flight, which become sparser as there are more; None if there is no speed."""
    settings, planned, shape = candidate.settings, candidate.throughput, candidate.shape
    if settings is None or planned is None:
        return None
    measured = request.calibration(shape, settings)
    rate = speed(request.facts, request.work(settings), shape.gpu, shape.tensor, shape.pipeline, measured)
    load = resolve_load(request.service, settings.max_model_len)
    held = planned.concurrency_at_load
    most = max(1, int(held.high))
    steps = {round(most ** (step / _STEPS)) for step in range(_STEPS + 1)}
    numbers = sorted({1, most, *(max(1, int(end)) for end in (held.low, held.typical)), *steps})
    return tuple(CurvePoint(number, at_load(rate, load, number)) for number in numbers)
