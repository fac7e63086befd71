"""The queue: who waits, when load is shed, and the share of each ingress replica."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import pytest

from rayllm_ctl.serving.gateway.queue import Place, SharedQueue
from rayllm_ctl.serving.gateway.settings import QueueSettings
from rayllm_ctl.serving.gateway.steps import Load, QueueFigures, Rejection


class Serve:
    """Replicas that take requests in the order in which they came, and one ingress or several."""

    def __init__(self, capacity: int = 4, ingresses: int = 1) -> None:
        self.now = 0.0
        self.capacity = {"big": capacity, "small": 2}
        self.running: dict[str, int] = {"big": 0, "small": 0}
        self.elsewhere = 0
        self.pending = 0
        self.accepts = True
        """Whether replicas accept what they are sent; if not they say so late."""
        self.ingresses = ingresses

    def load(self) -> Mapping[str, Load]:
        others = {"big": self.elsewhere, "small": 0}
        return {
            model: Load(self.pending if model == "big" else 0, self.running[model] + others[model], 1, capacity)
            for model, capacity in self.capacity.items()
        }

    def ingress_replicas(self) -> int:
        return self.ingresses


def queue(serve: Serve, max_pending: int | None = 3) -> SharedQueue:
    settings = None if max_pending is None else QueueSettings(max_pending)
    return SharedQueue(settings, serve, lambda: serve.now)


async def enter(queue: SharedQueue, serve: Serve, model: str, times: int) -> tuple[list[Place], list[Rejection]]:
    """As many requests at once; those that are let in reach a replica with capacity, in their order, a moment later."""

    async def ask() -> Place | Rejection:
        place = await queue.enter(model)
        if isinstance(place, Place):
            await asyncio.sleep(0.001)
            if serve.running.get(model, 0) + serve.elsewhere < serve.capacity.get(model, 0):
                serve.running[model] += 1
                if serve.accepts:
                    place.taken()
        return place

    asked = await asyncio.gather(*(ask() for _ in range(times)))
    return [x for x in asked if isinstance(x, Place)], [x for x in asked if isinstance(x, Rejection)]


def entered(queue: SharedQueue, serve: Serve, model: str, times: int) -> list[Place]:
    """The places of those that were let in."""
    return asyncio.run(enter(queue, serve, model, times))[0]


def test_a_burst_fills_the_capacity_and_the_queue_and_no_more() -> None:
    serve = Serve()
    shared = queue(serve)
    assert len(entered(shared, serve, "big", 20)) == 4 + 3
    places, rejections = asyncio.run(enter(shared, serve, "big", 1))
    assert not places
    [rejection] = rejections
    assert (rejection.status, rejection.code, rejection.headers) == (503, "queue_full", ((b"retry-after", b"5"),))
    assert len(entered(shared, serve, "small", 20)) == 2, "what waits for another model sheds nobody who need not wait"
    shared.configure(QueueSettings(5))
    assert len(entered(shared, serve, "big", 9)) == 2
    shared.configure(None)
    assert len(entered(shared, serve, "big", 99)) == 99


def test_what_others_use_is_not_free() -> None:
    serve = Serve(capacity=4, ingresses=2)
    assert len(entered(queue(serve, max_pending=5), serve, "big", 20)) == 4 + 2, "half of the queue"
    serve = Serve(capacity=4, ingresses=2)
    serve.elsewhere = 4
    assert len(entered(queue(serve, max_pending=5), serve, "big", 20)) == 2, "all is used elsewhere: only the queue"


def test_who_waits_for_capacity_that_is_not_there_is_rejected_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report of Serve may be out of date: then those before it reach no replica."""
    monkeypatch.setattr("rayllm_ctl.serving.gateway.queue.PATIENCE", 0.01)
    serve = Serve(capacity=4, ingresses=2)
    shared = queue(serve, max_pending=4)
    serve.accepts = False
    assert len(entered(shared, serve, "big", 20)) == 2


