"""The figures of the queue, over all replicas of the ingress: every replica asks all of them what its router knows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rayllm_ctl.serving import ray_router
from rayllm_ctl.serving.gateway.steps import Load
from rayllm_ctl.serving.ray_router import Routed
from rayllm_ctl.serving.routes import Routes

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

logger = logging.getLogger("rayllm.gateway")

INTERVAL_SECONDS: Final = 1.0
"""How often the ingresses ask each other, and so how old figures of several are at most."""

BUSY_SECONDS: Final = 0.1
"""While there are requests, for each ingress replica: so that each of them is asked ten times a second at most."""

TIMEOUT_SECONDS: Final = 5.0

Report = dict[str, Routed]
"""What one ingress replica knows, by model id."""


class ServeLoad:
    """A LoadSource of the gateway. With one ingress replica its figures are those of the moment.

    connect: a handle to the ingress itself, whose method `report` is this object's.
    """

    def __init__(self, connect: Callable[[], Awaitable[DeploymentHandle[Any]]]) -> None:
        self._connect = connect
        self._handles: Mapping[str, DeploymentHandle[Any]] = {}
        self._ingress: DeploymentHandle[Any] | None = None
        self._asking: asyncio.Task[None] | None = None
        self._loads: dict[str, Load] | None = None
        """Of several ingress replicas; None while there is one."""

    def follow(self, routes: Routes) -> None:
        """Report on these models from now on."""
        self._handles = routes.handles()
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())

    def load(self) -> Mapping[str, Load]:
        """The load of every model whose deployment exists."""
        return combined([self.report()]) if self._loads is None else self._loads

    def ingress_replicas(self) -> int:
        """Replicas of the ingress; at least 1."""
        return max(1, ray_router.replicas(self._ingress)) if self._ingress is not None else 1

    def report(self) -> Report:
        """What the router of this process knows; the other ingress replicas ask for it."""
        return {model: ray_router.routed(handle) for model, handle in self._handles.items()}

    async def _ask(self) -> None:
        ingress = await self._connect()
        self._ingress = ingress.options(stream=False)
        while True:
            await asyncio.sleep(self._interval())
            if self.ingress_replicas() == 1:
                self._loads = None
                continue
            try:
                answers = self._ingress.broadcast("report")
                reports = await answers.results_async(timeout_s=TIMEOUT_SECONDS, return_exceptions=True)
            except Exception as error:
                logger.debug("The replicas of the ingress did not report their load: %s", error)
                continue
            # A replica that ends does not answer.
            self._loads = combined([report for report in reports if not isinstance(report, BaseException)])

    def _interval(self) -> float:
        busy = any(load.pending or load.running for load in self.load().values())
        return min(INTERVAL_SECONDS, BUSY_SECONDS * self.ingress_replicas()) if busy else INTERVAL_SECONDS


def combined(reports: list[Report]) -> dict[str, Load]:
    """The load of each model. Every report knows all of its replicas, but only its own requests.

    Reports are of slightly different moments, so a place that goes from a request of one to a request of another would
    be counted twice: no more requests run than there are places.
    """
    loads: dict[str, Load] = {}
    for report in reports:
        for model, routed in report.items():
            before = loads.get(model, Load(0, 0, 0, 0))
            loads[model] = Load(
                before.pending + routed.waiting,
                before.running + routed.assigned,
                max(before.replicas, routed.replicas),
                max(before.capacity, routed.capacity),
            )
    return {
        model: replace(load, running=min(load.running, load.capacity)) if load.capacity else load
        for model, load in loads.items()
    }
