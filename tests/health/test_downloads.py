"""Downloads of models beside what the samples show: progress, several models, what cannot be read, batch jobs."""

from __future__ import annotations

import copy
import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from rayllm_ctl.health import diagnose, diagnose_job
from rayllm_ctl.model.observed.health import Health, Snapshot, State
from rayllm_ctl.model.observed.model_downloads import DownloadState
from rayllm_ctl.model.text.json_form import to_json
from tests.health.cases import NAME, NAMESPACE, SAMPLES, load_case

JOB, POD = "demo-model-0a1b2c3d", "demo-model-0a1b2c3d-x7k2p"


@pytest.fixture
def downloading() -> Snapshot:
    return load_case(SAMPLES / "model-downloads")


def look(snapshot: Snapshot) -> Health:
    return diagnose(snapshot, NAME, NAMESPACE)


def without(snapshot: Snapshot, *kinds: str) -> Snapshot:
    return dataclasses.replace(snapshot, objects=tuple(item for item in snapshot.objects if item["kind"] not in kinds))


def item_of(snapshot: Snapshot, kind: str, name: str) -> dict[str, Any]:
    found = snapshot.find(kind, name)
    assert isinstance(found, dict)
    return found


def test_figures_of_a_download(downloading: Snapshot) -> None:
    document = to_json(look(downloading))["downloads"]
    assert [{key: value for key, value in one.items() if key != "since"} for one in document] == [
        {
            "job": JOB, "source": "hf://Qwen/Qwen3-32B", "state": "Downloading", "attempt": 1,
            "bytes": 41_200_000_000, "total": 65_500_000_000, "percent": 62, "resumed": 0, "files": 8,
            "filesTotal": 17, "bytesPerSecond": 310_000_000, "secondsLeft": 78,
        }
    ]  # fmt: skip


def test_the_download_is_the_first_node_and_pods_wait_for_the_model(downloading: Snapshot) -> None:
    tree = look(downloading).tree
    assert (tree[0].kind, tree[0].name, tree[0].state) == ("download", JOB, "Downloading")
    assert {(node.state, node.detail.partition(",")[0]) for node in tree if node.kind in ("head", "worker")} == {
        ("Waiting", "for the model")
    }


def test_message_and_tree_have_no_figures_which_change_all_the_time(downloading: Snapshot) -> None:
    later = dataclasses.replace(
        downloading, logs={key: text.replace("41200000000", "52300000000") for key, text in downloading.logs.items()}
    )
    before, after = look(downloading), look(later)
    assert before.downloads != after.downloads
    assert (before.message, before.tree) == (after.message, after.tree)


def before_its_service(snapshot: Snapshot) -> Snapshot:
    """The same download without the service."""
    ray = {id(item) for item in snapshot.of_kind("Pod") if "ray.io/cluster" in item["metadata"]["labels"]}
    alone = without(snapshot, "RayService", "RayCluster", "EndpointSlice")
    return dataclasses.replace(alone, objects=tuple(item for item in alone.objects if id(item) not in ray))


def test_a_service_that_is_applied_after_its_download_is_in_progress(downloading: Snapshot) -> None:
    """No object of it is there but the Job."""
    found = look(before_its_service(downloading))
    assert (found.state, found.message) == (State.PROGRESSING, "downloading Qwen/Qwen3-32B")
    assert found.downloads is not None
    assert [one.state for one in found.downloads] == [DownloadState.DOWNLOADING]
    complete = copy.deepcopy(item_of(downloading, "Job", JOB)) | {"status": {"conditions": [
        {"type": "Complete", "status": "True", "lastTransitionTime": "2026-03-01T11:59:00Z"}
    ]}}  # fmt: skip
    alone = dataclasses.replace(without(downloading, "RayService", "RayCluster", "Job", "Pod"), objects=(complete,))
    assert look(alone).state is State.NOT_FOUND


def test_a_service_whose_first_download_fails_is_failed() -> None:
    snapshot = load_case(SAMPLES / "model-download-401")
    found = look(before_its_service(snapshot))
    assert found.state is State.FAILED
    assert [one.code for one in found.causes] == ["DownloadUnauthorized"]


def test_a_service_without_downloads_has_no_key_for_them() -> None:
    assert "downloads" not in to_json(look(load_case(SAMPLES / "healthy")))


def test_a_service_is_never_ready_before_its_model_is_there(downloading: Snapshot) -> None:
    for logs in (downloading.logs, {}):
        assert look(dataclasses.replace(downloading, logs=logs)).state is State.PROGRESSING


def test_without_a_log_the_figures_are_unknown(downloading: Snapshot) -> None:
    found = look(dataclasses.replace(downloading, logs={})).downloads
    assert found is not None
    assert (found[0].state, found[0].bytes, found[0].total) == (DownloadState.DOWNLOADING, None, None)