def test_who_moves_up_is_not_rejected_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst that takes longer than the patience of each, but of which one after the other reaches a replica."""
    monkeypatch.setattr("rayllm_ctl.serving.gateway.queue.PATIENCE", 0.015)
    monkeypatch.setattr("rayllm_ctl.serving.gateway.queue.LONGEST_WAIT", 60)
    serve = Serve(capacity=40)
    assert len(entered(queue(serve, max_pending=1), serve, "big", 41)) == 41
    monkeypatch.setattr("rayllm_ctl.serving.gateway.queue.LONGEST_WAIT", 0.015)
    serve = Serve(capacity=40)
    assert len(entered(queue(serve, max_pending=1), serve, "big", 41)) < 41, "some waited for long"


def test_a_model_without_replicas_can_start_again() -> None:
    serve = Serve(capacity=0, ingresses=8)
    assert len(entered(queue(serve, max_pending=3), serve, "big", 5)) == 1
    assert len(entered(queue(serve, max_pending=16), serve, "unheard-of", 5)) == 2


def test_the_bound_holds_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """However old the report is, and whatever part of the capacity each ingress has."""
    monkeypatch.setattr("rayllm_ctl.serving.gateway.queue.PATIENCE", 0)
    asyncio.run(_bound_holds())


async def _bound_holds() -> None:
    for seed in range(5):
        chance = random.Random(seed)
        # Each ingress knows its own requests, and of the others' what was reported last.
        views = [Serve(ingresses=2), Serve(ingresses=2)]
        queues = [queue(view, 7) for view in views]
        waiting: list[list[Place]] = [[], []]
        taken: list[list[Place]] = [[], []]
        shed = 0
        for _ in range(3000):
            which = chance.randrange(2)
            action = chance.random()
            if action < 0.6:
                place = await queues[which].enter("big")
                if isinstance(place, Place):
                    waiting[which].append(place)
                else:
                    shed += 1
            elif action < 0.8 and (having := [*waiting[which], *taken[which]]):
                left = chance.choice(having)
                (waiting if left in waiting[which] else taken)[which].remove(left)
                left.leave(completed=True)
            # Replicas take what they can, from whoever has something.
            for side in (which, 1 - which):
                while waiting[side] and sum(map(len, taken)) < 4:
                    waiting[side][0].taken()
                    taken[side].append(waiting[side].pop(0))
            for side, view in enumerate(views):
                # What a router sends to a full replica seems to run until it comes back.
                view.running["big"] = len(taken[side]) + chance.randrange(len(waiting[side]) + 1)
                if chance.random() < 0.05:
                    view.elsewhere = len(taken[1 - side])
            assert sum(map(len, waiting)) <= 7
        assert shed > 100


def test_figures_and_the_time_to_wait() -> None:
    serve = Serve(ingresses=2)
    shared = queue(serve, max_pending=40)

    async def run() -> None:
        assert await shared.figures() == QueueFigures(0, 0, 2, 40, None)
        serve.capacity["big"] = 2
        places, _ = await enter(shared, serve, "big", 9)
        for place in places[:3]:
            serve.now += 2
            place.leave(completed=True)
        places[3].leave(completed=False)
        # The replicas that they had take the next.
        for place in places[4:6]:
            place.taken()
        # 3 ended in 6 s here, as many in the other ingress.
        assert await shared.figures() == QueueFigures(3, 2, 2, 40, 3.0)
        serve.elsewhere = 2
        shared.configure(QueueSettings(2))
        _, [rejection] = await enter(shared, serve, "big", 1)
        assert rejection.headers == ((b"retry-after", b"6"),), "3 that wait here, one every 2 s"
        for place in places[4:]:
            place.leave(completed=False)
        serve.now += 20
        serve.elsewhere = serve.running["big"] = 0
        await enter(shared, serve, "big", 1)
        serve.now += 2
        assert (await shared.figures()).estimated_wait_seconds == pytest.approx(0), "nothing waits"
        serve.pending = 1
        assert (await shared.figures()).estimated_wait_seconds == 1.0, "idle time is not part of the rate"

    asyncio.run(run())
