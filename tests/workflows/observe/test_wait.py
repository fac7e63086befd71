"""Waiting: until Ready, until it is known that it will never be, or until the time is up."""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

from rayllm_ctl.cluster.api.errors import UnreachableError
from rayllm_ctl.errors import ConflictError, UserError, WaitTimeoutError
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.events import Noted, Observed, Ready
from rayllm_ctl.model.observed.health import Cause, Health, Object, Snapshot, State
from rayllm_ctl.model.text.hint import Hint
from rayllm_ctl.workflows.observe import wait
from tests.clock import Clock

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CLUSTER = cast("Cluster", None)


APPLIED: dict[str, Any] = {
    "apiVersion": "ray.io/v1",
    "kind": "RayService",
    "metadata": {"name": "qwen", "namespace": "llm", "uid": "1", "generation": 1},
    "spec": {"rayClusterConfig": {"workerGroupSpecs": [{"groupName": "gpu", "maxReplicas": 2}]}},
}


def looks(monkeypatch: pytest.MonkeyPatch, *healths: tuple[float, Health], live: Object | None = APPLIED) -> None:
    """Let a wait see these healths and then end, as it does at its time-out; `live` is the RayService as it is then."""

    def seen(*_: object, **__: object) -> Iterator[wait.Look]:
        for elapsed, health in healths:
            yield wait.Look(Snapshot((live,) if live else (), NOW), health, elapsed)

    monkeypatch.setattr(wait, "looks_at", seen)


def ready_within(timeout: float) -> list[Observed | Noted | Ready]:
    return list(wait.wait_ready(CLUSTER, RAY_SERVICE, APPLIED, timeout))


def failing(since_seconds_ago: float | None, terminal: bool = True) -> Health:
    since = None if since_seconds_ago is None else NOW - timedelta(seconds=since_seconds_ago)
    cause = Cause(
        "ImagePullFailed",
        "pod/x",
        "no such image none:0",
        ("event: not found",),
        (Hint(remark="mend it"),),
        terminal,
        since,
    )
    return Health(State.FAILED, "no image", causes=(cause,), observed_at=NOW)


PROGRESSING = Health(State.PROGRESSING, "starting", observed_at=NOW)
READY = Health(State.READY, "serves", observed_at=NOW)


def test_it_ends_when_the_service_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, (0, PROGRESSING), (5, READY), (6, PROGRESSING))
    events = ready_within(60)
    assert [type(event) for event in events] == [Observed, Observed, Ready]
    assert events[-1] == Ready("qwen", "llm", 5, READY)


def test_a_terminal_cause_ends_it_with_reason_evidence_and_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, (0, PROGRESSING), (5, failing(2)), (600, READY))
    with pytest.raises(UserError) as caught:
        ready_within(600)
    assert caught.value.exit_code == 1
    for part in ("ImagePullFailed", "no such image none:0", "pod/x", "event: not found"):
        assert part in caught.value.message
    assert caught.value.hints == ("mend it", "rayllm-ctl status qwen -n llm")


def test_a_cause_that_may_pass_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, (0, failing(1, terminal=False)), (30, READY))
    assert isinstance(ready_within(60)[-1], Ready)


def test_evidence_from_before_the_wait_is_given_time_to_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, (0, failing(300)), (5, failing(305)), (10, READY))
    assert isinstance(ready_within(60)[-1], Ready)
    looks(monkeypatch, (0, failing(300)), (wait.OLD_EVIDENCE_GRACE + 1, failing(316)), (60, READY))
    with pytest.raises(UserError, match="ImagePullFailed"):
        ready_within(60)


def test_a_time_out_says_the_last_state_and_its_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, (0, PROGRESSING), (60, failing(1, terminal=False)))
    with pytest.raises(WaitTimeoutError) as caught:
        ready_within(60)
    assert caught.value.exit_code == 3
    for part in ("1m00s", "Failed: no image", "pod/x: no such image none:0"):
        assert part in caught.value.message
    assert "rayllm-ctl status qwen -n llm" in caught.value.hints


def changed(**parts: Any) -> dict[str, Any]:
    """The applied RayService as another client has changed it."""
    return {**copy.deepcopy(APPLIED), **parts}


@pytest.mark.parametrize("live", [None, changed(metadata=APPLIED["metadata"] | {"deletionTimestamp": "now"})])
def test_a_service_that_is_deleted_ends_it_at_once(monkeypatch: pytest.MonkeyPatch, live: Object | None) -> None:
    looks(monkeypatch, (0, PROGRESSING), (5, READY), live=live)
    with pytest.raises(UserError) as caught:
        ready_within(60)
    assert caught.value.message == "rayservice/qwen was deleted while deploy was waiting for it"
    assert caught.value.exit_code == 1


def test_a_service_of_the_same_name_is_not_the_one_that_was_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, (0, READY), live=changed(metadata=APPLIED["metadata"] | {"uid": "2"}))
    with pytest.raises(ConflictError, match="was deleted, and created again by another client"):
        ready_within(60)