def test_a_long_download_that_proceeds_is_never_overdue(downloading: Snapshot) -> None:
    hours = timedelta(hours=9)
    logs = {key: text.replace("2026-03-01T12:", "2026-03-01T21:") for key, text in downloading.logs.items()}
    health = look(dataclasses.replace(downloading, now=downloading.now + hours, logs=logs))
    assert (health.state, [cause.code for cause in health.causes]) == (State.PROGRESSING, ["StillStarting"])


def test_jobs_that_may_not_be_read_are_not_taken_for_missing(downloading: Snapshot) -> None:
    blind = dataclasses.replace(without(downloading, "Job"), unread=frozenset({"Job"}), logs={})
    objects = tuple(item for item in blind.objects if item["metadata"]["name"] != POD)
    health = look(dataclasses.replace(blind, objects=objects))
    assert health.state is State.PROGRESSING


def test_pods_alone_tell_of_a_failure(downloading: Snapshot) -> None:
    """The controller's watches and users without a right to list Jobs have no Jobs."""
    failed = load_case(SAMPLES / "model-download-exit-10-before-its-job-says-so")
    health = look(without(failed, "Job"))
    assert [(cause.code, cause.terminal) for cause in health.causes] == [("DownloadNotFound", True)]


def test_a_changed_job_replaces_the_one_before(downloading: Snapshot) -> None:
    failed = load_case(SAMPLES / "model-download-404")
    newer = copy.deepcopy(item_of(downloading, "Job", JOB))
    newer["metadata"] |= {"name": "demo-model-99999999", "creationTimestamp": "2026-03-01T12:09:30Z"}
    health = look(dataclasses.replace(failed, objects=(*failed.objects, newer)))
    assert health.state is State.PROGRESSING
    assert [one.job for one in health.downloads or ()] == ["demo-model-99999999"]


def test_each_of_several_models_has_a_download(downloading: Snapshot) -> None:
    other = copy.deepcopy(item_of(downloading, "Job", JOB))
    other["metadata"] |= {"name": "demo-small-model-99999999"}
    other["metadata"]["annotations"] = {"rayllm.io/model-source": "hf://Qwen/Qwen3-4B"}
    health = look(dataclasses.replace(downloading, objects=(*downloading.objects, other)))
    assert health.message == "downloading Qwen/Qwen3-32B, waiting for the download of Qwen/Qwen3-4B"


def test_a_download_of_another_service_or_batch_job_is_not_this_ones(downloading: Snapshot) -> None:
    for label, value in (("app.kubernetes.io/instance", "other"), ("rayllm.io/batch", "demo")):
        moved = copy.deepcopy(downloading.objects)
        for item in moved:
            if item["metadata"]["name"].startswith(JOB):
                item["metadata"]["labels"][label] = value
        assert look(dataclasses.replace(downloading, objects=moved)).downloads is None


def test_a_running_service_is_not_degraded_by_the_job_that_filled_its_volume() -> None:
    serving, done = (
        load_case(SAMPLES / name) for name in ("healthy", "model-is-complete-and-pods-are-about-to-see-it")
    )
    jobs = [item for item in done.objects if item["metadata"]["name"].startswith(JOB)]
    health = look(dataclasses.replace(serving, objects=(*serving.objects, *jobs)))
    assert health.state is State.READY
    assert [one.state for one in health.downloads or ()] == [DownloadState.COMPLETE]


def test_a_failed_download_of_an_upgrade_degrades_the_service_that_serves() -> None:
    serving, failed = (load_case(SAMPLES / name) for name in ("healthy", "model-download-404"))
    jobs = [item for item in failed.objects if item["metadata"]["name"].startswith(JOB)]
    health = look(dataclasses.replace(serving, objects=(*serving.objects, *jobs)))
    assert (health.state, health.causes[0].code) == (State.DEGRADED, "DownloadNotFound")


def test_the_first_cause_is_the_download_and_other_troubles_follow() -> None:
    failed = load_case(SAMPLES / "model-download-404")
    worker = item_of(failed, "Pod", "demo-bcdfg-gpu-worker-bbbbb")
    worker["spec"] |= {"nodeName": ""}
    worker["status"] = {
        "phase": "Pending",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
             "message": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."}
        ],
    }  # fmt: skip
    worker["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "9"
    assert [cause.code for cause in look(failed).causes] == ["DownloadNotFound", "InsufficientGPU"]


def test_a_batch_job_waits_for_its_model() -> None:
    running = load_case(SAMPLES / "job-waits-for-its-model")
    health = diagnose_job(running, NAME, NAMESPACE)
    assert health.message == "downloading Qwen/Qwen3-32B"
    assert [one.percent for one in health.downloads or ()] == [62]
