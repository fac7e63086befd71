"""What `deploy` says of a change before it makes it, and which change it only makes if the outage is accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Run
from tests.cluster.fakeapi import Answer, FakeAPI, status

TINY = (
    "deploy", "--model", "tiny", "--model-path", "/models/tiny", "--accelerator", "cpu", "--name", "tiny",
    "--image", "example.com/vllm-cpu:1", "--max-model-len", "1024", "-n", "llm", "--offline",
)  # fmt: skip
RESTART = ("--max-num-seqs", "7")
NO_PROXY = 'User "alice" cannot get resource "services/proxy" in API group "" in the namespace "llm"'


@pytest.fixture
def service(run: Run) -> None:
    result = run(*TINY)
    assert result.code == 0, str(result)
    assert "restart" not in result.err


def config(api: FakeAPI) -> str:
    return str(api.stored("RayService", "tiny")["spec"]["serveConfigV2"])


def with_replicas(api: FakeAPI, count: int) -> None:
    replicas = [{"replica_id": f"r{i}", "state": "RUNNING", "start_time_s": 1} for i in range(count)]
    deployment = {"status": "HEALTHY", "target_num_replicas": count, "replicas": replicas}
    application = {"status": "RUNNING", "deployments": {"LLMServer:tiny": deployment, "OpenAiIngress": deployment}}
    answer: Any = {"applications": {"tiny": application}}
    api.answer("GET", ":dashboard/proxy/api/serve/applications/$", (200, answer))


def fill_the_node(api: FakeAPI) -> None:
    """No other worker has a place."""
    node = api.stored("Node", "n1", "")
    node["status"]["allocatable"]["memory"] = "1Gi"
    api.put(**node)


def bounds(api: FakeAPI) -> list[tuple[tuple[int, int], ...]]:
    """The replica bounds of the model and of the ingress, and those of the pods, in each state that was applied."""
    found = []
    for request in api.requests:
        if request.method == "PATCH" and request.path.endswith("/rayservices/tiny") and "dryRun" not in request.query:
            spec = json.loads(request.body)["spec"]
            text = yaml.safe_load(spec["serveConfigV2"])["applications"][0]["deployments"]
            (group,) = spec["rayClusterConfig"]["workerGroupSpecs"]
            scaling = [one["autoscaling_config"] for one in text]
            found.append((*((one["min_replicas"], one["max_replicas"]) for one in scaling),
                          (group["minReplicas"], group["maxReplicas"])))  # fmt: skip
    return found


@pytest.mark.usefixtures("service")
def test_one_more_replica_answers_while_the_only_one_restarts(run: Run, api: FakeAPI) -> None:
    before, seen = config(api), len(bounds(api))
    result = run(*TINY, *RESTART)
    assert result.code == 0, str(result)
    said = "surge: tiny: 2 replicas while they are replaced one at a time; on node n1"
    assert result.err.index("is unavailable") < result.err.index(said) < result.err.index("rayservice/tiny configured")
    assert bounds(api)[seen:] == [((2, 2), (2, 2), (2, 2)), ((1, 1), (1, 1), (1, 1))]
    assert result.err.count("ready       tiny") == 1, "the service is Ready once it has its own bounds"
    assert config(api) != before
    revisions = [api.stored("ControllerRevision", name) for name in api.names("ControllerRevision")]
    assert len(revisions) == 2
    kept = next(item for item in revisions[-1]["data"]["manifests"] if item["kind"] == "RayService")
    assert kept["spec"]["serveConfigV2"] == config(api), "the history has what the user asked for"
    assert "unchanged" in run(*TINY, *RESTART, "--no-wait").err


@pytest.mark.usefixtures("service")
def test_a_surge_is_made_only_as_asked_for(run: Run, api: FakeAPI) -> None:
    before = config(api)
    no_wait = run(*TINY, *RESTART, "--upgrade", "surge", "--no-wait")
    assert (no_wait.code, "cannot be combined with --no-wait" in no_wait.err) == (1, True), str(no_wait)
    in_place = run(*TINY, *RESTART, "--upgrade", "in-place")
    assert (in_place.code, "would be unavailable during this change" in in_place.err) == (1, True), str(in_place)
    by_default = run(*TINY, *RESTART, "--no-wait")
    assert (by_default.code, "--wait    # an extra replica keeps answering" in by_default.err) == (1, True)
    other = run(*TINY, "--env", "COLOR=blue", "--upgrade", "surge")
    assert (other.code, "cannot change on the running RayCluster" in other.err) == (1, True), str(other)
    assert "--upgrade new-cluster" in other.err
    assert config(api) == before

    fill_the_node(api)
    asked = run(*TINY, *RESTART, "--upgrade", "surge")
    assert asked.code == 0, str(asked)
    assert "insufficient memory" in asked.err, "it is said that the replica has to wait for a place"
    assert config(api) != before


@pytest.mark.usefixtures("service")
def test_the_file_says_how_unless_a_flag_does(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tiny.yaml"
    header = "apiVersion: rayllm.io/v1alpha1\nkind: LLMService\nmetadata: {name: tiny}\n"
    file.write_text(f"{header}spec: {{rollout: in-place, model: {{id: m}}}}\n")
    in_place = run(*TINY, *RESTART, "-f", str(file))
    assert (in_place.code, "would be unavailable during this change" in in_place.err) == (1, True), str(in_place)
    by_flag = run(*TINY, *RESTART, "-f", str(file), "--upgrade", "auto")
    assert by_flag.code == 0, str(by_flag)
    assert "surge: tiny: 2 replicas" in by_flag.err


@pytest.mark.usefixtures("service")
def test_apply_takes_the_same_flag(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tiny.yaml"
    header = "apiVersion: rayllm.io/v1alpha1\nkind: LLMService\nmetadata: {name: tiny, namespace: llm}\n"
    engine = "engine: {image: 'example.com/vllm-cpu:1', maxModelLen: 1024, maxNumSeqs: 7}"
    model = "model: {id: tiny, path: /models/tiny}, accelerator: {kind: cpu}"
    file.write_text(f"{header}spec: {{rollout: surge, {model}, {engine}}}\n")
    result = run("apply", "-f", str(file), "--offline", "--upgrade", "in-place")
    assert (result.code, "would be unavailable during this change" in result.err) == (1, True), str(result)
    result = run("apply", "-f", str(file), "--offline", "--wait")
    assert result.code == 0, str(result)
    assert "surge: tiny: 2 replicas" in result.err


@pytest.mark.usefixtures("service")
def test_a_change_of_nothing_that_restarts_needs_no_surge(run: Run, api: FakeAPI) -> None:
    result = run(*TINY, "--max-replicas", "3", "--upgrade", "surge", "--no-wait")
    assert result.code == 0, str(result)
    assert "--upgrade surge is not needed" in result.err


@pytest.mark.usefixtures("service")
def test_a_second_ray_cluster_takes_a_change_that_would_restart_replicas(run: Run, api: FakeAPI) -> None:
    before = config(api)
    result = run(*TINY, *RESTART, "--upgrade", "new-cluster", "--no-wait")
    assert result.code == 0, str(result)
    assert "new-cluster: KubeRay starts a second RayCluster" in result.err
    assert "restart: application" not in result.err
    assert config(api) != before
    patches = [request for request in api.requests if request.method == "PATCH" and "rayservices" in request.path]
    written = [request for request in patches if "dryRun" not in str(request.query)][-2:]
    assert ["restarted-at" in request.body.decode() for request in written] == [True, False]


@pytest.mark.usefixtures("service")
def test_a_change_that_stops_the_service_is_not_made_unless_that_is_accepted(run: Run, api: FakeAPI) -> None:
    fill_the_node(api)
    before = config(api)
    refused = run(*TINY, *RESTART)
    assert refused.code == 1, str(refused)
    assert "rayservice/tiny would be unavailable during this change; nothing was applied" in refused.err
    assert "no capacity for an extra replica: " in refused.err
    assert "--upgrade surge    # waits for capacity" in refused.err
    assert "--accept-outage    # proceeds anyway" in refused.err
    assert config(api) == before
    assert api.names("ControllerRevision") == ["tiny-1"]

    made = run(*TINY, *RESTART, "--accept-outage")
    assert made.code == 0, str(made)
    assert made.err.index("restart: application tiny") < made.err.index("rayservice/tiny configured")
    assert config(api) != before


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (status(503, "no endpoints available", "ServiceUnavailable"), "no endpoints available"),
        (status(403, f"services is forbidden: {NO_PROXY}", "Forbidden"), "not permitted to get services/proxy"),
    ],
)
def test_replicas_that_cannot_be_counted_are_not_taken_for_running(
    run: Run, api: FakeAPI, answer: Answer, why: str
) -> None:
    assert run(*TINY, "--min-replicas", "2").code == 0
    api.answer("GET", ":dashboard/proxy/", answer)
    before = config(api)
    refused = run(*TINY, "--min-replicas", "2", *RESTART)
    assert refused.code == 1, str(refused)
    assert f"how many of them run is unknown: Serve's state could not be read ({why}" in refused.err
    assert "a deployment with one replica is unavailable" in refused.err
    assert "keep answering, about" not in refused.err
    assert "hint: rayllm-ctl status tiny -n llm" in refused.err
    assert config(api) == before
    compared = run("diff", *TINY[1:], "--min-replicas", "2", *RESTART, "--fail-on", "outage")
    assert (compared.code, "how many of them run is unknown" in compared.out) == (6, True), str(compared)

    made = run(*TINY, "--min-replicas", "2", *RESTART, "--accept-outage", "--no-wait")
    assert made.code == 0, str(made)
    assert config(api) != before


@pytest.mark.usefixtures("service")
def test_a_second_replica_that_answers_meanwhile_is_no_outage(run: Run, api: FakeAPI) -> None:
    with_replicas(api, 2)
    result = run(*TINY, *RESTART, "--no-wait")
    assert result.code == 0, str(result)
    assert (
        "restart: application tiny: replicas restart on the same Ray cluster: LLMServer:tiny (2 replicas" in result.err
    )


@pytest.mark.usefixtures("service")
def test_a_service_that_never_answered_can_be_changed(run: Run, api: FakeAPI) -> None:
    stored = api.stored("RayService", "tiny")
    active = stored["status"]["activeServiceStatus"]
    status = {"numServeEndpoints": 0, "activeServiceStatus": None, "pendingServiceStatus": active}
    api.put(**{**stored, "status": {**stored["status"], **status}})
    result = run(*TINY, *RESTART, "--no-wait")
    assert result.code == 0, str(result)


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize(("reason", "code"), [("Initializing", 1), ("ZeroServeEndpoints", 0)])
def test_kuberay_counts_addresses_later_than_they_are_there(run: Run, api: FakeAPI, reason: str, code: int) -> None:
    """Initializing: it has served for a second or two; ZeroServeEndpoints: it did, and does no longer."""
    stored = api.stored("RayService", "tiny")
    conditions = [{"type": "Ready", "status": "False", "reason": reason}]
    api.put(**{**stored, "status": {**stored["status"], "numServeEndpoints": 0, "conditions": conditions}})
    result = run(*TINY, *RESTART, "--no-wait")
    assert result.code == code, str(result)
    assert ("--accept-outage" in result.err) is (code == 1), str(result)


@pytest.mark.usefixtures("service")
def test_a_dry_run_says_it_and_needs_no_consent(run: Run) -> None:
    result = run(*TINY, *RESTART, "--dry-run=server")
    assert result.code == 0, str(result)
    assert "is unavailable" in result.err


@pytest.mark.usefixtures("service")
def test_a_second_ray_cluster_is_announced_with_what_it_asks_for(run: Run) -> None:
    result = run(*TINY, "--env", "COLOR=blue", "--no-wait")
    assert result.code == 0, str(result)
    assert "new-cluster: KubeRay starts a second RayCluster" in result.err


@pytest.mark.usefixtures("service")
def test_nothing_is_said_where_nothing_changes(run: Run) -> None:
    result = run(*TINY, "--no-wait")
    assert result.code == 0, str(result)
    assert "unchanged" in result.err
    assert not [line for line in result.err.splitlines() if ": application" in line or "RayCluster" in line]


@pytest.mark.usefixtures("service")
def test_a_rollback_that_stops_the_service_has_to_be_accepted_too(run: Run, api: FakeAPI) -> None:
    fill_the_node(api)
    assert run(*TINY, *RESTART, "--accept-outage").code == 0
    changed = config(api)
    refused = run("rollback", "tiny", "-n", "llm")
    assert refused.code == 1, str(refused)
    assert "--accept-outage" in refused.err
    assert config(api) == changed
    assert run("rollback", "tiny", "-n", "llm", "--accept-outage").code == 0
    assert config(api) != changed


SEVERAL = """
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {{name: tiny}}
spec:
  engine: {{image: "x:1"}}
  models:
  - {{id: tiny, path: /models/a, accelerator: {{kind: cpu}}, engine: {{maxModelLen: 1024, maxNumSeqs: {first}}}}}
  - {{id: other, path: /models/b, accelerator: {{kind: cpu}}, engine: {{maxModelLen: 1024}}}}
