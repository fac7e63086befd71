"""Models that are downloaded before the object with the GPUs is applied."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.controller.batch import BatchReconciler
from rayllm_ctl.controller.types import Key
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from tests.controller.conftest import MIRROR, Controlled, complete_downloads, provide_storage
from tests.workflows.rollout.model_storage import fakedownloads
from tests.workflows.rollout.model_storage.fakedownloads import DENIED, Downloads


@pytest.fixture(autouse=True)
def _storage(controlled: Controlled, monkeypatch: pytest.MonkeyPatch) -> None:
    provide_storage(controlled.api)
    # A download that has not begun a while ago, whenever the test runs: it is not stuck.
    monkeypatch.setattr(fakedownloads, "BEGAN", "2999-01-01T00:00:00Z")


def _applied(controlled: Controlled) -> set[str]:
    """The kinds that were applied since the last call."""
    return {
        one.rpartition("/namespaces/llm/")[2].partition("/")[0] for one in controlled.writes() if "/status" not in one
    }


def test_gpus_are_asked_for_when_the_model_is_there(controlled: Controlled) -> None:
    controlled.put(storage=MIRROR)
    controlled.step()
    assert _applied(controlled) >= {"jobs", "persistentvolumeclaims", "configmaps", "controllerrevisions"}
    assert controlled.api.names("RayService") == []
    assert controlled.condition("Applied")[:2] == ("False", "Downloading")
    assert controlled.condition("Reconciling")[:2] == ("True", "Downloading")
    controlled.step()
    assert controlled.condition("Ready")[:2] == ("False", "Downloading")
    assert "Qwen/Qwen3-0.6B" in controlled.condition("Ready")[2]
    controlled.writes()
    controlled.step()
    assert controlled.writes() == [], "a download that goes on costs no writes"
    complete_downloads(controlled.api)
    controlled.step()
    assert controlled.api.names("RayService") == ["tiny"]
    assert controlled.condition("Applied") == ("True", "Applied", "revision 1")
    controlled.run()
    controlled.step()
    assert controlled.condition("Ready")[0] == "True"
    assert controlled.api.names("ControllerRevision") == ["tiny-1"]
    controlled.writes()
    controlled.step()
    assert controlled.writes() == []


def test_the_progress_is_in_the_status(controlled: Controlled) -> None:
    Downloads(controlled.api, None)
    controlled.put(storage=MIRROR)
    controlled.step()
    controlled.step()
    assert "4.1 of 16.4 GB (25 %)" in controlled.condition("Ready")[2]


def test_a_download_that_cannot_succeed_is_stalled_with_its_cause(controlled: Controlled) -> None:
    downloads = Downloads(controlled.api, DENIED)
    controlled.put(storage=MIRROR)
    controlled.step()
    controlled.step()
    assert controlled.condition("Stalled")[:2] == ("True", "DownloadUnauthorized")
    assert controlled.condition("Ready")[:2] == ("False", "DownloadUnauthorized")
    assert "403" in controlled.condition("Ready")[2]
    assert controlled.api.names("RayService") == []
    # What the user does once the token is right.
    for kind, names in (("Job", controlled.api.names("Job")), ("Pod", controlled.api.names("Pod"))):
        for name in names:
            controlled.api.remove(kind, name)
    controlled.step()
    assert downloads.ran == 2
    controlled.step()
    assert controlled.api.names("RayService") == ["tiny"]
    assert controlled.condition("Stalled")[0] == "False"


def test_the_revision_before_answers_while_a_model_is_downloaded(controlled: Controlled) -> None:
    _ready(controlled)
    before = controlled.api.stored("RayService", "tiny")["metadata"]["resourceVersion"]
    controlled.put(storage=MIRROR, rollout="new-cluster")
    controlled.step()
    controlled.step()
    assert controlled.api.stored("RayService", "tiny")["metadata"]["resourceVersion"] == before
    assert controlled.condition("Ready")[0] == "True"
    assert controlled.condition("Upgrading")[:2] == ("True", "Downloading")
    assert controlled.condition("Applied")[:2] == ("False", "Downloading")
    complete_downloads(controlled.api)
    controlled.step()
    assert controlled.api.stored("RayService", "tiny")["metadata"]["resourceVersion"] != before
    assert controlled.condition("Applied") == ("True", "Applied", "revision 2")


def test_a_failed_download_of_an_upgrade_is_stalled_and_the_service_ready(controlled: Controlled) -> None:
    _ready(controlled)
    Downloads(controlled.api, DENIED)
    controlled.put(storage=MIRROR, rollout="new-cluster")
    controlled.step()
    controlled.step()
    assert controlled.condition("Stalled")[:2] == ("True", "DownloadUnauthorized")
    assert controlled.condition("Ready")[0] == "True"


def test_a_spec_that_is_not_valid_applies_nothing_of_the_one_that_downloads(controlled: Controlled) -> None:
    controlled.put(storage=MIRROR)
    controlled.step()
    controlled.put(storage=MIRROR, planOnly=True)
    controlled.step()
    controlled.put(model={"id": "meta-llama/Llama-3.1-70B-Instruct"}, parallelism={"tensor": 1})
    controlled.step()
    assert controlled.api.names("RayService") == []
    assert controlled.condition("Planned")[:2] == ("False", "DoesNotFit")


@pytest.mark.parametrize(
    "meanwhile",
    [
        {"storage": MIRROR, "planOnly": True},
        {"model": {"id": "meta-llama/Llama-3.1-70B-Instruct"}, "parallelism": {"tensor": 1}},
    ],
    ids=["planned-only", "does-not-fit"],
)
def test_a_revision_that_is_not_wanted_any_more_is_not_applied_after_its_download(
    controlled: Controlled, meanwhile: dict[str, Any]
) -> None:
    controlled.put(storage=MIRROR)
    controlled.step()
    controlled.put(**meanwhile)
    controlled.step()
    complete_downloads(controlled.api)
    controlled.step()
    assert controlled.api.names("RayService") == []
    controlled.put(storage=MIRROR)
    controlled.step()
    assert controlled.api.names("RayService") == ["tiny"]


def test_a_suspended_service_is_applied_suspended_after_its_download(controlled: Controlled) -> None:
    controlled.put(storage=MIRROR, suspend=True)
    controlled.step()
    assert controlled.api.names("RayService") == []
    complete_downloads(controlled.api)
    controlled.step()
    assert controlled.api.stored("RayService", "tiny")["spec"]["rayClusterConfig"]["suspend"] is True


def test_a_service_is_suspended_and_resumed_during_a_download(controlled: Controlled) -> None:
    """The download goes on, and the rest waits for it as before."""
    _ready(controlled)
    controlled.put(storage=MIRROR, rollout="new-cluster")
    controlled.step()
    controlled.put(storage=MIRROR, rollout="new-cluster", suspend=True)
    controlled.step()
    live = controlled.api.stored("RayService", "tiny")
    assert live["spec"]["rayClusterConfig"]["suspend"] is True
    assert "wait-for-model" not in str(live)
    controlled.put(storage=MIRROR, rollout="new-cluster")
    controlled.step()
    live = controlled.api.stored("RayService", "tiny")
    assert live["spec"]["rayClusterConfig"]["suspend"] is False
    assert "wait-for-model" not in str(live)
    assert controlled.condition("Applied")[:2] == ("False", "Downloading")
    complete_downloads(controlled.api)
    controlled.step()
    assert "wait-for-model" in str(controlled.api.stored("RayService", "tiny"))


def test_what_runs_is_repaired_while_the_next_revision_downloads(controlled: Controlled) -> None:
    _ready(controlled)
    Downloads(controlled.api, DENIED)
    controlled.put(storage=MIRROR, rollout="new-cluster")
    controlled.step()
    controlled.api.remove("RayService", "tiny")
    controlled.step()
    assert "wait-for-model" not in str(controlled.api.stored("RayService", "tiny"))
    assert controlled.condition("Stalled")[:2] == ("True", "DownloadUnauthorized")
    controlled.step()
    controlled.writes()
    controlled.step()
    assert _applied(controlled) == set()


def test_a_model_whose_claim_was_replaced_is_downloaded_again(controlled: Controlled) -> None:
    controlled.put(storage=MIRROR)
    controlled.step()
    complete_downloads(controlled.api)
    controlled.step()
    [job] = controlled.api.names("Job")
    before = controlled.api.stored("Job", job)["metadata"]["uid"]
    controlled.api.remove("PersistentVolumeClaim", "models")
    controlled.put(storage=MIRROR, rollout="new-cluster", engine={"args": {"seed": 7}})
    controlled.step()
    assert controlled.condition("Applied")[:2] == ("False", "Downloading")
    assert controlled.api.stored("Job", job)["metadata"]["uid"] != before
    assert "seed" not in controlled.api.stored("RayService", "tiny")["spec"]["serveConfigV2"]
    complete_downloads(controlled.api)
    claim = controlled.api.stored("PersistentVolumeClaim", "models")
    metadata = {**claim["metadata"], "creationTimestamp": "2026-11-21T09:04:00Z"}
    controlled.api.put(**{**claim, "metadata": metadata})
    controlled.step()
    assert "seed" in controlled.api.stored("RayService", "tiny")["spec"]["serveConfigV2"]


def test_no_job_is_deleted_before_a_change_is_accepted(controlled: Controlled) -> None:
    controlled.put(storage=MIRROR)
    controlled.step()
    complete_downloads(controlled.api)
    controlled.step()
    [job] = controlled.api.names("Job")
    before = controlled.api.stored("Job", job)["metadata"]["uid"]
    controlled.api.remove("PersistentVolumeClaim", "models")
    controlled.run()
    controlled.step()
    controlled.api.remove("Node", "n1", "")  # no capacity for another replica
    change: dict[str, Any] = {"storage": MIRROR, "engine": {"args": {"seed": 7}}}
    generation = controlled.put(**change)["metadata"]["generation"]
    controlled.step()
    controlled.step()
    assert controlled.condition("Upgrading")[:2] == ("False", "NeedsConsent")
    assert controlled.api.stored("Job", job)["metadata"]["uid"] == before
    controlled.put(annotations={"rayllm.io/accept": str(generation)}, **change)
    controlled.step()
    assert controlled.condition("Applied")[:2] == ("False", "Downloading")
    assert controlled.api.stored("Job", job)["metadata"]["uid"] != before


def test_a_claim_that_has_grown_stays_as_large(controlled: Controlled) -> None:
    """A user's answer to a download that lacks space."""
    controlled.put(storage=MIRROR)
    controlled.step()
    claim = controlled.api.stored("PersistentVolumeClaim", "models")
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"
    grown = {**claim["spec"], "resources": {"requests": {"storage": "40Gi"}}, "volumeName": "v"}
    controlled.api.put(**{**claim, "spec": grown, "status": {"phase": "Bound", "capacity": {"storage": "40Gi"}}})
    complete_downloads(controlled.api)
    controlled.step()
    assert controlled.condition("Applied")[0] == "True"
    assert (
        controlled.api.stored("PersistentVolumeClaim", "models")["spec"]["resources"]["requests"]["storage"] == "40Gi"
    )


