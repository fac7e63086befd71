"""LLMServices against the fake API server: what is written, and what the status says."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.controller import observe
from rayllm_ctl.controller.types import Key
from tests.controller.conftest import Controlled


def test_a_new_service_is_committed_applied_and_ready(controlled: Controlled) -> None:
    controlled.put()
    controlled.step()
    child = controlled.api.stored("RayService", "tiny")
    owner = controlled.api.stored("LLMService", "tiny")["metadata"]["uid"]
    assert [one["uid"] for one in child["metadata"]["ownerReferences"]] == [owner]
    assert controlled.api.names("ControllerRevision") == ["tiny-1"]
    assert controlled.condition("Planned")[:2] == ("True", "Fits")
    assert controlled.condition("Applied") == ("True", "Applied", "revision 1")
    assert controlled.condition("Ready")[0] == "False"
    controlled.run()
    controlled.step()
    assert controlled.condition("Ready")[0] == "True"
    assert controlled.status()["replicasText"] == "1/1"
    assert controlled.status()["url"] == "http://tiny-serve-svc.llm:8000/v1"


def test_a_service_that_is_well_costs_no_request(controlled: Controlled) -> None:
    controlled.put()
    controlled.step()
    controlled.run()
    controlled.step()
    controlled.step()
    controlled.api.requests.clear()
    assert controlled.step() is None
    assert controlled.api.requests == []


def test_a_download_that_was_deleted_is_made_again(controlled: Controlled) -> None:
    """As the hints of a failed download say."""
    controlled.put(storage={"model": {"mirror": {"to": {"objectStore": {"uri": "s3://bucket/a"}}}}})
    controlled.step()
    [job] = controlled.api.names("Job")
    controlled.api.remove("Job", job)
    controlled.step()
    assert controlled.api.names("Job") == [job]


def test_another_process_asks_serve_whether_a_service_is_still_well(controlled: Controlled) -> None:
    """And looks at it in full later: with a thousand services not at once."""
    _ready(controlled)
    controlled.api.requests.clear()
    controlled.restart()
    again = controlled.step()
    first, last = observe.CONFIRM_SECONDS
    assert again is not None
    assert first <= again <= last
    assert [one.path.rpartition(":dashboard/proxy")[2] for one in controlled.api.requests] == [
        "/api/serve/applications/"
    ]
    assert controlled.condition("Ready")[0] == "True"


def test_what_serve_alone_knows_is_seen_when_a_pod_changes(
    controlled: Controlled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KubeRay and Serve say that all is well while the replica of a deleted pod is started again."""
    _ready(controlled)
    monkeypatch.setattr(observe, "FULL_SECONDS", (0.0, 60.0))
    starting = {"replica_id": "r2", "state": "STARTING", "start_time_s": 1}
    deployment = {"status": "HEALTHY", "target_num_replicas": 1, "replicas": [starting]}
    apps = {"tiny": {"status": "RUNNING", "deployments": {"LLMServer:tiny": deployment}}}
    controlled.api.answer("GET", ":dashboard/proxy/api/serve/applications/$", (200, {"applications": apps}))
    pod = controlled.api.stored("Pod", next(name for name in controlled.api.names("Pod") if name.endswith("worker")))
    controlled.api.put(**{**pod, "metadata": {**pod["metadata"], "uid": "another"}})
    controlled.step()
    assert controlled.condition("Ready")[0] == "False"


def _ready(controlled: Controlled, **spec: Any) -> None:
    controlled.put(**spec)
    controlled.step()
    controlled.run()
    controlled.step()
    assert controlled.condition("Ready")[0] == "True"
    controlled.writes()


def _accepted(controlled: Controlled, **spec: Any) -> None:
    """A change whose cost is accepted: of the two replicas only one runs."""
    generation = controlled.api.stored("LLMService", "tiny")["metadata"]["generation"] + 1
    controlled.put(annotations={"rayllm.io/accept": str(generation)}, **spec)
    controlled.step()
    controlled.run()
    controlled.step()


