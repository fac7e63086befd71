"""The process with fakes of the watches and the reconciler, and a Lease in a fake API server."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.api.errors import ServerFailingError, UnreachableError
from rayllm_ctl.controller.loop import probes, run
from rayllm_ctl.controller.loop.election import LEASE_NAME, REQUEST_SECONDS, LeaseTimes
from rayllm_ctl.controller.loop.run import ControllerOptions, Process, run_controller
from rayllm_ctl.controller.types import Key, Parts, Reconciler, Scope, Watched
from rayllm_ctl.errors import ClusterError
from tests.cluster.fakeapi import FakeAPI, status

KEY = Key("LLMService", "llm", "qwen")
ITEM = {"kind": "LLMService", "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Serving"}]}}
PATIENCE = 30.0
"""Seconds until a test that hangs fails."""


class FakeWatches:
    """Watches that tell of a change where the test does."""

    def __init__(self) -> None:
        self.changed: Callable[[Key], None] = lambda _key: None
        self.scope: Scope | None = None
        self.synced = True
        self.trouble: str | None = None
        self.failure: Exception | None = None
        self.fail = threading.Event()
        self.refusals: list[Exception] = []
        self.started, self.closed = threading.Event(), threading.Event()

    def start(self) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.started.set()

    def pump(self, stop: threading.Event) -> None:
        if self.failure is not None:
            assert self.fail.wait(PATIENCE)
            raise self.failure
        stop.wait(PATIENCE)

    def close(self) -> None:
        self.closed.set()

    def keys(self) -> Sequence[Key]:
        return [KEY, Key("LLMService", "llm", "just-deleted")]

    def get(self, key: Key) -> Mapping[str, Any] | None:
        return ITEM if key == KEY else None


class FakeReconciler:
    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.called, self.go = threading.Event(), threading.Event()
        self.go.set()

    def reconcile(self, key: Key) -> float | None:
        self.keys.append(key)
        self.called.set()
        assert self.go.wait(PATIENCE)
        return None


class Running:
    """A process in a thread."""

    def __init__(self, cluster: Cluster, watches: FakeWatches, reconciler: FakeReconciler, elects: bool) -> None:
        self.watches, self.reconciler = watches, reconciler
        self.error: Exception | None = None
        self.died: list[str] = []
        self.death = threading.Event()

        def die(why: str) -> None:
            self.died.append(why)
            self.death.set()

        options = ControllerOptions(
            Scope(("llm",)), 2, ("127.0.0.1", 0), "llm" if elects else None, LeaseTimes(retry=0.001)
        )
        self.process = Process(options, cluster, cluster, parts(watches, reconciler), die)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert watches.started.wait(PATIENCE)

    def end(self, why: str | Exception = "SIGTERM") -> None:
        self.process.ending.put(why)
        self.join()

    def join(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.process.run()
        except Exception as error:
            self.error = error


def parts(watches: FakeWatches, reconciler: FakeReconciler) -> Parts:
    def make(_cluster: Cluster, scope: Scope, changed: Callable[[Key], None]) -> tuple[Watched, Reconciler]:
        watches.changed, watches.scope = changed, scope
        return watches, reconciler

    return make


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(run, "BEGIN_SECONDS", 0.001)
    monkeypatch.setattr(run, "REACH_SECONDS", 0.001)
    monkeypatch.setattr(probes, "CLOSE_SECONDS", 0.001)
    caplog.set_level(logging.INFO, logger="rayllm_ctl.controller")


@pytest.fixture
def watches() -> FakeWatches:
    return FakeWatches()


@pytest.fixture
def reconciler() -> FakeReconciler:
    return FakeReconciler()


Start = Callable[..., Running]


@pytest.fixture
def start(cluster: Cluster, watches: FakeWatches, reconciler: FakeReconciler) -> Iterator[Start]:
    begun: list[Running] = []

    def begin(elects: bool = False) -> Running:
        begun.append(Running(cluster, watches, reconciler, elects))
        return begun[-1]

    yield begin
    reconciler.go.set()
    for running in begun:
        running.process.ending.put("SIGTERM")
        running.join()


def until(holds: Callable[[], bool]) -> None:
    """Wait for what no event tells."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def port(caplog: pytest.LogCaptureFixture) -> int:
    """Where the process listens, from its log."""
    lines = [record for record in caplog.records if record.getMessage().startswith("probes and metrics on port")]
    (number,) = lines[-1].args  # type: ignore[misc]
    assert isinstance(number, int)
    return number


