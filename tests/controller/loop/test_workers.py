from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from rayllm_ctl.controller.loop.queue import Backoff, KeyQueue
from rayllm_ctl.controller.loop.workers import Workers
from rayllm_ctl.controller.types import Key
from rayllm_ctl.errors import UserError

A, B = (Key("LLMService", "llm", name) for name in "ab")
PATIENCE = 30.0
"""Seconds until a test that hangs fails."""


class Reconciling:
    """A reconciler that does what a test says, and tells what was asked of it."""

    def __init__(self, act: Callable[[Key], float | None] = lambda _key: None) -> None:
        self.keys: list[Key] = []
        self._act = act

    def reconcile(self, key: Key) -> float | None:
        self.keys.append(key)
        return self._act(key)


class Ended:
    def __init__(self) -> None:
        self.results: list[str] = []

    def __call__(self, result: str, seconds: float) -> None:
        assert seconds >= 0
        self.results.append(result)


def workers(queue: KeyQueue | None = None, count: int = 1, ended: Ended | None = None, **kwargs: object) -> Workers:
    permitted: Callable[[], bool] = kwargs.get("permitted", lambda: True)  # type: ignore[assignment]
    return Workers(queue or KeyQueue(), count, permitted=permitted, ended=ended or Ended(), clock=lambda: 100.0)


def fail(error: Exception) -> Callable[[Key], float | None]:
    def act(_key: Key) -> float | None:
        raise error

    return act


def test_a_step_reconciles_a_key_and_makes_it_due_again_when_it_says() -> None:
    queue, ended, reconciler = KeyQueue(), Ended(), Reconciling(lambda _key: 60.0)
    pool = workers(queue, ended=ended)
    pool.mark(A)
    assert pool.depth == 1
    assert pool.step(reconciler)
    assert (reconciler.keys, ended.results, queue.running, queue.wait(100.0)) == ([A], ["success"], (), 60.0)
    assert pool.depth == 0


def test_an_error_for_users_is_logged_with_its_hint_and_the_key_waits(caplog: pytest.LogCaptureFixture) -> None:
    queue, ended = KeyQueue(jitter=lambda: 0.0), Ended()
    pool = workers(queue, ended=ended)
    pool.mark(A)
    assert pool.step(Reconciling(fail(UserError("the quota is exceeded", hint="kubectl get quota"))))
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage() == "the quota is exceeded; hint: kubectl get quota; next try in 0.5 s"
    assert vars(record)["key"] == "llmservice/llm/a"
    assert (ended.results, pool.failing, queue.wait(100.0)) == (["error"], 1, 0.5)


def test_of_another_exception_the_place_is_logged_and_not_the_text(caplog: pytest.LogCaptureFixture) -> None:
    pool = workers()
    pool.mark(A)
    assert pool.step(Reconciling(fail(ValueError("hf_secret-token"))))
    text = caplog.records[0].getMessage()
    assert "internal error: ValueError in test_workers.py:" in text
    assert "hf_secret" not in caplog.text


def test_a_thread_that_may_not_reconcile_ends_and_leaves_the_key() -> None:
    permitted, reconciler = [False], Reconciling()
    pool = workers(permitted=lambda: permitted[0])
    pool.mark(A)
    assert not pool.step(reconciler)
    assert (reconciler.keys, pool.depth) == ([], 1)
    permitted[0] = True
    assert pool.step(reconciler)
    assert reconciler.keys == [A]


def test_a_stop_takes_no_more_keys_and_waits_for_those_that_run() -> None:
    begun, go = threading.Event(), threading.Event()

    def act(_key: Key) -> None:
        begun.set()
        assert go.wait(PATIENCE)

    reconciler = Reconciling(act)
    pool = Workers(KeyQueue(), 1, permitted=lambda: True, ended=Ended())
    pool.start(reconciler)
    pool.mark(A)
    assert begun.wait(PATIENCE)
    pool.mark(B)
    assert pool.stop(0.0) == (A,)
    go.set()
    assert pool.stop(PATIENCE) == ()
    assert (reconciler.keys, pool.depth) == ([A], 1)


def test_keys_run_beside_one_another_and_a_key_not_beside_itself() -> None:
    both, running, most = threading.Barrier(2), set[Key](), list[int]()

    def act(key: Key) -> None:
        assert key not in running
        running.add(key)
        both.wait(PATIENCE)  # which only another key in another thread can meet
        most.append(len(running))
        running.discard(key)

    reconciler, ended, enough = Reconciling(act), Ended(), threading.Event()

    def count(result: str, seconds: float) -> None:
        ended(result, seconds)
        if len(ended.results) == 2:
            enough.set()

    pool = Workers(KeyQueue(), 3, permitted=lambda: True, ended=count)
    for key in (A, B, A, B):
        pool.mark(key)
    pool.start(reconciler)
    assert enough.wait(PATIENCE)
    assert pool.alive
    assert pool.stop(PATIENCE) == ()
    assert (sorted(key.name for key in reconciler.keys), ended.results) == (["a", "b"], ["success", "success"])
    assert max(most) == 2


def test_a_waiting_thread_is_woken_by_a_mark() -> None:
    done = threading.Event()
    pool = Workers(KeyQueue(), 1, permitted=lambda: True, ended=lambda _result, _seconds: done.set())
    pool.start(Reconciling())
    pool.mark(A)
    assert done.wait(PATIENCE)
    pool.stop(PATIENCE)


def test_a_waiting_thread_is_woken_by_a_delay() -> None:
    done, times = threading.Event(), list[int]()

    def act(_key: Key) -> float | None:
        times.append(1)
        if len(times) == 2:
            done.set()
        return 0.01

    pool = Workers(KeyQueue(Backoff()), 1, permitted=lambda: True, ended=Ended())
    pool.start(Reconciling(act))
    pool.mark(A)
    assert done.wait(PATIENCE)
    pool.stop(PATIENCE)


class Vicious(BaseException):
    """What no code may catch."""


def test_a_thread_that_ended_by_itself_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _arguments: ended.set())

    def act(_key: Key) -> float | None:
        raise Vicious

    pool = Workers(KeyQueue(), 1, permitted=lambda: True, ended=Ended())
    assert pool.alive
    pool.start(Reconciling(act))
    pool.mark(A)
    assert ended.wait(PATIENCE)
    for thread in pool._threads:
        thread.join(PATIENCE)
    assert not pool.alive


@pytest.fixture(autouse=True)
def level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="rayllm_ctl.controller")