def test_a_new_release_of_the_controller_renders_nothing_again(
    controlled: Controlled, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ready(controlled)
    controlled.restart()
    monkeypatch.setattr("rayllm_ctl.controller.service.propose", None)
    controlled.step()
    assert controlled.writes() == []


def test_a_child_that_is_gone_is_applied_again_from_the_revision(controlled: Controlled) -> None:
    _ready(controlled, replicas={"min": 2, "max": 2})
    controlled.api.remove("PodDisruptionBudget", "tiny")
    before = controlled.api.stored("RayService", "tiny")["metadata"]["resourceVersion"]
    controlled.step()
    assert controlled.api.names("PodDisruptionBudget") == ["tiny"]
    assert controlled.api.stored("RayService", "tiny")["metadata"]["resourceVersion"] == before
    assert [one for one in controlled.writes() if "/status" not in one] == [
        "PATCH /apis/policy/v1/namespaces/llm/poddisruptionbudgets/tiny"
    ]


def test_a_change_that_stops_the_service_waits_for_consent(controlled: Controlled) -> None:
    _ready(controlled)
    controlled.api.remove("Node", "n1", "")  # no capacity for another replica
    controlled.put(engine={"args": {"seed": 7}})
    controlled.step()
    assert [one for one in controlled.writes() if "/status" not in one] == []
    assert controlled.condition("Upgrading")[:2] == ("False", "NeedsConsent")
    assert "unavailable for" in controlled.condition("Upgrading")[2]
    assert controlled.condition("Stalled")[:2] == ("True", "NeedsConsent")
    assert controlled.condition("Ready")[0] == "True"
    generation = controlled.api.stored("LLMService", "tiny")["metadata"]["generation"]
    controlled.put(annotations={"rayllm.io/accept": str(generation)}, engine={"args": {"seed": 7}})
    controlled.step()
    assert '"seed": 7' in controlled.api.stored("RayService", "tiny")["spec"]["serveConfigV2"]
    assert controlled.condition("Stalled")[0] == "False"


def test_consent_to_one_generation_is_none_to_the_next(controlled: Controlled) -> None:
    _ready(controlled)
    controlled.api.remove("Node", "n1", "")
    controlled.put(engine={"args": {"seed": 7}})
    generation = controlled.api.stored("LLMService", "tiny")["metadata"]["generation"]
    controlled.put(annotations={"rayllm.io/accept": str(generation)}, engine={"args": {"seed": 8}})
    controlled.step()
    assert controlled.condition("Upgrading")[:2] == ("False", "NeedsConsent")
    assert "seed" not in controlled.api.stored("RayService", "tiny")["spec"]["serveConfigV2"]


def test_one_replica_is_replaced_after_another_answers(controlled: Controlled) -> None:
    _ready(controlled)
    controlled.put(engine={"args": {"seed": 7}})
    controlled.step()
    assert controlled.condition("Upgrading")[:2] == ("True", "Surge")
    first = controlled.api.stored("RayService", "tiny")
    assert first["metadata"]["annotations"]["rayllm.io/raised-for"] == "2"
    assert "num_replicas: 2" in first["spec"]["serveConfigV2"] or "min_replicas: 2" in first["spec"]["serveConfigV2"]
    controlled.run()
    controlled.restart()
    controlled.step()
    last = controlled.api.stored("RayService", "tiny")
    assert "rayllm.io/raised-for" not in last["metadata"]["annotations"]
    assert '"seed": 7' in last["spec"]["serveConfigV2"]
    controlled.run()
    controlled.step()
    assert controlled.condition("Upgrading")[0] == "False"
    controlled.writes()
    controlled.step()
    assert controlled.writes() == []


def test_a_spec_that_cannot_run_is_stalled_and_leaves_the_service(controlled: Controlled) -> None:
    _ready(controlled)
    controlled.put(model={"id": "meta-llama/Llama-3.1-70B-Instruct"}, parallelism={"tensor": 1})
    controlled.step()
    assert controlled.condition("Planned")[:2] == ("False", "DoesNotFit")
    assert controlled.condition("Stalled")[0] == "True"
    assert controlled.condition("Ready")[0] == "True"
    assert [one for one in controlled.writes() if "/status" not in one] == []


def test_a_service_of_the_command_line_is_left_alone(controlled: Controlled) -> None:
    controlled.api.put(
        kind="RayService",
        metadata={
            "name": "tiny",
            "labels": {"app.kubernetes.io/instance": "tiny", "app.kubernetes.io/managed-by": "rayllm-ctl"},
        },
        spec={},
    )
    controlled.put()
    controlled.step()
    status, reason, message = controlled.condition("Applied")
    assert (status, reason) == ("False", "NotAdopted")
    assert "rayllm-ctl adopt tiny -n llm" in message
    assert controlled.api.names("ControllerRevision") == []


def test_planning_alone_applies_nothing(controlled: Controlled) -> None:
    controlled.put(planOnly=True)
    controlled.step()
    assert controlled.api.names("RayService") == []
    assert controlled.condition("Planned")[:2] == ("True", "Fits")
    assert controlled.condition("Applied")[:2] == ("False", "PlanOnly")


def test_bounds_reach_the_raycluster_that_runs(controlled: Controlled) -> None:
    _ready(controlled, replicas={"min": 2, "max": 2})
    controlled.put(replicas={"min": 2, "max": 3})
    controlled.step()
    controlled.run()
    bounds = controlled.api.stored("RayCluster", "tiny-bcdfg")["spec"]["workerGroupSpecs"][0]
    controlled.api.update(
        "autoscaler", "RayCluster", "tiny-bcdfg", spec={"workerGroupSpecs": [{**bounds, "maxReplicas": 2}]}
    )
    controlled.step()
    assert controlled.api.stored("RayCluster", "tiny-bcdfg")["spec"]["workerGroupSpecs"][0]["maxReplicas"] == 3


def test_an_earlier_spec_is_applied_as_it_was_rendered(controlled: Controlled, monkeypatch: pytest.MonkeyPatch) -> None:
    _ready(controlled, replicas={"min": 2, "max": 2})
    first = controlled.api.stored("RayService", "tiny")["spec"]["serveConfigV2"]
    _accepted(controlled, replicas={"min": 2, "max": 2}, engine={"args": {"seed": 7}})
    assert '"seed": 7' in controlled.api.stored("RayService", "tiny")["spec"]["serveConfigV2"]
    controlled.restart()
    monkeypatch.setattr("rayllm_ctl.controller.propose.rendering_of", None)
    _accepted(controlled, replicas={"min": 2, "max": 2})
    assert controlled.api.stored("RayService", "tiny")["spec"]["serveConfigV2"] == first
    assert controlled.api.names("ControllerRevision") == ["tiny-1", "tiny-2", "tiny-3"]


def test_of_two_controllers_one_writes_the_revision(controlled: Controlled, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a Lease was taken from a process that does not know it yet."""
    _ready(controlled)
    create = Cluster.create

    def after_another(cluster: Cluster, body: Any, *args: Any) -> Any:
        create(cluster, body, *args)
        return create(cluster, body, *args)

    monkeypatch.setattr(Cluster, "create", after_another)
    controlled.put(replicas={"min": 1, "max": 2})
    controlled.step()
    assert "newer revision" in controlled.condition("Applied")[2]
    monkeypatch.undo()
    controlled.step()
    controlled.step()
    assert controlled.api.names("ControllerRevision") == ["tiny-1", "tiny-2"]
    assert controlled.status()["revision"] == 2


def test_what_is_no_longer_rendered_is_deleted(controlled: Controlled) -> None:
    _ready(controlled, replicas={"min": 2, "max": 2})
    assert controlled.api.names("PodDisruptionBudget") == ["tiny"]
    _accepted(controlled, replicas={"min": 1, "max": 2})
    assert controlled.api.names("PodDisruptionBudget") == []


def test_suspending_applies_no_new_revision(controlled: Controlled) -> None:
    _ready(controlled)
    controlled.put(suspend=True)
    controlled.step()
    assert controlled.api.stored("RayService", "tiny")["spec"]["rayClusterConfig"]["suspend"] is True
    assert [one for one in controlled.writes() if "/status" not in one] == [
        "PATCH /apis/ray.io/v1/namespaces/llm/rayservices/tiny"
    ]
    controlled.step()
    assert [one for one in controlled.writes() if "/status" not in one] == []
    controlled.put()
    controlled.step()
    assert controlled.api.stored("RayService", "tiny")["spec"]["rayClusterConfig"]["suspend"] is False
    assert controlled.api.names("ControllerRevision") == ["tiny-1"]
    # KubeRay would take the removal of the field for another spec, and start a second RayCluster.
    controlled.run()
    controlled.step()
    _accepted(controlled, replicas={"min": 1, "max": 2})
    assert controlled.api.names("ControllerRevision") == ["tiny-1", "tiny-2"]
    assert controlled.api.stored("RayService", "tiny")["spec"]["rayClusterConfig"]["suspend"] is False


def test_a_change_of_another_client_is_answered_once(controlled: Controlled) -> None:
    _ready(controlled)
    child = controlled.api.stored("RayService", "tiny")
    records = [{**one, "time": "2026-11-21T09:00:00Z"} for one in child["metadata"]["managedFields"]]
    other = {"manager": "somebody", "operation": "Update", "time": "2026-11-21T10:00:00Z", "fieldsV1": {}}
    metadata = {**child["metadata"], "managedFields": [*records, other], "annotations": {"note": "x"}}
    controlled.api.put(**{**child, "metadata": metadata})
    controlled.step()
    sent = [one for one in controlled.writes() if one.startswith("PATCH") and one.endswith("/rayservices/tiny")]
    assert len(sent) == 1
    controlled.run()
    controlled.step()
    assert [one for one in controlled.writes() if "/status" not in one] == []


def test_nothing_is_applied_for_an_object_that_is_gone(controlled: Controlled) -> None:
    """The caches have not heard of it yet."""
    _ready(controlled, replicas={"min": 2, "max": 2})
    controlled.api.remove("PodDisruptionBudget", "tiny")
    controlled.look()
    controlled.api.remove("LLMService", "tiny")
    controlled.reconciler.reconcile(Key("LLMService", "llm", "tiny"))
    assert controlled.api.names("PodDisruptionBudget") == []


def test_a_damaged_annotation_ends_no_reconciliation(controlled: Controlled) -> None:
    _ready(controlled)
    child = controlled.api.stored("RayService", "tiny")
    metadata = {**child["metadata"], "annotations": {**child["metadata"]["annotations"], "rayllm.io/raised-for": "two"}}
    controlled.api.put(**{**child, "metadata": metadata})
    controlled.step()
    assert controlled.condition("Ready")[0] == "True"