"""


def test_of_several_models_only_the_one_that_restarts_gets_another_replica(
    run: Run, api: FakeAPI, tmp_path: Path
) -> None:
    file = tmp_path / "several.yaml"
    deploy = ("deploy", "-f", str(file), "--offline", "-n", "llm")
    file.write_text(SEVERAL.format(first=8))
    assert (first := run(*deploy)).code == 0, str(first)
    running = {"replica_id": "r1", "state": "RUNNING", "start_time_s": 1}
    one = {"status": "HEALTHY", "target_num_replicas": 1, "replicas": [running]}
    applications = yaml.safe_load(config(api))["applications"]
    names = {item["name"]: [entry["name"] for entry in item.get("deployments", ())] for item in applications}
    state = {
        name: {"status": "RUNNING", "deployments": dict.fromkeys(deployments, one)}
        for name, deployments in names.items()
    }
    api.answer("GET", ":dashboard/proxy/api/serve/applications/$", (200, {"applications": state}))

    file.write_text(SEVERAL.format(first=9))
    result = run(*deploy, "--dry-run=server")
    assert "surge: tiny: 2 replicas while they are replaced" in result.err, str(result)
    seen = len(api.requests)
    result = run(*deploy, "--timeout", "5s")
    raised = next(
        json.loads(request.body)["spec"] for request in api.requests[seen:]
        if request.method == "PATCH" and request.path.endswith("/rayservices/tiny") and "dryRun" not in request.query
    )  # fmt: skip
    groups = {group["groupName"]: group["minReplicas"] for group in raised["rayClusterConfig"]["workerGroupSpecs"]}
    assert (groups["tiny"], groups["other"]) == (2, 1), groups


def test_a_ray_cluster_of_its_own_has_one_way(run: Run) -> None:
    assert run(*TINY, "--kind", "raycluster").code == 0
    result = run(*TINY, "--kind", "raycluster", *RESTART, "--upgrade", "surge")
    assert (result.code, "--upgrade surge is for RayServices" in result.err) == (1, True), str(result)
