"""Waiting for a batch job: until it ends, is gone, can never run, or the time is up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster, connect
from rayllm_ctl.errors import NO_ANSWER, TIMED_OUT, ConflictError, UserError, WaitTimeoutError
from rayllm_ctl.model.batch_events import BatchEnded, BatchEvent, BatchObserved
from rayllm_ctl.model.observed.batch_status import JobOutcome
from rayllm_ctl.workflows.batch import wait as batchwait
from rayllm_ctl.workflows.observe import wait
from tests.cluster import fakejobs
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakehttp import kubeconfig, serving
from tests.cluster.fakejobs import NAME, PROGRESS, RESULT


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAPI]:
    monkeypatch.setattr(wait, "SETTLE", 0.0)
    monkeypatch.setattr(wait, "LOOK_EVERY", 0.05)
    with serving() as running:
        fakejobs.running(running)
        yield running


@pytest.fixture
def cluster(api: FakeAPI, tmp_path: Any) -> Cluster:
    return connect(str(kubeconfig(tmp_path / "kubeconfig", api.url, token="t")), request_timeout=5)


def events(cluster: Cluster, timeout: float = 10, **options: Any) -> Iterator[BatchEvent]:
    return batchwait.wait_for_job(cluster, NAME, "llm", timeout, **options)


def test_it_ends_with_the_driver_s_result(cluster: Cluster, api: FakeAPI) -> None:
    seen = events(cluster)
    first = next(seen)
    assert isinstance(first, BatchObserved)
    assert first.health.progress is not None
    fakejobs.says(api, PROGRESS, RESULT)
    *_, last = seen
    assert isinstance(last, BatchEnded)
    assert (last.outcome, last.name, last.namespace) == (JobOutcome.ANSWERED, NAME, "llm")


def test_a_time_out_leaves_the_job_alone(cluster: Cluster, api: FakeAPI) -> None:
    with pytest.raises(WaitTimeoutError) as caught:
        list(events(cluster, timeout=0.001))
    assert caught.value.exit_code == TIMED_OUT
    assert "it is Running: answering rows on 1 worker" in caught.value.message
    assert api.names("RayJob") == [NAME]


def test_a_job_that_is_deleted_ends_it(cluster: Cluster, api: FakeAPI) -> None:
    seen = events(cluster)
    next(seen)
    api.remove("RayJob", NAME)
    with pytest.raises(UserError, match="was deleted before it ended") as caught:
        list(seen)
    assert caught.value.exit_code == NO_ANSWER


def test_a_job_of_the_same_name_is_another_one(cluster: Cluster) -> None:
    with pytest.raises(ConflictError, match="created again by another client"):
        list(events(cluster, uid="another"))


def test_a_cause_that_cannot_pass_ends_it_only_before_the_first_row(
    cluster: Cluster, api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait, "OLD_EVIDENCE_GRACE", 0.0)
    worker = api.stored("Pod", f"{fakejobs.CLUSTER}-worker")
    waiting = {"waiting": {"reason": "InvalidImageName", "message": "couldn't parse image name"}}
    box = {"name": "ray-worker", "ready": False, "restartCount": 0, "state": waiting}
    api.put(**{**worker, "status": {"phase": "Pending", "containerStatuses": [box]}})
    seen = events(cluster)
    assert isinstance(next(seen), BatchObserved)
    fakejobs.says(api, {"event": "progress", "phase": "starting", "rows": 2000})
    with pytest.raises(UserError, match="ImagePullFailed") as caught:
        list(seen)
    assert caught.value.exit_code == NO_ANSWER
    assert f"rayllm-ctl batch cancel {NAME} -n llm" in caught.value.hints


def test_a_stop_from_another_thread_ends_it(cluster: Cluster) -> None:
    stop = threading.Event()
    seen = events(cluster, stop=stop)
    next(seen)
    stop.set()
    assert not any(isinstance(event, BatchEnded) for event in seen)


def test_every_outcome_has_an_exit_code_of_its_own() -> None:
    assert sorted(batchwait.EXIT_CODE) == sorted(JobOutcome)
    assert len({*batchwait.EXIT_CODE.values(), TIMED_OUT}) == len(JobOutcome) + 1