def test_a_later_release_continues_a_download_and_renders_nothing_again(
    controlled: Controlled, monkeypatch: pytest.MonkeyPatch
) -> None:
    controlled.put(storage=MIRROR, gateway={})
    controlled.step()
    controlled.restart()
    monkeypatch.setattr("rayllm_ctl.controller.service.propose", None)
    controlled.step()
    assert controlled.api.names("RayService") == []
    complete_downloads(controlled.api)
    controlled.step()
    assert controlled.api.names("RayService") == ["tiny"]


def test_a_batch_job_starts_when_its_model_is_there(controlled: Controlled) -> None:
    Downloads(controlled.api, None)
    _put_batch(controlled)
    _step_batch(controlled)
    _step_batch(controlled)
    assert controlled.api.names("RayJob") == []
    conditions = _batch_conditions(controlled)
    assert conditions["Applied"] == ("False", "Downloading")
    assert conditions["Reconciling"] == ("True", "Downloading")
    assert conditions["Stalled"][0] == "False"
    complete_downloads(controlled.api)
    _step_batch(controlled)
    assert controlled.api.names("RayJob") == ["haikus"]
    assert _batch_conditions(controlled)["Applied"] == ("True", "Applied")


def test_a_batch_job_whose_model_cannot_be_downloaded_is_stalled(controlled: Controlled) -> None:
    Downloads(controlled.api, DENIED)
    _put_batch(controlled)
    _step_batch(controlled)
    _step_batch(controlled)
    assert controlled.api.names("RayJob") == []
    assert _batch_conditions(controlled)["Stalled"] == ("True", "DownloadUnauthorized")


