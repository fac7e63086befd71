"""The Lease against a fake API server, by a clock that a test sets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.api.errors import ApiError, ForbiddenError, NotFoundError, ServerFailingError, UnreachableError
from rayllm_ctl.controller.loop import election
from rayllm_ctl.controller.loop.election import LEASE_NAME, Election, Lease, LeaseTimes
from rayllm_ctl.errors import UserError
from tests.clock import Clock
from tests.cluster.fakeapi import FakeAPI, Request, status

LEASES = f"/leases/{LEASE_NAME}$"
PATIENCE = 30.0
"""Seconds until a test that hangs fails."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


Make = Callable[[str], Lease]


@pytest.fixture
def lease(cluster: Cluster, clock: Clock) -> Make:
    """Makes the Lease as a process of a name sees it; all of them have the same clock."""

    def make(identity: str) -> Lease:
        at = datetime(2026, 11, 29, 10, 0, 0, 5, UTC)
        return Lease(cluster, "llm", identity, LeaseTimes(), clock=clock.monotonic, now=lambda: at)

    return make


def spec(api: FakeAPI) -> dict[str, Any]:
    found: dict[str, Any] = api.stored("Lease", LEASE_NAME)["spec"]
    return found


def test_the_first_one_creates_the_lease_and_holds_it(api: FakeAPI, lease: Make) -> None:
    a = lease("a")
    assert a.remaining == 0
    assert a.attempt()
    at = "2026-11-29T10:00:00.000005Z"
    assert spec(api) == {
        "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0, "acquireTime": at, "renewTime": at,
    }  # fmt: skip
    assert (a.remaining, a.holder) == (10.0, "a")


def test_a_renewal_is_one_request_and_moves_the_deadline(api: FakeAPI, lease: Make, clock: Clock) -> None:
    a = lease("a")
    a.attempt()
    clock.now += 4
    api.requests.clear()
    assert a.attempt()
    assert [(request.method, request.path.rpartition("/")[2]) for request in api.requests] == [("PATCH", LEASE_NAME)]
    assert a.remaining == 10.0


def test_the_deadline_counts_from_before_the_request(api: FakeAPI, lease: Make, clock: Clock) -> None:
    """Others may have seen the renewal when it was made, and not when the answer came."""
    a = lease("a")
    a.attempt()

    def slow(_request: Request) -> None:
        clock.now += 3

    api.answer("PATCH", LEASES, slow)
    assert a.attempt()
    assert a.remaining == 7.0


def test_a_second_one_waits_as_long_as_the_lease_is_renewed(lease: Make, clock: Clock) -> None:
    a, b = lease("a"), lease("b")
    a.attempt()
    for _ in range(20):
        clock.now += 2
        assert a.attempt()
        assert not b.attempt()
    assert (b.remaining, b.holder) == (0, "a")


def test_a_second_one_takes_a_lease_that_was_not_renewed_and_not_before_its_holder_stopped(
    api: FakeAPI, lease: Make, clock: Clock
) -> None:
    a, b = lease("a"), lease("b")
    a.attempt()
    assert not b.attempt()
    clock.now += 14.9
    assert not b.attempt()
    assert a.remaining < 0
    clock.now += 0.1
    assert b.attempt()
    assert (spec(api)["holderIdentity"], spec(api)["leaseTransitions"]) == ("b", 1)


def test_the_time_of_the_holder_is_respected(api: FakeAPI, lease: Make, clock: Clock) -> None:
    api.put(kind="Lease", metadata={"name": LEASE_NAME}, spec={"holderIdentity": "old", "leaseDurationSeconds": 60})
    b = lease("b")
    assert not b.attempt()
    clock.now += 59
    assert not b.attempt()
    clock.now += 1
    assert b.attempt()
    assert spec(api)["leaseTransitions"] == 1


def test_a_lease_counts_from_when_the_answer_came(api: FakeAPI, lease: Make, clock: Clock) -> None:
    """It may have been renewed while the request was on its way."""
    a, b = lease("a"), lease("b")
    a.attempt()

    delays = [9.0]

    def slow(_request: Request) -> None:
        clock.now += delays.pop() if delays else 0

    api.answer("GET", LEASES, slow)
    assert not b.attempt()
    clock.now += 14
    assert not b.attempt()
    clock.now += 1
    assert b.attempt()


