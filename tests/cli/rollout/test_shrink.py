"""Changes that need a second RayCluster for which the nodes have no capacity beside the first: shrink, switch, grow."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.workflows.rollout.upgrade import shrink
from tests.cli.conftest import Run
from tests.cluster import fakekuberay
from tests.cluster.fakeapi import FakeAPI, status

CLUSTER = "tiny-bcdfg"
HISTORY = "/apis/apps/v1/namespaces/llm/controllerrevisions"
TINY = (
    "deploy", "--model", "tiny", "--model-path", "/models/tiny", "--accelerator", "cpu", "--name", "tiny",
    "--image", "example.com/vllm-cpu:1", "--max-model-len", "1024", "-n", "llm", "--offline", "--timeout", "20s",
)  # fmt: skip
OTHER = ("--env", "COLOR=blue")


class Workers:
    """What KubeRay does about workers: as many pods as the minimum of the RayCluster that serves.

    held: that many stay although fewer are wanted, as if others had taken their places.
    """

    def __init__(self, api: FakeAPI) -> None:
        self.api, self.held = api, 0
        self.wanted = 1
        api.applied = self.applied

    def applied(self, item: dict[str, Any]) -> None:
        if item["kind"] != "RayService":
            return
        fakekuberay.reconcile(self.api, item)
        self.api.remove("Pod", f"{CLUSTER}-worker")
        (group,) = item["spec"]["rayClusterConfig"]["workerGroupSpecs"]
        self.wanted = group["minReplicas"]
        container = group["template"]["spec"]["containers"][0]
        for number in range(9):
            name = f"{CLUSTER}-cpu-{number}"
            self.api.remove("Pod", name)
            if number < max(self.wanted, self.held):
                labels = {kuberay.CLUSTER: CLUSTER, kuberay.NODE_TYPE: "worker", kuberay.GROUP: group["groupName"]}
                self.api.put(
                    kind="Pod", metadata={"name": name, "namespace": "llm", "labels": labels},
                    spec={"nodeName": "n1", "containers": [{**container, "image": "x:1"}]},
                    status={
                        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                        "containerStatuses": [{
                            "name": container["name"], "ready": True, "restartCount": 0,
                            "state": {"running": {"startedAt": fakekuberay.BEGUN}},
                        }],
                    },
                )  # fmt: skip
        replicas = [
            {
                "replica_id": f"r{number}", "state": "RUNNING", "node_instance_id": f"{CLUSTER}-cpu-{number}",
                "start_time_s": 1,
            }
            for number in range(self.wanted)
        ]  # fmt: skip
        deployment = {"status": "HEALTHY", "target_num_replicas": self.wanted, "replicas": replicas}
        answer: Any = {"applications": {"tiny": {"status": "RUNNING", "deployments": {"LLMServer:tiny": deployment}}}}
        self.api.answer("GET", ":dashboard/proxy/api/serve/applications/$", (200, answer))

    def room(self, workers: int) -> None:
        """Make the node as large as so many workers and a half."""
        spec = self.api.stored("RayService", "tiny")["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]
        memory = spec["spec"]["containers"][0]["resources"]["requests"]["memory"]
        node = self.api.stored("Node", "n1", "")
        node["status"]["allocatable"]["memory"] = f"{int(float(memory.removesuffix('Gi')) * (workers + 0.5))}Gi"
        self.api.put(**node)


@pytest.fixture
def workers(api: FakeAPI) -> Workers:
    return Workers(api)


def deployed(run: Run, workers: Workers, replicas: int, room: int) -> None:
    result = run(*TINY, "--min-replicas", str(replicas), "--max-replicas", str(replicas))
    assert result.code == 0, str(result)
    workers.room(room)


def applied(api: FakeAPI, seen: int) -> list[tuple[tuple[int, int], bool]]:
    """Bounds of the workers, and whether the change is in it, of each RayService that was applied since."""
    found = []
    for request in api.requests[seen:]:
        if request.method == "PATCH" and request.path.endswith("/rayservices/tiny") and "dryRun" not in request.query:
            spec = json.loads(request.body)["spec"]
            (group,) = spec["rayClusterConfig"]["workerGroupSpecs"]
            model = yaml.safe_load(spec["serveConfigV2"])["applications"][0]["deployments"][0]["autoscaling_config"]
            bounds = (model["min_replicas"], model["max_replicas"])
            assert bounds == (group["minReplicas"], group["maxReplicas"])
            found.append((bounds, "COLOR" in json.dumps(group)))
    return found


def test_fewer_replicas_make_room_for_the_second_ray_cluster(run: Run, api: FakeAPI, workers: Workers) -> None:
    deployed(run, workers, 2, room=2)
    seen = len(api.requests)
    result = run(*TINY, *OTHER, "--min-replicas", "2", "--max-replicas", "2")
    assert result.code == 0, str(result)
    assert "shrink: available replicas before, during and after: tiny 2 → 1 → 1 → 2" in result.err
    assert "--upgrade shrink" not in result.err, "it is what happens"
    assert result.err.index("tiny 2 → 1 → 1 → 2") < result.err.index("rayservice/tiny configured")
    assert applied(api, seen) == [((1, 1), False), ((1, 2), True), ((2, 2), True)]
    assert result.err.count("ready       tiny") == 1, "the service is Ready once all its replicas are back"
    revisions = [api.stored("ControllerRevision", name) for name in api.names("ControllerRevision")]
    kept = next(item for item in revisions[-1]["data"]["manifests"] if item["kind"] == "RayService")
    assert kept["spec"]["serveConfigV2"] == api.stored("RayService", "tiny")["spec"]["serveConfigV2"]
    assert len(revisions) == 2


@pytest.mark.parametrize(
    ("replicas", "room", "numbers"),
    [
        (2, 3, [((2, 2), False), ((1, 2), True), ((2, 2), True)]),
        (3, 3, [((2, 2), False), ((1, 3), True), ((3, 3), True)]),
        (4, 4, [((2, 2), False), ((2, 4), True), ((4, 4), True)]),
        (4, 5, [((3, 3), False), ((2, 4), True), ((4, 4), True)]),
    ],
)
def test_as_few_as_possible_go(
    run: Run, api: FakeAPI, workers: Workers, replicas: int, room: int, numbers: list[Any]
) -> None:
    deployed(run, workers, replicas, room)
    seen = len(api.requests)
    bounds = ("--min-replicas", str(replicas), "--max-replicas", str(replicas))
    result = run(*TINY, *OTHER, *bounds)
    assert result.code == 0, str(result)
    # A first RayCluster that keeps all its replicas is not written.
    assert applied(api, seen) == [one for one in numbers if one != ((replicas, replicas), False)]


def test_a_second_ray_cluster_with_a_place_needs_none_of_it(run: Run, api: FakeAPI, workers: Workers) -> None:
    deployed(run, workers, 2, room=5)
    seen = len(api.requests)
    bounds = ("--min-replicas", "2", "--max-replicas", "2")
    result = run(*TINY, *OTHER, *bounds, "--upgrade", "shrink")
    assert result.code == 0, str(result)
    assert "--upgrade shrink is not needed" in result.err
    assert applied(api, seen) == [((2, 2), True)]


def test_all_replicas_are_kept_if_that_is_asked_for(run: Run, api: FakeAPI, workers: Workers) -> None:
    deployed(run, workers, 2, room=2)
    seen = len(api.requests)
    bounds = ("--min-replicas", "2", "--max-replicas", "2")
    refused = run(*TINY, *OTHER, *bounds, "--no-wait")
    assert (refused.code, "cannot be combined with --no-wait" in refused.err) == (1, True), str(refused)
    assert applied(api, seen) == []
    result = run(*TINY, *OTHER, *bounds, "--no-wait", "--upgrade", "new-cluster")
    assert result.code == 0, str(result)
    assert applied(api, seen) == [((2, 2), True)]


def test_a_dry_run_says_the_numbers(run: Run, api: FakeAPI, workers: Workers) -> None:
    deployed(run, workers, 2, room=2)
    seen = len(api.requests)
    result = run(*TINY, *OTHER, "--min-replicas", "2", "--max-replicas", "2", "--dry-run=server")
    assert (result.code, "tiny 2 → 1 → 1 → 2" in result.err) == (0, True), str(result)
    assert applied(api, seen) == []


def test_the_only_replica_goes_first_if_the_outage_is_accepted(run: Run, api: FakeAPI, workers: Workers) -> None:
    deployed(run, workers, 1, room=1)
    seen = len(api.requests)
    refused = run(*TINY, *OTHER)
    assert refused.code == 1, str(refused)
    assert "does not fit next to the running one" in refused.err
    assert "each model has one replica" in refused.err
    assert "--upgrade new-cluster    # waits for capacity" in refused.err
    assert "if the outage is accepted, the running one is deleted first" in refused.err
    assert "--accept-outage    # proceeds anyway" in refused.err
    assert applied(api, seen) == []
    made = run(*TINY, *OTHER, "--accept-outage")
    assert made.code == 0, str(made)
    assert applied(api, seen) == [((1, 1), True)]
    assert made.err.index("rayservice/tiny configured") < made.err.index(f"raycluster/{CLUSTER} deleted")


def test_a_service_that_does_not_answer_is_replaced_without_a_question(
    run: Run, api: FakeAPI, workers: Workers
) -> None:
    deployed(run, workers, 1, room=1)
    stored = api.stored("RayService", "tiny")
    conditions = [{"type": "Ready", "status": "False", "reason": "ZeroServeEndpoints"}]
    api.put(**{**stored, "status": {**stored["status"], "numServeEndpoints": 0, "conditions": conditions}})
    result = run(*TINY, *OTHER, "--no-wait")
    assert (result.code, f"raycluster/{CLUSTER} deleted" in result.err) == (0, True), str(result)


def test_what_no_node_can_hold_is_not_applied(run: Run, api: FakeAPI, workers: Workers) -> None:
    deployed(run, workers, 1, room=1)
    seen = len(api.requests)
    result = run(*TINY, *OTHER, "--memory", "400Gi", "--accept-outage")
    assert (result.code, "and would not fit without it either" in result.err) == (1, True), str(result)
    assert "--accept-outage" not in result.err
    assert applied(api, seen) == []


def test_the_replicas_come_back_if_others_take_their_places(
    run: Run, api: FakeAPI, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed(run, workers, 2, room=2)
    monkeypatch.setattr(shrink, "RELEASED_SECONDS", 0.1)
    monkeypatch.setattr(shrink, "_POLL_SECONDS", 0.05)
    seen, workers.held = len(api.requests), 2
    bounds = ("--min-replicas", "2", "--max-replicas", "2")
    result = run(*TINY, *OTHER, *bounds)
    assert result.code == 1, str(result)
    assert "the freed capacity was taken by other pods; the replicas were restored" in result.err
    assert applied(api, seen) == [((1, 1), False), ((2, 2), False)]
    assert len(api.names("ControllerRevision")) == 1


def test_after_the_first_step_the_rest_follows(run: Run, api: FakeAPI, workers: Workers) -> None:
    """The command was interrupted when the service had its fewer replicas, and is run again."""
    deployed(run, workers, 2, room=2)
    assert run("scale", "tiny", "-n", "llm", "--replicas", "1").code == 0
    seen = len(api.requests)
    result = run(*TINY, *OTHER, "--min-replicas", "2", "--max-replicas", "2")
    assert result.code == 0, str(result)
    assert "tiny 1 → 1 → 1 → 2" in result.err
    assert applied(api, seen) == [((1, 2), True), ((2, 2), True)]


def test_a_change_in_place_needs_no_second_ray_cluster(run: Run, workers: Workers) -> None:
    deployed(run, workers, 2, room=2)
    bounds = ("--min-replicas", "2", "--max-replicas", "3")
    result = run(*TINY, *bounds, "--upgrade", "shrink", "--no-wait")
    assert "--upgrade shrink is not needed: the change starts no second RayCluster" in result.err, str(result)


def test_an_interrupted_sequence_goes_on(run: Run, api: FakeAPI, workers: Workers) -> None:
    """The second RayCluster has not taken over when the command is run again: all replicas come after that."""
    deployed(run, workers, 2, room=2)
    bounds = ("--min-replicas", "2", "--max-replicas", "2")
    assert run(*TINY, *OTHER, "--min-replicas", "1", "--max-replicas", "2", "--upgrade", "new-cluster").code == 0
    stored = api.stored("RayService", "tiny")
    api.put(**{**stored, "status": {**stored["status"], "pendingServiceStatus": {"rayClusterName": "tiny-second"}}})
    seen = len(api.requests)
    hurried = ("1s" if one == "20s" else one for one in TINY)
    result = run(*hurried, *OTHER, *bounds)
    assert result.code == 3, str(result)
    assert "switching to the new RayCluster first" in result.err
    assert applied(api, seen) == [((1, 2), True)], "not all replicas while it does not fit for them"


def restarted(api: FakeAPI, seen: int) -> list[tuple[int, int] | str]:
    """What was applied since, as `applied` says; "restart" for the annotation that starts a second RayCluster."""
    found: list[tuple[int, int] | str] = []
    for request in api.requests[seen:]:
        if request.method == "PATCH" and request.path.endswith("/rayservices/tiny") and "dryRun" not in request.query:
            config = json.loads(request.body)["spec"]["rayClusterConfig"]
            groups = config.get("workerGroupSpecs")
            found.append((groups[0]["minReplicas"], groups[0]["maxReplicas"]) if groups else "restart")
    return found


def test_a_restart_makes_room_for_the_second_ray_cluster(run: Run, api: FakeAPI, workers: Workers) -> None:
    deployed(run, workers, 2, room=2)
    seen = len(api.requests)
    refused = run("restart", "tiny", "-n", "llm", "--no-wait")
    assert (refused.code, "cannot be combined with --no-wait" in refused.err) == (1, True), str(refused)
    assert restarted(api, seen) == []
    before = len(api.requests)
    result = run("restart", "tiny", "-n", "llm", "--timeout", "20s")
    assert result.code == 0, str(result)
    assert [one.path for one in api.requests[before:]].count(HISTORY) == 1
    assert "tiny 2 → 1 → 1 → 2" in result.err
    assert "--upgrade shrink" not in result.err + result.out, "it is what happens"
    assert "rayllm-ctl rollback tiny -n llm --to 1 restores all replicas" in result.err
    assert restarted(api, seen) == [(1, 1), (1, 2), "restart", (2, 2)]
    assert len(api.names("ControllerRevision")) == 1


def test_a_restart_that_was_interrupted_gets_its_replicas_back_as_it_says(
    run: Run, api: FakeAPI, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed(run, workers, 2, room=2)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shrink, "_await_place", interrupted)
        result = run("restart", "tiny", "-n", "llm", "--timeout", "20s")
    assert result.code == 130, str(result)
    seen = len(api.requests)
    back = run("rollback", "tiny", "-n", "llm", "--to", "1", "--timeout", "20s")
    assert back.code == 0, str(back)
    assert applied(api, seen) == [((2, 2), False)]


def test_a_restart_waits_for_a_place_if_that_is_asked_for(run: Run, api: FakeAPI, workers: Workers) -> None:
    deployed(run, workers, 2, room=2)
    seen = len(api.requests)
    result = run("restart", "tiny", "-n", "llm", "--upgrade", "new-cluster", "--no-wait")
    assert result.code == 0, str(result)
    assert restarted(api, seen) == ["restart"]


def test_a_restart_of_the_only_replica_without_a_place_is_an_outage(run: Run, api: FakeAPI, workers: Workers) -> None:
    deployed(run, workers, 1, room=1)
    seen = len(api.requests)
    refused = run("restart", "tiny", "-n", "llm")
    assert (refused.code, "does not fit next to the running one" in refused.err) == (1, True), str(refused)
    assert "--accept-outage    # proceeds anyway" in refused.err
    assert restarted(api, seen) == []
    made = run("restart", "tiny", "-n", "llm", "--accept-outage", "--timeout", "20s")
    assert (made.code, f"raycluster/{CLUSTER} deleted" in made.err) == (0, True), str(made)
    assert restarted(api, seen) == ["restart"]


def test_what_another_tool_applied_is_left_to_it(run: Run, api: FakeAPI, workers: Workers) -> None:
    deployed(run, workers, 2, room=2)
    stored = api.stored("RayService", "tiny")
    stored["metadata"]["managedFields"] = [
        {**field, "manager": "argocd-controller"} for field in stored["metadata"]["managedFields"]
    ]
    api.put(**stored)
    for name in api.names("ControllerRevision"):
        api.remove("ControllerRevision", name)
    seen = len(api.requests)
    result = run("restart", "tiny", "-n", "llm", "--no-wait")
    assert (result.code, "shrink:" in result.err) == (0, False), str(result)
    assert "rayservice/tiny was not applied by rayllm-ctl but by argocd-controller: it keeps all replicas" in result.err
    assert restarted(api, seen) == ["restart"]


def test_a_restart_needs_only_the_object_of_the_service_to_make_room(run: Run, api: FakeAPI, workers: Workers) -> None:
    deployed(run, workers, 2, room=2)
    api.answer("GET", "/networkpolicies$", status(500, "etcd is full"))
    seen = len(api.requests)
    result = run("restart", "tiny", "-n", "llm", "--timeout", "20s")
    assert result.code == 0, str(result)
    assert restarted(api, seen) == [(1, 1), (1, 2), "restart", (2, 2)]