def test_the_claim_of_a_batch_job_is_applied_once_and_stays_as_large_as_it_has_grown(controlled: Controlled) -> None:
    Downloads(controlled.api, DENIED, None)
    _put_batch(controlled)
    _step_batch(controlled)
    _step_batch(controlled)
    controlled.writes()
    _step_batch(controlled)
    assert _applied(controlled) == set()
    claim = controlled.api.stored("PersistentVolumeClaim", "models")
    grown = {**claim["spec"], "resources": {"requests": {"storage": "40Gi"}}, "volumeName": "v"}
    controlled.api.put(**{**claim, "spec": grown, "status": {"phase": "Bound", "capacity": {"storage": "40Gi"}}})
    controlled.api.remove("Job", controlled.api.names("Job")[0])
    _step_batch(controlled)
    assert len(controlled.api.names("Job")) == 1
    claim = controlled.api.stored("PersistentVolumeClaim", "models")
    assert claim["spec"]["resources"]["requests"] == {"storage": "40Gi"}


def test_the_download_of_an_earlier_spec_says_nothing_of_a_batch_job(controlled: Controlled) -> None:
    Downloads(controlled.api, DENIED)
    _put_batch(controlled)
    _step_batch(controlled)
    _step_batch(controlled)
    denied = controlled.api.names("Job")
    controlled.api.put(kind="Secret", metadata={"name": "hf"}, data={"token": "YQ=="})
    token = {"id": "Qwen/Qwen3-0.6B", "tokenSecret": {"name": "hf", "key": "token"}}
    _put_batch(controlled, model=token)
    _step_batch(controlled)
    assert not set(denied) & set(controlled.api.names("Job"))
    for pod in controlled.api.names("Pod"):  # as the garbage collector does
        if pod.startswith(denied[0]):
            controlled.api.remove("Pod", pod)
    _step_batch(controlled)
    assert controlled.api.names("RayJob") == ["haikus"]
    assert _batch_conditions(controlled)["Stalled"][0] == "False"


