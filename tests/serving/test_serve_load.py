"""The figures of the queue, of one ingress replica and of several."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from rayllm_ctl.serving import serve_load
from rayllm_ctl.serving.gateway.settings import Model
from rayllm_ctl.serving.gateway.steps import Load
from rayllm_ctl.serving.ray_router import Routed
from rayllm_ctl.serving.routes import Route, Routes
from rayllm_ctl.serving.serve_load import ServeLoad, combined


class Handle:
    """A handle with a router as Ray 2.60 has it; `answers` is what a broadcast returns."""

    def __init__(
        self, waiting: int, assigned: list[int], capacities: list[int], answers: list[Any] | None = None
    ) -> None:
        metrics = SimpleNamespace(num_queued_requests=waiting, num_requests_sent_to_replicas=dict(enumerate(assigned)))
        replicas = {place: SimpleNamespace(max_ongoing_requests=capacity) for place, capacity in enumerate(capacities)}
        router = SimpleNamespace(curr_replicas=replicas) if capacities else None
        self._router = SimpleNamespace(_asyncio_router=SimpleNamespace(_metrics_manager=metrics, request_router=router))
        self._answers = answers or []

    def options(self, *, stream: bool) -> Handle:
        return self

    def broadcast(self, method: str) -> Any:
        assert method == "report"

        async def results_async(timeout_s: float, return_exceptions: bool) -> list[Any]:
            assert return_exceptions
            return self._answers

        return SimpleNamespace(results_async=results_async)


async def followed(ingress: Any, *handles: tuple[str, Handle]) -> ServeLoad:
    async def connect() -> Any:
        return ingress

    load = ServeLoad(connect)
    load.follow(Routes([Route(Model(name, "app", "deployment"), handle) for name, handle in handles]))
    for _ in range(20):
        await asyncio.sleep(0.005)
    return load


def test_alone_the_figures_are_those_of_the_own_router(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_load, "INTERVAL_SECONDS", 0.01)

    async def check() -> None:
        chat = Handle(3, [4, 2], [4, 4])
        load = await followed(Handle(0, [], [100]), ("chat", chat), ("new", Handle(1, [], [])))
        assert load.load() == {"chat": Load(3, 6, 2, 8), "new": Load(1, 0, 0, 0)}
        assert load.ingress_replicas() == 1
        chat._router._asyncio_router._metrics_manager.num_queued_requests = 7
        assert load.load()["chat"].pending == 7

    asyncio.run(check())


def test_several_ingresses_add_up_what_each_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_load, "INTERVAL_SECONDS", 0.01)

    async def check() -> None:
        answers = [{"chat": Routed(3, 6, 2, 8)}, TimeoutError(), {"chat": Routed(1, 2, 1, 4)}]
        load = await followed(Handle(0, [], [100, 100], answers), ("chat", Handle(3, [6], [8])))
        assert load.ingress_replicas() == 2
        assert load.load() == {"chat": Load(pending=4, running=8, replicas=2, capacity=8)}

    asyncio.run(check())


def test_a_router_that_has_heard_nothing() -> None:
    load = combined([{"chat": Routed(0, 0, 0, 0)}])
    assert load == {"chat": Load(0, 0, 0, 0)}
    assert combined([]) == {}


def test_a_place_that_changes_hands_between_two_reports_is_one() -> None:
    reports = [{"chat": Routed(2, 3, 1, 4)}, {"chat": Routed(1, 2, 1, 4)}]
    assert combined(reports) == {"chat": Load(pending=3, running=4, replicas=1, capacity=4)}