def test_a_change_by_somebody_else_is_a_conflict_that_names_the_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [{"groupName": "gpu", "maxReplicas": 4}]
    looks(monkeypatch, (0, READY), live=changed(spec={"rayClusterConfig": {"workerGroupSpecs": groups}}))
    with pytest.raises(ConflictError) as caught:
        ready_within(60)
    assert caught.value.exit_code == 4
    assert "spec.rayClusterConfig.workerGroupSpecs[0].maxReplicas is 4, 2 was applied" in caught.value.message


def test_what_kuberay_writes_back_is_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [{"groupName": "gpu", "maxReplicas": 2, "scaleStrategy": {}}]
    looks(monkeypatch, (0, READY), live=changed(spec={"rayClusterConfig": {"workerGroupSpecs": groups}}))
    assert isinstance(ready_within(60)[-1], Ready)


class Quiet:
    """A watch in which nothing changes. `waited` is called with the seconds that have passed."""

    clock: ClassVar[Clock]
    waited: ClassVar[Callable[[float], None]]

    def __init__(self, *_: object) -> None:
        pass

    def reconnect(self) -> None:
        pass

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, seconds: float) -> bool:
        self.clock.sleep(seconds)
        type(self).waited(seconds)
        return False


class Collector:
    """Collects what the test says, look by look: a Snapshot, or an error to raise."""

    answers: ClassVar[list[Snapshot | Exception]] = []
    kind = RAY_SERVICE

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def refresh(self) -> None:
        return None

    def collect(self, *_: object) -> Snapshot:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of waits, which continues while a watch waits."""
    made = Clock()
    monkeypatch.setattr(wait, "time", made)
    monkeypatch.setattr(Quiet, "clock", made, raising=False)
    monkeypatch.setattr(Quiet, "waited", lambda _: None, raising=False)
    return made


@pytest.fixture
def quiet(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> list[Snapshot | Exception]:
    monkeypatch.setattr(wait, "Watch", Quiet)
    monkeypatch.setattr(wait, "find_service", lambda *_: (RAY_SERVICE, None))
    monkeypatch.setattr(wait, "Collector", Collector)
    monkeypatch.setattr(Collector, "answers", [])
    return Collector.answers


def test_a_stop_ends_a_wait_soon(quiet: list[Snapshot | Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    waits: list[float] = []

    def waited(seconds: float) -> None:
        waits.append(seconds)
        stop.set()

    monkeypatch.setattr(Quiet, "waited", waited)
    quiet += [Snapshot((APPLIED,), NOW)] * 3
    events = list(wait.wait_ready(CLUSTER, RAY_SERVICE, APPLIED, 60, stop=stop))
    assert [type(event) for event in events] == [Observed]
    assert waits == [0.25]


def test_an_api_server_that_restarts_does_not_end_a_wait(quiet: list[Snapshot | Exception]) -> None:
    gone = UnreachableError("the API server cannot be reached")
    empty = Snapshot((), NOW)
    quiet += [empty, gone, gone, empty]
    looked = wait.follow(CLUSTER, "qwen", "llm")
    seen = [next(looked) for _ in range(3)]
    assert [type(event) for event in seen] == [Observed, Noted, Observed]
    assert "cannot be reached" in cast("Noted", seen[1]).message


def test_an_api_server_that_stays_away_ends_it(quiet: list[Snapshot | Exception], clock: Clock) -> None:
    quiet += [UnreachableError("gone")] * 100
    begin = clock.now
    looked = wait.follow(CLUSTER, "qwen", "llm")
    assert isinstance(next(looked), Noted)
    with pytest.raises(UnreachableError):
        next(looked)
    assert wait.OUTAGE < clock.now - begin <= wait.OUTAGE + wait.LOOK_EVERY


class Noisy(Quiet):
    """A watch in which something changes again and again for a while, and then nothing."""

    ends: ClassVar[float] = 0.0

    def wait(self, seconds: float) -> bool:
        return self.clock.now < self.ends or super().wait(seconds)

    def drain(self) -> list[object]:
        return []


@pytest.mark.parametrize(("seconds", "settle", "pause"), [(0.01, 0.05, 0.03), (0.1, 1.0, 0.3), (0.2, 0.1, 0.1)])
def test_a_change_is_looked_at_at_once_and_a_burst_after_pauses(
    seconds: float, settle: float, pause: float, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause is three times what a look takes, up to a limit."""
    monkeypatch.setattr(wait, "Watch", Noisy)
    monkeypatch.setattr(wait, "SETTLE", settle)
    monkeypatch.setattr(Noisy, "ends", clock.now + 1.2)
    looked: list[float] = []

    def look(*_: object) -> None:
        looked.append(clock.now)
        clock.sleep(seconds)

    for _ in wait.repeat(CLUSTER, "llm", look, 2, None):
        pass
    first, *burst = looked[:-1]  # the last one is at the end of the time
    assert burst[0] - first == pytest.approx(seconds)
    gaps = [after - before for before, after in itertools.pairwise(burst)]
    assert len(gaps) >= 2
    assert gaps == pytest.approx([seconds + pause] * len(gaps))
