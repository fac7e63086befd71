"""How long a replica takes until it answers, and the limits that probes and waits take from it.

Every figure is a band because disks, networks and compile caches differ more than models do: loading has those of the
ways to the weights, engineinit those of the engine. Between container start and the first line of the engine 25 s pass
(vllm#20264).
"""

from __future__ import annotations

import math

from rayllm_ctl.model.plan.plan import Band, StartupPlan
from rayllm_ctl.model.spec.model_storage import Caches
from rayllm_ctl.planner.speed.engineinit import EngineStart, init_seconds
from rayllm_ctl.planner.speed.loading import NO_TIME, Origin, add, fetch_seconds, load_seconds, mirror_seconds

PROCESS = Band(15.0, 30.0, 60.0)
"""Seconds of imports, Ray actors and API start around the engine."""

_IMAGE_PULL = 600
"""Seconds granted for pulling an image of about 10 GB to a node that has never seen it (an assumption)."""

_SHORTEST_WAIT = 900


def startup(
    files_bytes: float,
    origin: Origin,
    engine: EngineStart,
    *,
    nodes: int = 1,
    caches: Caches | None = None,
) -> StartupPlan:
    """Start-up of one replica.

    files_bytes: size of all weights; nodes: how many nodes read it. The limit is that of a first start, which finds no
    compiled graphs, and without the Job of a mirror, which pods wait for before their containers start.
    """
    fetch, load = fetch_seconds(origin.way, files_bytes), load_seconds(origin.way, files_bytes, nodes)
    init = init_seconds(engine)
    total = add(PROCESS, fetch, load, init)
    wait = max(_SHORTEST_WAIT, 60 * math.ceil((1.5 * total.high + _IMAGE_PULL) / 60))
    later = NO_TIME if origin.way == "hub-cache" else fetch
    further = add(PROCESS, later, load, later_init(engine, caches))
    return StartupPlan(fetch, load, init, total, wait, origin.way, further, mirror_seconds(origin, files_bytes))


def later_init(engine: EngineStart, caches: Caches | None) -> Band:
    """The preparation of an engine that finds what the first one kept. A start-up plan lies beside the compiled graphs:
    without a claim each pod has an empty folder."""
    if caches is None or caches.compile is None:
        return init_seconds(engine)
    return init_seconds(engine, compiled=True, profiled=caches.startup_plan)