def test_a_batch_job_that_is_planned_only_does_not_start_after_its_download(controlled: Controlled) -> None:
    _put_batch(controlled)
    _step_batch(controlled)
    _put_batch(controlled, planOnly=True)
    complete_downloads(controlled.api)
    _step_batch(controlled)
    assert controlled.api.names("RayJob") == []
    assert _batch_conditions(controlled)["Applied"] == ("False", "PlanOnly")
    _put_batch(controlled)
    _step_batch(controlled)
    assert controlled.api.names("RayJob") == ["haikus"]


def _ready(controlled: Controlled) -> None:
    controlled.put()
    controlled.step()
    controlled.run()
    controlled.step()
    assert controlled.condition("Ready")[0] == "True"


def _put_batch(controlled: Controlled, **spec: Any) -> None:
    base: dict[str, Any] = {
        "model": {"id": "Qwen/Qwen3-0.6B"}, "accelerator": {"gpu": "L4"}, "input": {"prompts": ["a"]},
        "output": {"path": "s3://bucket/out"}, "storage": MIRROR,
    }  # fmt: skip
    old = controlled.api._objects.get(("BatchJob", "llm", "haikus"), {})
    kept = {"status": old["status"]} if "status" in old else {}
    metadata = {**old.get("metadata", {}), "name": "haikus"}
    controlled.api.put(kind="BatchJob", metadata=metadata, spec=base | spec, **kept)


def _step_batch(controlled: Controlled) -> None:
    controlled.look()
    BatchReconciler(controlled.cluster, controlled.caches, OFFLINE).reconcile(Key("BatchJob", "llm", "haikus"))


def _batch_conditions(controlled: Controlled) -> dict[str, tuple[str, str]]:
    found = controlled.api.stored("BatchJob", "haikus")["status"]["conditions"]
    return {one["type"]: (one["status"], one["reason"]) for one in found}
