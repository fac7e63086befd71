"""What is collected of the Jobs that download a service's models, and at which price."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.snapshot.job import JobCollector
from rayllm_ctl.cluster.snapshot.log_sources import download_log_pods
from rayllm_ctl.cluster.snapshot.overview import collect_all
from rayllm_ctl.cluster.snapshot.service import Collector, collect
from rayllm_ctl.health import diagnose, diagnose_job
from rayllm_ctl.kinds import RAY_SERVICE, WORKLOADS
from rayllm_ctl.model.observed.batch_status import JobState
from rayllm_ctl.model.observed.health import State
from tests.cluster.fakeapi import FakeAPI, status

GOLDEN = Path(__file__).parents[2] / "render" / "golden"
JOB = "tiny-model-0a1b2c3d"
LABELS = {"app.kubernetes.io/component": "model-download", "app.kubernetes.io/instance": "tiny"}
LINE = (
    '2099-01-01T12:00:00.5Z rayllm-model {"event": "progress", "phase": "fetching", "bytes": 5, "total": 9, "of": 1}\n'
)
WAITS = {"headGroupSpec": {"template": {"spec": {"initContainers": [{"name": "wait-for-model"}]}}}}


def download_pod(api: FakeAPI, name: str, created: str, phase: str = "Running", owner: str = "tiny") -> None:
    labels = {
        "app.kubernetes.io/component": "model-download", "rayllm.io/service": owner,
        "batch.kubernetes.io/job-name": f"{owner}-model-0a1b2c3d",
    }  # fmt: skip
    state: dict[str, Any] = {"running": {"startedAt": created}}
    api.put(
        kind="Pod",
        metadata={"name": name, "labels": labels, "creationTimestamp": created},
        spec={
            "nodeName": "n1",
            "containers": [{"name": "download"}],
            "volumes": [{"name": "m", "persistentVolumeClaim": {"claimName": "models"}}],
        },
        status={"phase": phase, "containerStatuses": [{"name": "download", "state": state}]},
    )


@pytest.fixture
def downloading(api: FakeAPI) -> FakeAPI:
    """A service tiny whose pods wait for a model, beside one that has none."""
    api.put(kind="RayService", metadata={"name": "tiny", "creationTimestamp": "2026-03-01T11:59:00Z"},
            spec={"rayClusterConfig": WAITS}, status={"observedGeneration": 1})  # fmt: skip
    api.put(kind="RayService", metadata={"name": "plain"}, spec={"rayClusterConfig": {}})
    source = {"rayllm.io/model-source": "hf://Qwen/Qwen3-8B"}
    api.put(kind="Job", metadata={"name": JOB, "labels": LABELS, "annotations": source}, spec={"backoffLimit": 6})
    other = LABELS | {"app.kubernetes.io/instance": "other"}
    api.put(kind="Job", metadata={"name": "other-model-0a1b2c3d", "labels": other})
    download_pod(api, f"{JOB}-aaaaa", "2026-03-01T11:59:10Z", "Failed")
    download_pod(api, f"{JOB}-bbbbb", "2026-03-01T11:59:40Z")
    download_pod(api, "other-model-0a1b2c3d-aaaaa", "2026-03-01T11:59:40Z", owner="other")
    api.put(kind="PersistentVolumeClaim", metadata={"name": "models"})
    for about in (JOB, f"{JOB}-gone1", "other-model-0a1b2c3d"):
        api.put(kind="Event", metadata={"name": f"e-{about}"}, involvedObject={"kind": "Pod", "name": about})
    api.answer("GET", f"pods/{JOB}-bbbbb/log", (200, LINE.encode()))
    return api


def names(objects: Any, kind: str) -> list[str]:
    return sorted(item["metadata"]["name"] for item in objects if item["kind"] == kind)


def test_the_job_with_its_pods_log_claim_and_events(downloading: FakeAPI, cluster: Cluster) -> None:
    found = collect(cluster, RAY_SERVICE, "tiny", "llm")
    assert names(found.objects, "Job") == [JOB]
    assert names(found.objects, "Pod") == [f"{JOB}-aaaaa", f"{JOB}-bbbbb"]
    assert names(found.objects, "PersistentVolumeClaim") == ["models"]
    assert names(found.objects, "Event") == [f"e-{JOB}", f"e-{JOB}-gone1"]
    assert found.logs == {f"{JOB}-bbbbb/download.log": LINE}
    log = next(one for one in downloading.requests if one.path.endswith("/log"))
    assert log.query["timestamps"] == "true"
    health = diagnose(found, "tiny", "llm")
    assert health.state is State.PROGRESSING
    assert health.downloads is not None
    assert [(one.model, one.bytes, one.total, one.attempt) for one in health.downloads] == [("Qwen/Qwen3-8B", 5, 9, 2)]


def test_who_follows_a_service_asks_for_the_events_of_its_job(downloading: FakeAPI, cluster: Cluster) -> None:
    found = Collector(cluster, RAY_SERVICE, "tiny", "llm", following=True).collect()
    assert f"e-{JOB}" in names(found.objects, "Event")


def test_a_service_without_model_storage_costs_no_request_more(downloading: FakeAPI, cluster: Cluster) -> None:
    collect(cluster, RAY_SERVICE, "plain", "llm")
    assert downloading.count("GET", "/jobs") == 0
    assert not [one for one in downloading.requests if "model-download" in one.query.get("labelSelector", "")]


def test_a_complete_download_costs_two_lists_and_no_log(downloading: FakeAPI, cluster: Cluster) -> None:
    for pod in (f"{JOB}-aaaaa", f"{JOB}-bbbbb"):
        download_pod(downloading, pod, "2026-03-01T11:59:40Z", "Succeeded")
    collect(cluster, RAY_SERVICE, "tiny", "llm")
    asked = [one for one in downloading.requests if "model-download" in one.query.get("labelSelector", "")]
    assert sorted(one.path.rpartition("/")[2] for one in asked) == ["jobs", "pods"]
    assert not [one for one in downloading.requests if one.path.endswith("/log")]


def test_what_may_not_be_read_is_noted_and_the_service_is_not_called_ready(
    downloading: FakeAPI, cluster: Cluster
) -> None:
    refusal = 'User "a" cannot list resource "jobs" in API group "batch" in the namespace "llm"'
    downloading.answer("GET", "/jobs$", status(403, "Forbidden", refusal))
    found = collect(cluster, RAY_SERVICE, "tiny", "llm")
    assert "Job" in found.unread
    health = diagnose(found, "tiny", "llm")
    assert any("jobs" in note for note in health.notes)
    assert health.state is State.PROGRESSING


def test_a_list_of_services_has_their_downloads(downloading: FakeAPI, cluster: Cluster) -> None:
    found = {name: snapshot for _, name, _, snapshot in collect_all(cluster, tuple(WORKLOADS.values()), "llm")}
    assert names(found["tiny"].objects, "Job") == [JOB]
    assert names(found["plain"].objects, "Job") == []
    assert "downloading Qwen/Qwen3-8B" in diagnose(found["tiny"], "tiny", "llm").message
    assert downloading.count("GET", "/jobs") == 1


def test_a_list_of_services_without_model_storage_asks_for_no_jobs(api: FakeAPI, cluster: Cluster) -> None:
    api.put(kind="RayService", metadata={"name": "plain"}, spec={"rayClusterConfig": {}})
    collect_all(cluster, tuple(WORKLOADS.values()), "llm")
    assert api.count("GET", "/jobs") == 0


def test_a_download_before_its_service_is_collected_with_its_log(downloading: FakeAPI, cluster: Cluster) -> None:
    """`deploy` and the controller apply the service when its model is there."""
    downloading.remove("RayService", "tiny")
    found = collect(cluster, RAY_SERVICE, "tiny", "llm")
    assert names(found.objects, "Job") == [JOB]
    assert f"{JOB}-bbbbb/download.log" in found.logs
    health = diagnose(found, "tiny", "llm")
    assert (health.state, health.message) == (State.PROGRESSING, "downloading Qwen/Qwen3-8B")


def test_a_download_before_its_batch_job_is_collected_with_its_log(downloading: FakeAPI, cluster: Cluster) -> None:
    for kind, name in (("Job", JOB), ("Pod", f"{JOB}-bbbbb")):
        item = downloading.stored(kind, name)
        labels = item["metadata"]["labels"] | {"rayllm.io/batch": "tiny"}
        downloading.put(**{**item, "metadata": {**item["metadata"], "labels": labels}})
    found = JobCollector(cluster, "tiny", "llm").collect()
    assert f"{JOB}-bbbbb/download.log" in found.logs
    health = diagnose_job(found, "tiny", "llm")
    assert (health.state, health.message) == (JobState.PENDING, "downloading Qwen/Qwen3-8B")
    for kind, name in (("Job", JOB), ("Pod", f"{JOB}-bbbbb")):
        downloading.remove(kind, name)
    assert diagnose_job(JobCollector(cluster, "tiny", "llm").collect(), "tiny", "llm").state is JobState.NOT_FOUND


@pytest.mark.parametrize(("folder", "spec"), [("specs", "storage-mirror-to-claim"), ("batch", "storage-mirrored")])
def test_pods_are_found_by_the_labels_that_are_rendered(api: FakeAPI, cluster: Cluster, folder: str, spec: str) -> None:
    text = (GOLDEN / folder / f"{spec}.yaml").read_text(encoding="utf-8")
    job = next(item for item in yaml.safe_load_all(text) if item["kind"] == "Job")
    metadata, name = job["metadata"], job["metadata"]["labels"]["app.kubernetes.io/instance"]
    labels = job["spec"]["template"]["metadata"]["labels"] | {"batch.kubernetes.io/job-name": metadata["name"]}
    api.put(**{**job, "metadata": {**metadata, "namespace": "llm"}})
    api.put(kind="Pod", metadata={"name": "p", "labels": labels}, spec={"containers": [{"name": "download"}]},
            status={"phase": "Running"})  # fmt: skip
    api.answer("GET", "pods/p/log", (200, LINE.encode()))
    if folder == "batch":
        snapshot = JobCollector(cluster, name, "llm").collect()
    else:
        snapshot = collect(cluster, RAY_SERVICE, name, "llm")
        assert [pod["metadata"]["name"] for pod in download_log_pods(cluster, name, "llm")] == ["p"]
    assert names(snapshot.objects, "Pod") == ["p"]
    assert "p/download.log" in snapshot.logs