def test_of_two_that_take_it_at_once_one_gets_it(api: FakeAPI, lease: Make, clock: Clock) -> None:
    lease("gone").attempt()
    a = lease("a")
    assert not a.attempt()
    clock.now += 15

    def meanwhile(_request: Request) -> None:
        api.put(kind="Lease", metadata={"name": LEASE_NAME}, spec={"holderIdentity": "b", "leaseDurationSeconds": 15})

    api.answer("PATCH", LEASES, meanwhile, times=1)
    assert not a.attempt()
    assert (spec(api)["holderIdentity"], a.remaining) == ("b", 0)
    assert not a.attempt()


def test_of_two_that_create_it_at_once_one_gets_it(api: FakeAPI, lease: Make) -> None:
    a = lease("a")

    def meanwhile(_request: Request) -> None:
        api.put(kind="Lease", metadata={"name": LEASE_NAME}, spec={"holderIdentity": "b", "leaseDurationSeconds": 15})

    api.answer("POST", "/leases$", meanwhile, times=1)
    assert not a.attempt()
    assert (spec(api)["holderIdentity"], a.remaining) == ("b", 0)
    assert not a.attempt()


def test_a_holder_that_sees_another_one_has_lost_it_at_once(api: FakeAPI, lease: Make) -> None:
    a = lease("a")
    a.attempt()
    api.put(kind="Lease", metadata={"name": LEASE_NAME}, spec={**spec(api), "holderIdentity": "thief"})
    assert not a.attempt()  # 409: it has changed
    assert not a.attempt()
    assert (a.remaining, a.holder) == (0, "thief")


def test_an_answer_that_got_lost_does_not_lose_the_lease(api: FakeAPI, lease: Make, clock: Clock) -> None:
    """The renewal was stored, though the holder does not know: it reads what is stored, and renews that."""
    a = lease("a")
    a.attempt()
    api.put(kind="Lease", metadata={"name": LEASE_NAME}, spec={**spec(api), "renewTime": "2026-11-29T10:00:02.000000Z"})
    api.answer("PATCH", LEASES, status(500, "etcdserver: request timed out", "InternalError"), times=1)
    clock.now += 2
    with pytest.raises(ServerFailingError):
        a.attempt()
    assert a.remaining == 8.0
    assert a.attempt()
    assert a.remaining == 10.0


def test_a_lease_that_was_deleted_is_created_again(api: FakeAPI, lease: Make) -> None:
    a = lease("a")
    a.attempt()
    api.remove("Lease", LEASE_NAME)
    with pytest.raises(NotFoundError):
        a.attempt()
    assert a.attempt()
    assert spec(api)["holderIdentity"] == "a"


def test_a_restarted_process_is_another_one(lease: Make, clock: Clock) -> None:
    lease("pod_1").attempt()
    again = lease("pod_2")
    assert not again.attempt()
    clock.now += 15
    assert again.attempt()


def test_a_lease_that_was_given_back_is_taken_at_once(api: FakeAPI, lease: Make) -> None:
    a, b = lease("a"), lease("b")
    a.attempt()
    assert not b.attempt()
    a.release()
    assert (spec(api)["holderIdentity"], spec(api)["leaseDurationSeconds"], a.remaining) == ("", 1, 0)
    assert b.attempt()
    assert spec(api)["leaseDurationSeconds"] == 15


def test_what_is_not_held_is_not_given_back(api: FakeAPI, lease: Make) -> None:
    a, b = lease("a"), lease("b")
    a.attempt()
    b.attempt()
    b.release()
    assert spec(api)["holderIdentity"] == "a"


# The threads: what they call is told by events; a fake Lease has no time of its own.


class FakeLease(Lease):
    """ProbeAnswers with what a test says: True, False or an error for each attempt; the last one for ever."""

    def __init__(self, *answers: bool | UserError, holder: str = "a", remaining: float = 10.0) -> None:
        self.times = LeaseTimes(retry=0.0)
        self.where = "llm/x"
        self.attempts = 0
        self.released = threading.Event()
        self.time_left = remaining
        self._answers = list(answers)
        self._held_by = holder

    @property
    def remaining(self) -> float:
        return self.time_left

    @property
    def holder(self) -> str:
        return self._held_by

    def attempt(self) -> bool:
        self.attempts += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, UserError):
            raise answer
        return answer

    def release(self) -> None:
        self.released.set()


class Told:
    """What an election told."""

    def __init__(self) -> None:
        self.elected, self.lost, self.failed = threading.Event(), threading.Event(), threading.Event()
        self.words: list[str] = []

    def on(self, lease: Lease) -> Election:
        return Election(lease, elected=self.elected.set, lost=self._lost, failed=self._failed)

    def _lost(self, why: str) -> None:
        self.words.append(why)
        self.lost.set()

    def _failed(self, error: UserError) -> None:
        self.words.append(error.message)
        self.failed.set()


