"""Waiting: until Ready, until it is known that it will never be, or until the time is up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, cast

import pytest

from rayllm_ctl.cluster.failures import UnreachableError
from rayllm_ctl.errors import UserError, WaitTimeoutError
from rayllm_ctl.model.events import Noted, Observed, Ready
from rayllm_ctl.model.health import Cause, Health, Snapshot, State
from rayllm_ctl.workflows import wait

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CLUSTER = cast("Cluster", None)


def looks(monkeypatch: pytest.MonkeyPatch, *healths: tuple[float, Health]) -> None:
    """Let `follow` yield these looks and then end, as it does at its time-out."""

    def follow(*_: object, **__: object) -> Iterator[Observed]:
        for elapsed, health in healths:
            yield Observed(health, elapsed)

    monkeypatch.setattr(wait, "follow", follow)


def failing(since_seconds_ago: float | None, terminal: bool = True) -> Health:
    since = None if since_seconds_ago is None else NOW - timedelta(seconds=since_seconds_ago)
    cause = Cause(
        "ImagePullFailed", "pod/x", "no such image none:0", ("event: not found",), ("mend it",), terminal, since
    )
    return Health(State.FAILED, "no image", causes=(cause,), observed_at=NOW)


PROGRESSING = Health(State.PROGRESSING, "starting", observed_at=NOW)
READY = Health(State.READY, "serves", observed_at=NOW)


def test_it_ends_when_the_service_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, (0, PROGRESSING), (5, READY), (6, PROGRESSING))
    events = list(wait.wait_ready(CLUSTER, "qwen", "llm", 60))
    assert [type(event) for event in events] == [Observed, Observed, Ready]
    assert events[-1] == Ready("qwen", "llm", 5, READY)


def test_a_terminal_cause_ends_it_with_reason_evidence_and_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, (0, PROGRESSING), (5, failing(2)), (600, READY))
    with pytest.raises(UserError) as caught:
        list(wait.wait_ready(CLUSTER, "qwen", "llm", 600))
    assert caught.value.exit_code == 1
    for part in ("ImagePullFailed", "no such image none:0", "pod/x", "event: not found"):
        assert part in caught.value.message
    assert caught.value.hints == ("mend it", "rayllm-ctl status qwen -n llm")


def test_a_cause_that_may_pass_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, (0, failing(1, terminal=False)), (30, READY))
    assert isinstance(list(wait.wait_ready(CLUSTER, "qwen", "llm", 60))[-1], Ready)


def test_evidence_from_before_the_wait_is_given_time_to_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, (0, failing(300)), (5, failing(305)), (10, READY))
    assert isinstance(list(wait.wait_ready(CLUSTER, "qwen", "llm", 60))[-1], Ready)
    looks(monkeypatch, (0, failing(300)), (wait.OLD_EVIDENCE_GRACE + 1, failing(316)), (60, READY))
    with pytest.raises(UserError, match="ImagePullFailed"):
        list(wait.wait_ready(CLUSTER, "qwen", "llm", 60))


def test_a_time_out_says_the_last_state_and_its_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, (0, PROGRESSING), (60, failing(1, terminal=False)))
    with pytest.raises(WaitTimeoutError) as caught:
        list(wait.wait_ready(CLUSTER, "qwen", "llm", 60))
    assert caught.value.exit_code == 3
    for part in ("1m00s", "Failed: no image", "pod/x: no such image none:0"):
        assert part in caught.value.message
    assert "rayllm-ctl status qwen -n llm" in caught.value.hints


class Quiet:
    """A watch in which nothing changes."""

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, seconds: float) -> bool:
        return False


class Collector:
    """Collects what the test says, look by look: a Snapshot, or an error to raise."""

    answers: ClassVar[list[Snapshot | Exception]] = []

    def __init__(self, *_: object) -> None:
        pass

    def collect(self) -> Snapshot:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot | Exception]:
    monkeypatch.setattr("rayllm_ctl.cluster.watch.watch", lambda *_, **__: Quiet())
    monkeypatch.setattr("rayllm_ctl.cluster.snapshot.Collector", Collector)
    monkeypatch.setattr(Collector, "answers", [])
    return Collector.answers


def test_an_api_server_that_restarts_does_not_end_a_wait(quiet: list[Snapshot | Exception]) -> None:
    gone = UnreachableError("the API server cannot be reached")
    empty = Snapshot((), NOW)
    quiet += [empty, gone, gone, empty]
    looked = wait.follow(CLUSTER, "qwen", "llm")
    seen = [next(looked) for _ in range(3)]
    assert [type(event) for event in seen] == [Observed, Noted, Observed]
    assert "cannot be reached" in cast("Noted", seen[1]).message


def test_an_api_server_that_stays_away_ends_it(
    quiet: list[Snapshot | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait, "OUTAGE", 0.0)
    quiet += [UnreachableError("gone"), UnreachableError("gone")]
    looked = wait.follow(CLUSTER, "qwen", "llm")
    assert isinstance(next(looked), Noted)
    with pytest.raises(UnreachableError):
        next(looked)
