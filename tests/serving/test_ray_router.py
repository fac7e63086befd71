"""Which replica a request was sent to, whether it accepted the request, and that the router sends no more to it."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from rayllm_ctl.serving.ray_router import Call


class RequestRouter:
    """Serve's, with an actor for each replica."""

    def __init__(self, **actors: str) -> None:
        self.curr_replicas = {name: SimpleNamespace(actor_id=actor) for name, actor in actors.items()}
        self.futures: list[Future[None]] = []
        """Of the requests, each of which ends when a replica has accepted it."""

    def on_replica_actor_died(self, name: str) -> None:
        del self.curr_replicas[name]


class Handle:
    """A DeploymentHandle whose responses come from `actor`, or from nobody yet."""

    def __init__(self, router: RequestRouter, actor: str | None, **options: str) -> None:
        self._router = SimpleNamespace(_asyncio_router=SimpleNamespace(request_router=router))
        self._given, self._actor, self._options = router, actor, options

    def options(self, **options: str) -> Handle:
        return Handle(self._given, self._actor, **{**self._options, **options})

    def remote(self, *args: str) -> Any:
        task = SimpleNamespace(actor_id=lambda: self._actor)
        stream = SimpleNamespace(_generator_ref=SimpleNamespace(task_id=lambda: task))
        result = SimpleNamespace(to_object_ref_gen=lambda: stream) if self._actor else None
        self._given.futures.append(future := Future[None]())
        return SimpleNamespace(_replica_result=result, _replica_result_future=future, sent=(args, self._options))


def test_a_request_is_sent_with_its_options() -> None:
    call = Call(Handle(RequestRouter(a="1"), "1"))
    sent = call.options(session_id="s").chat.remote("body").sent
    assert sent == (("body",), {"session_id": "s", "method_name": "chat"})
    assert call.chat.remote("again").sent[0] == ("again",)


def test_the_replica_that_had_the_request_gets_no_more() -> None:
    router = RequestRouter(a="1", b="2")
    call = Call(Handle(router, "2"))
    call.chat.remote("body")
    call.avoid()
    assert set(router.curr_replicas) == {"a"}
    call.avoid()
    assert set(router.curr_replicas) == {"a"}


def test_a_request_that_no_replica_took_excludes_none() -> None:
    router = RequestRouter(a="1")
    not_sent, waits = Call(Handle(router, "1")), Call(Handle(router, None))
    waits.chat.remote("body")
    for call in (not_sent, waits):
        call.avoid()
    assert set(router.curr_replicas) == {"a"}


def test_a_request_is_taken_when_a_replica_has_accepted_it() -> None:
    router, taken = RequestRouter(a="1"), []
    for _ in range(3):
        Call(Handle(router, "1"), lambda: taken.append(True)).chat.remote("body")
    accepted, cancelled, failed = router.futures
    cancelled.cancel()
    failed.set_exception(RuntimeError("no such deployment"))
    assert not taken, "it was sent, and may be turned away"
    accepted.set_result(None)
    assert taken == [True]
