"""BatchJobs against the fake API server."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.cluster.api.errors import ServerFailingError
from rayllm_ctl.controller.batch import BatchReconciler
from rayllm_ctl.controller.decide import LATER_SECONDS
from rayllm_ctl.controller.types import Key
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.specfile.crd.status import BATCH_STATUS
from tests.cluster.fakeapi import status
from tests.controller.conftest import Controlled, provide_storage, unknown_fields

KEY = Key("BatchJob", "llm", "haikus")


def _put(controlled: Controlled, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    old = controlled.api._objects.get(("BatchJob", "llm", "haikus"), {})
    kept = {"status": old["status"]} if "status" in old else {}
    base = {
        "model": {"id": "Qwen/Qwen3-0.6B"},
        "accelerator": {"gpu": "L4"},
        "input": {"prompts": ["a"]},
        "output": {"path": "s3://bucket/out"},
    }
    metadata = {**old.get("metadata", {}), "name": "haikus", "annotations": annotations or {}}
    controlled.api.put(kind="BatchJob", metadata=metadata, spec=base | spec, **kept)


def _step(controlled: Controlled) -> float | None:
    controlled.look()
    return BatchReconciler(controlled.cluster, controlled.caches, OFFLINE).reconcile(KEY)


def _condition(controlled: Controlled, type_: str) -> tuple[str, str]:
    found = controlled.api.stored("BatchJob", "haikus")["status"]
    assert unknown_fields(found, BATCH_STATUS) == []
    condition = next(one for one in found["conditions"] if one["type"] == type_)
    return condition["status"], condition["reason"]


def _end(controlled: Controlled) -> None:
    job = controlled.api.stored("RayJob", "haikus")
    controlled.api.put(**{**job, "status": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}})


def test_a_job_runs_once(controlled: Controlled) -> None:
    _put(controlled)
    _step(controlled)
    assert _condition(controlled, "Applied") == ("True", "Applied")
    assert _condition(controlled, "Reconciling")[0] == "True"
    _end(controlled)
    _step(controlled)
    assert _condition(controlled, "Reconciling")[0] == "False"
    controlled.api.remove("RayJob", "haikus")  # its time to live is over
    controlled.writes()
    assert _step(controlled) is None
    assert controlled.api.names("RayJob") == []


def test_a_download_that_was_deleted_is_made_again(controlled: Controlled) -> None:
    """As the hints of a failed download say."""
    provide_storage(controlled.api)
    _put(controlled, storage={"model": {"mirror": {"to": {"claim": {"name": "models", "create": {}}}}}})
    _step(controlled)
    [job] = controlled.api.names("Job")
    controlled.api.remove("Job", job)
    _step(controlled)
    assert controlled.api.names("Job") == [job]


def test_another_spec_waits_for_the_job_that_runs(controlled: Controlled) -> None:
    _put(controlled)
    _step(controlled)
    first = controlled.api.stored("RayJob", "haikus")["metadata"]["uid"]
    _put(controlled, input={"prompts": ["b"]})
    _step(controlled)
    assert _condition(controlled, "Applied") == ("False", "Busy")
    assert controlled.api.stored("RayJob", "haikus")["metadata"]["uid"] == first
    _end(controlled)
    _step(controlled)
    _step(controlled)
    _step(controlled)
    assert controlled.api.stored("RayJob", "haikus")["metadata"]["uid"] != first
    assert _condition(controlled, "Applied") == ("True", "Applied")


def test_a_spec_that_is_not_valid_is_stalled(controlled: Controlled) -> None:
    _put(controlled, model={"id": "Qwen/Qwen3-0.6B", "nonsense": 1})
    assert _step(controlled) is None
    assert _condition(controlled, "Stalled") == ("True", "InvalidSpec")
    assert controlled.api.names("RayJob") == []


def test_a_request_that_fails_is_no_fault_of_the_spec(controlled: Controlled) -> None:
    _put(controlled)
    controlled.api.answer("GET", "/deployments$", status(503, "the server is starting"), times=1)
    with pytest.raises(ServerFailingError):
        _step(controlled)
    _step(controlled)
    assert _condition(controlled, "Applied") == ("True", "Applied")


def test_what_admission_rejects_is_in_the_status_until_it_is_taken(controlled: Controlled) -> None:
    _put(controlled)
    controlled.api.answer("PATCH", "/rayjobs/haikus$", status(403, "exceeded quota: team", "Forbidden"), times=1)
    with pytest.raises(UserError):
        _step(controlled)
    assert _condition(controlled, "Applied") == ("False", "Rejected")
    assert _condition(controlled, "Stalled") == ("True", "Rejected")
    _step(controlled)
    assert _condition(controlled, "Applied") == ("True", "Applied")
    assert _condition(controlled, "Stalled")[0] == "False"


def test_what_the_cluster_lacks_is_said_until_it_is_there(controlled: Controlled) -> None:
    _put(controlled, storage={"model": {"claim": {"name": "models", "path": "qwen"}}})
    assert _step(controlled) == LATER_SECONDS
    assert _condition(controlled, "Applied") == ("False", "MissingPrerequisite")
    assert _condition(controlled, "Stalled") == ("True", "MissingPrerequisite")
    assert controlled.api.names("RayJob") == []
    storage = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "40Gi"}}}
    controlled.api.put(
        kind="PersistentVolumeClaim", metadata={"name": "models", "namespace": "llm"},
        spec={**storage, "volumeName": "v"}, status={"phase": "Bound", "capacity": {"storage": "40Gi"}},
    )  # fmt: skip
    _step(controlled)
    assert _condition(controlled, "Applied") == ("True", "Applied")
    assert _condition(controlled, "Stalled")[0] == "False"
    assert controlled.api.names("RayJob") == ["haikus"]


def test_a_pool_that_does_not_exist_is_said(controlled: Controlled) -> None:
    _put(controlled, cluster="pool")
    assert _step(controlled) == LATER_SECONDS
    assert _condition(controlled, "Stalled") == ("True", "MissingPrerequisite")
    assert controlled.api.names("RayJob") == []