UNREACHABLE = UnreachableError("the API server cannot be reached")
FORBIDDEN = ForbiddenError("not permitted to get leases", status=403)


def test_an_election_tries_until_the_lease_is_held() -> None:
    told, lease = Told(), FakeLease(False, UNREACHABLE, False, True)
    running = told.on(lease)
    running.start()
    assert told.elected.wait(PATIENCE)
    assert running.leads()
    running.stop(release=True)
    assert lease.attempts >= 4
    assert lease.released.is_set()
    assert not told.lost.is_set()


def test_a_lease_is_not_given_back_while_something_is_reconciled() -> None:
    told, lease = Told(), FakeLease(True)
    running = told.on(lease)
    running.start()
    assert told.elected.wait(PATIENCE)
    running.stop(release=False)
    assert not lease.released.is_set()


def test_the_deadline_is_watched_while_a_request_hangs() -> None:
    """The request that renews the Lease has no answer; the time that is left runs out."""
    told, hangs, end = Told(), threading.Event(), threading.Event()

    class Hanging(FakeLease):
        def attempt(self) -> bool:
            if self.attempts:
                hangs.set()
                end.wait(PATIENCE)
            return super().attempt()

    lease = Hanging(True, remaining=0.01)
    running = told.on(lease)
    running.start()
    assert hangs.wait(PATIENCE)
    lease.time_left = 0.0
    assert told.lost.wait(PATIENCE)
    assert not running.leads()
    end.set()
    running.stop(release=False)
    assert told.words == ["held by a"]


def test_a_deadline_that_passed_says_what_the_last_try_met() -> None:
    told, lease = Told(), FakeLease(True, UNREACHABLE, remaining=0.01)
    running = told.on(lease)
    running.start()
    assert told.elected.wait(PATIENCE)
    end = time.monotonic() + PATIENCE
    while lease.attempts < 3:
        assert time.monotonic() < end
        time.sleep(0.001)
    lease.time_left = 0.0
    assert told.lost.wait(PATIENCE)
    running.stop(release=False)
    assert told.words == ["the API server cannot be reached"]


def test_another_holder_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()

    class Stolen(FakeLease):
        def attempt(self) -> bool:
            taken = super().attempt()
            if not taken:
                self._held_by, self.time_left = "thief", 0.0
            return taken

    lease = Stolen(True, False, remaining=1000.0)
    running = told.on(lease)
    running.start()
    assert told.lost.wait(PATIENCE)
    running.stop(release=False)
    assert told.words == ["held by thief"]


def test_a_right_that_is_missing_from_the_beginning_is_an_error() -> None:
    told, lease = Told(), FakeLease(UNREACHABLE, FORBIDDEN)
    running = told.on(lease)
    running.start()
    assert told.failed.wait(PATIENCE)
    running.stop(release=False)
    assert told.words[0] == "not permitted to get leases"
    assert not told.elected.is_set()


def test_a_right_that_is_missing_later_may_be_a_server_that_has_just_started() -> None:
    told, lease = Told(), FakeLease(False, FORBIDDEN, True)
    running = told.on(lease)
    running.start()
    assert told.elected.wait(PATIENCE)
    running.stop(release=False)
    assert not told.failed.is_set()


def test_the_namespace_of_the_lease_is_missing(api: FakeAPI, lease: Make) -> None:
    api.answer("POST", "/leases$", status(404, 'namespaces "llm" not found', "NotFound"))
    told = Told()
    running = told.on(lease("a"))
    running.start()
    assert told.failed.wait(PATIENCE)
    running.stop(release=False)
    assert told.words[0] == 'create Lease llm/rayllm-controller: namespaces "llm" not found'


def test_trouble_is_logged_once_while_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    told, lease = Told(), FakeLease(*[UNREACHABLE] * 5, True)
    running = told.on(lease)
    running.start()
    assert told.elected.wait(PATIENCE)
    running.stop(release=False)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == ["cannot read or renew the Lease llm/x: the API server cannot be reached"]


def test_a_lease_that_cannot_be_given_back_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Kept(FakeLease):
        def release(self) -> None:
            raise ApiError("patch Lease llm/x: gone", status=404)

    told, lease = Told(), Kept(True)
    running = told.on(lease)
    running.start()
    assert told.elected.wait(PATIENCE)
    running.stop(release=True)
    assert "cannot give the Lease llm/x back: patch Lease llm/x: gone" in caplog.text


def test_two_requests_fit_into_the_deadline_and_the_deadline_into_the_lease() -> None:
    times = LeaseTimes()
    assert 2 * election.REQUEST_SECONDS < times.deadline < times.lease