def page(caplog: pytest.LogCaptureFixture, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port(caplog)}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_change_is_reconciled(start: Start) -> None:
    running = start()
    running.watches.changed(KEY)
    assert running.reconciler.called.wait(PATIENCE)
    running.end()
    assert (running.reconciler.keys, running.error, running.watches.scope) == ([KEY], None, Scope(("llm",)))
    assert running.watches.closed.is_set()


def test_nothing_is_reconciled_before_everything_was_listed(
    start: Start, watches: FakeWatches, caplog: pytest.LogCaptureFixture
) -> None:
    watches.synced, watches.trouble = False, "the API server cannot be reached"
    running = start()
    running.watches.changed(KEY)
    assert page(caplog, "/readyz") == (503, "not everything was listed yet: the API server cannot be reached\n")
    assert page(caplog, "/healthz") == (200, "ok\n")
    assert not running.reconciler.called.wait(0.05)
    watches.synced = True
    assert running.reconciler.called.wait(PATIENCE)
    assert page(caplog, "/readyz") == (200, "ok\n")


def test_metrics_show_what_is_and_what_was(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    running = start()
    running.watches.changed(KEY)
    assert running.reconciler.called.wait(PATIENCE)
    code, text = page(caplog, "/metrics")
    assert code == 200
    assert "rayllm_controller_leader 1.0" in text
    assert 'rayllm_controller_objects{kind="LLMService",ready="True",reason="Serving"} 1.0' in text
    assert "rayllm_controller_queue_depth 0.0" in text


def test_an_api_server_that_is_starting_is_waited_for(
    start: Start, watches: FakeWatches, caplog: pytest.LogCaptureFixture
) -> None:
    watches.refusals = [UnreachableError("connection refused"), ServerFailingError("etcd is starting", status=503)]
    running = start()
    running.watches.changed(KEY)
    assert running.reconciler.called.wait(PATIENCE)
    running.end()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert (warnings, running.error) == (["connection refused", "etcd is starting"], None)


def test_a_watch_that_ended_ends_the_process(start: Start, watches: FakeWatches) -> None:
    watches.failure = ClusterError("not permitted to list llmservices.rayllm.io")
    running = start()
    watches.fail.set()
    running.join()
    assert running.error is watches.failure
    assert watches.closed.is_set()


def test_one_of_two_reconciles_and_the_other_takes_over_when_it_ends(
    api: FakeAPI, cluster: Cluster, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    first = start(elects=True)
    first.watches.changed(KEY)
    assert first.reconciler.called.wait(PATIENCE)
    holder = api.stored("Lease", LEASE_NAME)["spec"]["holderIdentity"]
    second = Running(cluster, FakeWatches(), FakeReconciler(), elects=True)
    second.watches.changed(KEY)
    until(lambda: f"is held by {holder}: waiting" in caplog.text)
    assert page(caplog, "/readyz")[0] == 200  # or a Deployment would wait for the old one to end
    assert "rayllm_controller_leader 0.0" in page(caplog, "/metrics")[1]
    assert not second.reconciler.called.is_set()
    first.end()
    assert second.reconciler.called.wait(PATIENCE)
    assert api.stored("Lease", LEASE_NAME)["spec"]["holderIdentity"] not in ("", holder)
    second.end()
    assert api.stored("Lease", LEASE_NAME)["spec"]["holderIdentity"] == ""
    assert (first.died, second.died) == ([], [])


def test_a_lease_that_another_one_took_ends_the_process_at_once(api: FakeAPI, start: Start) -> None:
    running = start(elects=True)
    running.watches.changed(KEY)
    assert running.reconciler.called.wait(PATIENCE)
    api.put(kind="Lease", metadata={"name": LEASE_NAME}, spec={"holderIdentity": "thief", "leaseDurationSeconds": 15})
    assert running.death.wait(PATIENCE)
    assert running.died == ["held by thief"]
    running.reconciler.called.clear()
    running.watches.changed(KEY)
    assert not running.reconciler.called.wait(0.05)


def test_a_lease_that_may_not_be_read_ends_the_process(api: FakeAPI, start: Start) -> None:
    message = 'leases.coordination.k8s.io is forbidden: User "x" cannot get resource "leases" in API group "coordination.k8s.io" in the namespace "llm"'  # noqa: E501
    api.answer("GET", "/leases/", status(403, message, "Forbidden"))
    running = start(elects=True)
    running.join()
    assert str(running.error) == 'user "x" is not permitted to get leases.coordination.k8s.io in namespace llm'
    assert running.reconciler.keys == []


def test_what_runs_is_finished_before_the_lease_is_given_back(api: FakeAPI, start: Start) -> None:
    running = start(elects=True)
    running.reconciler.go.clear()
    running.watches.changed(KEY)
    assert running.reconciler.called.wait(PATIENCE)
    running.process.ending.put("SIGTERM")
    until(lambda: running.process._workers._stopping)
    assert api.stored("Lease", LEASE_NAME)["spec"]["holderIdentity"] != ""
    running.reconciler.go.set()
    running.join()
    assert api.stored("Lease", LEASE_NAME)["spec"]["holderIdentity"] == ""


def test_what_does_not_end_is_named_and_keeps_the_lease(
    api: FakeAPI, start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run, "FINISH_SECONDS", 0.0)
    running = start(elects=True)
    running.reconciler.go.clear()
    running.watches.changed(KEY)
    assert running.reconciler.called.wait(PATIENCE)
    running.end()
    assert "llmservice/llm/qwen is still being reconciled: it is interrupted" in caplog.text
    assert api.stored("Lease", LEASE_NAME)["spec"]["holderIdentity"] != ""


# run_controller is of the main thread: a signal ends it.


def options() -> ControllerOptions:
    return ControllerOptions(Scope(()), 1, ("127.0.0.1", 0), None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_code_0(
    number: signal.Signals, cluster: Cluster, watches: FakeWatches, reconciler: FakeReconciler,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    before = signal.getsignal(number)

    def end() -> None:
        assert reconciler.called.wait(PATIENCE)
        os.kill(os.getpid(), number)

    def make(of: Cluster, scope: Scope, changed: Callable[[Key], None]) -> tuple[Watched, Reconciler]:
        changed(KEY)
        threading.Thread(target=end, daemon=True).start()
        return parts(watches, reconciler)(of, scope, changed)

    assert run_controller(options(), lambda _seconds: cluster, make) == 0
    assert f"{number.name}: ending" in caplog.text
    assert signal.getsignal(number) == before


def test_an_error_is_a_line_of_the_log_and_an_exit_code(
    cluster: Cluster, watches: FakeWatches, reconciler: FakeReconciler, caplog: pytest.LogCaptureFixture
) -> None:
    watches.failure = ClusterError("not permitted to list pods", hint="kubectl auth can-i list pods")
    watches.fail.set()
    assert run_controller(options(), lambda _seconds: cluster, parts(watches, reconciler)) == 5
    assert "not permitted to list pods; hint: kubectl auth can-i list pods" in caplog.text


def test_a_defect_is_a_line_of_the_log_without_its_values(
    cluster: Cluster, watches: FakeWatches, reconciler: FakeReconciler, caplog: pytest.LogCaptureFixture
) -> None:
    watches.failure = ValueError("hf_token")
    watches.fail.set()
    assert run_controller(options(), lambda _seconds: cluster, parts(watches, reconciler)) == 1
    assert "internal error: ValueError in test_run.py:" in caplog.text
    assert "hf_token" not in caplog.text


def test_the_election_has_a_connection_of_its_own_with_a_short_time_limit(
    cluster: Cluster, watches: FakeWatches, reconciler: FakeReconciler
) -> None:
    watches.failure = ClusterError("end")
    watches.fail.set()
    limits: list[float | None] = []

    def connect(seconds: float | None) -> Cluster:
        limits.append(seconds)
        return cluster

    run_controller(options(), connect, parts(watches, reconciler))
    assert limits == [None, REQUEST_SECONDS]


def test_a_lost_lease_ends_the_process_without_cleaning_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    run._die("no answer within the time limit")
    assert codes == [1]
    assert caplog.records[-1].getMessage() == (
        "the Lease could not be renewed in time (no answer within the time limit): "
        "ending at once, as another controller may take it"
    )
