"""The speed of one replica from one request in flight to as many as it holds."""

from __future__ import annotations

from rayllm_ctl.model.plan.plan import Band, CurvePoint, Throughput
from rayllm_ctl.planner.engine.settings import resolve_load
from rayllm_ctl.planner.request import Candidate, Request
from rayllm_ctl.planner.speed.figures import at_load
from rayllm_ctl.planner.speed.replica import replica_speed

_STEPS = 24
"""Points on a curve that is drawn, besides those of its capacity."""

_FACTOR = 4
"""Between two points of a curve that is printed."""


def load_curve(request: Request, candidate: Candidate, *, drawn: bool) -> tuple[CurvePoint, ...] | None:
    """Figures by requests in flight, from one to as many as the replica holds; None if there is no speed.

    drawn: with points for a picture, which become sparser as there are more requests, up to the most that the replica
    may hold; otherwise a few up to what it usually holds, and the one of the load.
    """
    settings, planned, shape = candidate.settings, candidate.throughput, candidate.shape
    if settings is None or planned is None:
        return None
    rate = replica_speed(request, shape, settings, request.calibration(shape, settings))
    load = resolve_load(request.service, settings.max_model_len)
    numbers = _drawn(planned.concurrency_at_load) if drawn else _printed(planned)
    return tuple(CurvePoint(number, at_load(rate, load, number)) for number in sorted(numbers))


def _drawn(held: Band) -> set[int]:
    most = max(1, int(held.high))
    steps = {round(most ** (step / _STEPS)) for step in range(_STEPS + 1)}
    return {1, most, *(max(1, int(end)) for end in (held.low, held.typical)), *steps}


def _printed(planned: Throughput) -> set[int]:
    given = {1, max(1, round(planned.load.concurrency)), max(1, int(planned.concurrency_at_load.typical))}
    powers = [_FACTOR**power for power in range(max(given).bit_length() // 2 + 1)]
    # A point close to one of them says nothing new.
    return given | {n for n in powers if all(2 * n <= one or n >= 2 * one for one in given)}
