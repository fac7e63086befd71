"""The order in which a batch job and its model's download are applied, and what becomes of a download that fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster, connect
from rayllm_ctl.errors import NO_ANSWER, TIMED_OUT, ClusterError, UserError
from rayllm_ctl.model.events import Applied, Downloading, Event, Noted, Rendered
from rayllm_ctl.model.observed.model_downloads import DownloadState
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.specfile.load import load_any_text
from rayllm_ctl.workflows.batch.submit import SubmitOptions, submit
from rayllm_ctl.workflows.observe import wait as observing
from rayllm_ctl.workflows.render.types import RenderOptions
from tests.cluster import fakekuberay
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakehttp import kubeconfig, serving
from tests.health.storage.manifests import live_claim, storage_class
from tests.workflows.rollout.model_storage.fakedownloads import DENIED, Downloads

PLAIN = """\
apiVersion: rayllm.io/v1alpha1
kind: BatchJob
metadata: {name: summaries, namespace: llm}
spec:
  model: {id: Qwen/Qwen3-8B}
  accelerator: {gpu: L4}
  prompt: {column: text}
  input: {paths: ["s3://bucket/in.jsonl"]}
  output: {path: "s3://bucket/out/"}
"""
STORAGE = "  storage: {model: {mirror: {to: {claim: {name: models, create: {storageClass: CLASS}}}}}}\n"
ONCE = SubmitOptions(render=RenderOptions(facts=OFFLINE))
WAIT = dataclasses.replace(ONCE, wait=True)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAPI]:
    monkeypatch.setattr(observing, "LOOK_EVERY", 0.05)
    with serving() as running:
        fakekuberay.operator(running)
        running.put(**storage_class("shared", "example.com/nfs", default=True))
        yield running


@pytest.fixture
def cluster(api: FakeAPI, tmp_path: Any) -> Cluster:
    return connect(str(kubeconfig(tmp_path / "kubeconfig", api.url, token="t")), request_timeout=5)


def spec(text: str) -> BatchJob:
    job = load_any_text(text, "job.yaml", Path())
    assert isinstance(job, BatchJob)
    return job


def batch(class_name: str = "shared", model: str = "{id: Qwen/Qwen3-8B}") -> BatchJob:
    return spec(PLAIN.replace("{id: Qwen/Qwen3-8B}", model) + STORAGE.replace("CLASS", class_name))


def run(cluster: Cluster, options: SubmitOptions, job: BatchJob | None = None) -> list[Event | Rendered]:
    return list(submit(job or batch(), options, lambda: cluster))


def applied(events: list[Event | Rendered]) -> list[tuple[str, str]]:
    return [(event.kind, event.action) for event in events if isinstance(event, Applied)]


def written(api: FakeAPI) -> list[str]:
    return [request.path for request in api.requests if request.method in ("PATCH", "DELETE")]


def end(api: FakeAPI) -> None:
    """The RayJob has ended."""
    api.update("kuberay-operator", "RayJob", "summaries", status={"jobDeploymentStatus": "Failed"})


def test_the_rayjob_is_applied_once_its_model_is_complete(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, True)
    events = run(cluster, WAIT)
    kinds = [one.kind if isinstance(one, Applied) else "" for one in events if isinstance(one, Applied | Downloading)]
    downloading = kinds.index("")
    assert sorted(kinds[:downloading]) == ["ConfigMap", "ConfigMap", "Job", "PersistentVolumeClaim"]
    assert [kind for kind in kinds[downloading:] if kind] == ["ConfigMap", "ConfigMap", "RayJob"]
    download = next(event.download for event in events if isinstance(event, Downloading))
    assert (download.model, download.state) == ("Qwen/Qwen3-8B", DownloadState.COMPLETE)


def test_without_a_wait_everything_is_applied_at_once(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, None)
    events = run(cluster, ONCE)
    assert applied(events)[-1] == ("RayJob", "created")
    assert not [event for event in events if isinstance(event, Downloading)]


def test_a_failed_download_ends_the_command_with_its_cause(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, DENIED)
    with pytest.raises(UserError) as caught:
        run(cluster, WAIT)
    assert caught.value.exit_code == NO_ANSWER
    assert caught.value.message.startswith("DownloadUnauthorized: ")
    assert "403 of huggingface.co" in caught.value.message
    assert caught.value.message.endswith("rayjob/summaries was not applied")
    assert api.names("RayJob") == []


@pytest.mark.parametrize("options", [WAIT, ONCE])
def test_a_failed_job_is_replaced(options: SubmitOptions, api: FakeAPI, cluster: Cluster) -> None:
    runs = Downloads(api, DENIED, True)
    with pytest.raises(UserError):
        run(cluster, WAIT)
    (name,) = api.names("Job")
    before = api.stored("Job", name)["metadata"]["uid"]
    events = run(cluster, options)
    assert runs.ran == 2
    assert api.stored("Job", name)["metadata"]["uid"] != before
    assert any(isinstance(event, Noted) and "has failed: it is deleted" in event.message for event in events)
    assert applied(events)[-1] == ("RayJob", "created")


def test_the_time_out_is_that_of_the_download_too(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, None)
    with pytest.raises(UserError, match="the download continues") as caught:
        run(cluster, dataclasses.replace(WAIT, timeout=0.2))
    assert caught.value.exit_code == TIMED_OUT
    assert api.names("RayJob") == []
    assert len(api.names("Job")) == 1


def test_nothing_is_applied_if_the_storage_rules_the_job_out(api: FakeAPI, cluster: Cluster) -> None:
    with pytest.raises(UserError, match="there is no StorageClass nowhere"):
        run(cluster, WAIT, batch("nowhere"))
    assert written(api) == []


def test_nothing_is_applied_without_a_secret_of_the_download(api: FakeAPI, cluster: Cluster) -> None:
    gated = batch(model="{id: Qwen/Qwen3-8B, tokenSecret: {name: hf, key: token}}")
    with pytest.raises(UserError, match="Secret hf does not exist in namespace llm"):
        run(cluster, WAIT, gated)
    assert written(api) == []


def test_nothing_is_applied_without_a_right_to_the_claim(api: FakeAPI, cluster: Cluster) -> None:
    api.granted = set()
    with pytest.raises(ClusterError, match="persistentvolumeclaims"):
        run(cluster, WAIT)
    assert written(api) == []


def test_a_claim_keeps_a_size_that_is_larger_than_planned(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, True)
    api.put(**live_claim(size="300Gi"))
    run(cluster, WAIT)
    assert api.stored("PersistentVolumeClaim", "models")["spec"]["resources"]["requests"]["storage"] == "300Gi"


def test_an_ended_job_stays_until_the_model_of_the_next_is_complete(api: FakeAPI, cluster: Cluster) -> None:
    runs = Downloads(api, True, DENIED, True)
    run(cluster, WAIT)
    end(api)
    other = batch(model="{id: Qwen/Qwen3-4B}")
    with pytest.raises(UserError, match="rayjob/summaries was not replaced"):
        run(cluster, WAIT, other)
    assert api.stored("RayJob", "summaries")["status"] == {"jobDeploymentStatus": "Failed"}
    events = run(cluster, WAIT, other)
    assert runs.ran == 3
    assert ("RayJob", "created") in applied(events)
    assert len(api.names("Job")) == 1  # that of the first model was pruned


def test_a_job_that_another_client_submits_during_the_download_is_not_changed(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, None, True)
    events = submit(batch(), WAIT, lambda: cluster)
    assert any(isinstance(event, Downloading) for event in events)
    (name,) = api.names("Job")
    other = dict(api.stored("Job", name))
    run(cluster, ONCE)
    done = {"conditions": [{"type": "Complete", "status": "True"}], "completionTime": "2026-11-29T20:05:00Z"}
    api.put(**{**other, "kind": "Job", "status": done})
    before = api.stored("RayJob", "summaries")["metadata"]["resourceVersion"]
    with pytest.raises(UserError, match="batch job summaries is running"):
        list(events)
    assert api.stored("RayJob", "summaries")["metadata"]["resourceVersion"] == before


def test_a_running_job_is_left_alone_before_anything_is_downloaded(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, True)
    run(cluster, WAIT)
    count = len(written(api))
    with pytest.raises(UserError, match="batch job summaries is running"):
        run(cluster, WAIT)
    assert len(written(api)) == count


def test_a_dry_run_writes_nothing(api: FakeAPI, cluster: Cluster) -> None:
    events = run(cluster, dataclasses.replace(WAIT, dry_run="server"))
    assert ("Job", "created") in applied(events)
    assert (api.names("Job"), api.names("RayJob"), api.names("PersistentVolumeClaim")) == ([], [], [])


def test_a_job_without_storage_of_its_own_makes_no_further_requests(api: FakeAPI, cluster: Cluster) -> None:
    run(cluster, WAIT, spec(PLAIN + "  storage: {credentialsSecret: s3}\n"))
    asked = [request.path.split("?")[0].rpartition("/")[2] for request in api.requests if request.method == "GET"]
    assert {"persistentvolumeclaims", "storageclasses", "persistentvolumes", "jobs", "s3"}.isdisjoint(asked)
    assert asked.count("summaries") == 2  # before the checks, and as every object before it is applied
