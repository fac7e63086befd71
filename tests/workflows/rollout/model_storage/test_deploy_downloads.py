"""The order in which a service and its model's download are applied, and what becomes of a download that fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from threading import Event as Stop
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster, connect
from rayllm_ctl.cluster.apply.delete import delete_service
from rayllm_ctl.errors import UserError, WaitTimeoutError
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.events import Applied, Checked, Downloading, Event, Noted
from rayllm_ctl.model.observed.model_downloads import DownloadState
from rayllm_ctl.workflows.observe import wait as observing
from rayllm_ctl.workflows.render.types import Rendering
from rayllm_ctl.workflows.rollout.deploy import DeployOptions, deploy
from rayllm_ctl.workflows.rollout.model_storage.apply import needed_first
from tests.cluster import fakekuberay
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakehttp import kubeconfig, serving
from tests.health.storage.manifests import live_claim, new_claim, pod, service, storage_class
from tests.workflows.rollout.model_storage.fakedownloads import DENIED, JOB, LABELS, Downloads, config_map, job

NO_RECORD = DeployOptions(record=False, timeout=300)


@pytest.fixture
def api() -> Iterator[FakeAPI]:
    with serving() as running:
        fakekuberay.operator(running)
        running.put(**storage_class("shared", "example.com/nfs", default=True))
        yield running


@pytest.fixture
def cluster(api: FakeAPI, tmp_path: Path) -> Cluster:
    return connect(str(kubeconfig(tmp_path / "kubeconfig", api.url, token="s3cret-token")), request_timeout=5)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "LOOK_EVERY", 0.05)


def manifests(**more: Any) -> list[dict[str, Any]]:
    """A service whose model a Job downloads into a new claim, in no particular order."""
    claim = new_claim()
    claim["metadata"]["labels"] = LABELS
    running = {**service(pod("models")), **more}
    running["metadata"]["labels"] = LABELS
    return [running, config_map("tiny-other"), job(), config_map(JOB), claim]


def rendering(*items: dict[str, Any]) -> Rendering:
    return Rendering("tiny", "llm", tuple(items or manifests()), (), None)


def run(cluster: Cluster, options: DeployOptions, *items: dict[str, Any], stop: Stop | None = None) -> list[Event]:
    """The events of a deployment that ends once its RayService is applied: nothing makes it Ready."""
    events: list[Event] = []
    for event in deploy([rendering(*items)], options, lambda: cluster, stop):
        events.append(event)  # type: ignore[arg-type]
        if isinstance(event, Applied) and event.kind == "RayService":
            break
    return events


def applied(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.kind, event.action) for event in events if isinstance(event, Applied)]


def test_what_a_job_needs_comes_first() -> None:
    first = [(item["kind"], item["metadata"]["name"]) for item in needed_first(manifests())]
    assert first == [("Job", JOB), ("ConfigMap", JOB), ("PersistentVolumeClaim", "models")]
    assert needed_first([service(pod("models")), new_claim()]) == []


def test_the_service_is_applied_once_its_model_is_complete(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, True)
    events = run(cluster, NO_RECORD)
    assert applied(events) == [
        ("ConfigMap", "created"), ("PersistentVolumeClaim", "created"), ("Job", "created"),
        ("ConfigMap", "created"), ("RayService", "created"),
    ]  # fmt: skip
    kinds = [type(event) for event in events if isinstance(event, Applied | Downloading)]
    assert kinds.index(Downloading) == 3  # between the Job and the rest
    download = next(event.download for event in events if isinstance(event, Downloading))
    assert (download.model, download.state) == ("Qwen/Qwen3-8B", DownloadState.COMPLETE)


def test_progress_is_told_until_a_stop_which_leaves_the_job(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, None)
    stop, seen = Stop(), []
    for event in deploy([rendering()], NO_RECORD, lambda: cluster, stop):
        if isinstance(event, Downloading):
            seen.append(event.download)
            stop.set()
    assert (seen[0].bytes, seen[0].total, seen[0].seconds_left) == (4_100_000_000, 16_400_000_000, 40)
    assert api.stored("Job", JOB)
    with pytest.raises(KeyError):
        api.stored("RayService", "tiny")


def test_without_a_wait_everything_is_applied_at_once(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, None)
    events = run(cluster, dataclasses.replace(NO_RECORD, wait=False))
    assert applied(events)[-1] == ("RayService", "created")
    assert not [event for event in events if isinstance(event, Downloading)]


def test_a_failed_download_ends_the_deployment_with_its_cause(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, DENIED)
    with pytest.raises(UserError) as caught:
        run(cluster, NO_RECORD)
    assert caught.value.message.startswith("DownloadUnauthorized: ")
    assert "403 of huggingface.co" in caught.value.message
    assert caught.value.message.endswith("rayservice/tiny was not applied")
    assert caught.value.hints
    assert not [request for request in api.requests if "rayservices" in request.path and request.method == "PATCH"]


def test_another_deployment_replaces_the_failed_job(api: FakeAPI, cluster: Cluster) -> None:
    runs = Downloads(api, DENIED, True)
    with pytest.raises(UserError):
        run(cluster, NO_RECORD)
    before = api.stored("Job", JOB)["metadata"]["uid"]
    events = run(cluster, NO_RECORD)
    assert runs.ran == 2
    assert api.stored("Job", JOB)["metadata"]["uid"] != before
    assert any(isinstance(event, Noted) and "has failed: it is deleted" in event.message for event in events)
    assert applied(events)[-1] == ("RayService", "created")
    (deletion,) = [request for request in api.requests if request.method == "DELETE"]
    assert deletion.json()["propagationPolicy"] == "Background"


def test_a_complete_job_is_not_run_again(api: FakeAPI, cluster: Cluster) -> None:
    runs = Downloads(api, True)
    run(cluster, NO_RECORD)
    run(cluster, NO_RECORD)
    assert runs.ran == 1


def test_a_complete_job_is_run_again_for_a_newer_claim(api: FakeAPI, cluster: Cluster) -> None:
    runs = Downloads(api, True, ended="2026-11-20T10:00:00Z")
    run(cluster, NO_RECORD)
    run(cluster, NO_RECORD)
    assert runs.ran == 2


def test_a_complete_job_is_run_again_for_a_claim_that_is_gone(api: FakeAPI, cluster: Cluster) -> None:
    runs = Downloads(api, True)
    run(cluster, NO_RECORD)
    api.remove("PersistentVolumeClaim", "models")
    run(cluster, NO_RECORD)
    assert runs.ran == 2


def test_the_time_out_says_how_far_the_download_is(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, None)
    with pytest.raises(UserError) as caught:
        run(cluster, dataclasses.replace(NO_RECORD, timeout=0.2))
    assert caught.value.exit_code == WaitTimeoutError.exit_code
    assert "4.1 of 16.4 GB (25 %)" in caught.value.message
    assert "the download continues" in caught.value.message


def test_a_job_that_is_deleted_ends_the_wait(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, None)
    events = deploy([rendering()], NO_RECORD, lambda: cluster)
    assert any(isinstance(event, Downloading) for event in events)
    api.remove("Job", JOB)
    with pytest.raises(UserError, match="it was deleted during the download"):
        list(events)


def test_nothing_is_applied_where_the_storage_rules_the_service_out(api: FakeAPI, cluster: Cluster) -> None:
    claim = new_claim(class_name="nowhere")
    with pytest.raises(UserError, match="there is no StorageClass nowhere"):
        run(cluster, NO_RECORD, service(pod("models")), job(), config_map(JOB), claim)
    assert not [request for request in api.requests if request.method == "PATCH"]


def test_unknown_support_is_a_warning(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, True)
    told = [event for event in run(cluster, NO_RECORD) if isinstance(event, Checked) and event.name == "storage"]
    assert [(one.ok, one.detail) for one in told] == [
        (
            None,
            "persistentvolumeclaim/models whether StorageClass shared (example.com/nfs) supports ReadWriteMany is "
            "unknown",
        ),
    ]  # fmt: skip


def test_a_claim_keeps_a_size_that_is_larger_than_planned(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, True)
    api.put(**live_claim(size="300Gi"))
    run(cluster, NO_RECORD)
    (patch,) = [
        request for request in api.requests
        if request.method == "PATCH" and request.path.endswith("/persistentvolumeclaims/models")
    ]  # fmt: skip
    assert patch.json()["spec"]["resources"]["requests"]["storage"] == "300Gi"


def test_a_service_is_deleted_without_its_claim(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, True)
    run(cluster, NO_RECORD)
    events = list(delete_service(cluster, RAY_SERVICE, "tiny", "llm", wait=False))
    deleted = {(event.kind, event.name) for event in events if isinstance(event, Applied)}
    assert deleted == {("RayService", "tiny"), ("Job", JOB), ("ConfigMap", JOB), ("ConfigMap", "tiny-other")}
    assert events[-1] == Noted("persistentvolumeclaim/models is kept: kubectl delete pvc models -n llm")
    assert api.stored("PersistentVolumeClaim", "models")


def test_a_job_of_an_earlier_spec_is_pruned_and_its_claim_stays(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, True)
    run(cluster, NO_RECORD)
    own = service(pod(None))
    own["metadata"]["labels"] = LABELS
    events = []
    options = dataclasses.replace(NO_RECORD, wait=False, upgrade=None)
    for event in deploy([rendering(own)], options, lambda: cluster):
        events.append(event)
    gone = [(one.kind, one.name) for one in events if isinstance(one, Applied) and one.action == "deleted"]
    assert gone == [("Job", JOB)]
    assert api.stored("PersistentVolumeClaim", "models")
