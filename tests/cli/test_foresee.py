"""What `deploy` says of a change before it makes it, and which change it only makes if the outage is accepted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cluster.fakeapi import FakeAPI

TINY = (
    "deploy", "--model", "tiny", "--model-path", "/models/tiny", "--accelerator", "cpu", "--name", "tiny",
    "--image", "example.com/vllm-cpu:1", "--max-model-len", "1024", "-n", "llm", "--offline",
)  # fmt: skip
RESTART = ("--max-num-seqs", "7")


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


@pytest.mark.usefixtures("service")
def test_a_change_that_stops_the_service_is_not_made_unless_that_is_accepted(run: Run, api: FakeAPI) -> None:
    before = config(api)
    refused = run(*TINY, *RESTART)
    assert refused.code == 1, str(refused)
    assert "rayservice/tiny would not answer for a while; nothing was applied" in refused.err
    assert "rayllm-ctl scale tiny -n llm --min 2" in refused.err
    assert "--accept-outage to go on nevertheless" in refused.err
    assert config(api) == before
    assert api.names("ControllerRevision") == ["tiny-1"]

    made = run(*TINY, *RESTART, "--accept-outage")
    assert made.code == 0, str(made)
    assert made.err.index("restart: application tiny") < made.err.index("rayservice/tiny configured")
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
    api.put(**{**stored, "status": {**stored["status"], "numServeEndpoints": 0}})
    result = run(*TINY, *RESTART, "--no-wait")
    assert result.code == 0, str(result)


@pytest.mark.usefixtures("service")
def test_a_dry_run_says_it_and_needs_no_consent(run: Run) -> None:
    result = run(*TINY, *RESTART, "--dry-run=server")
    assert result.code == 0, str(result)
    assert "does not answer" in result.err


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
    assert run(*TINY, *RESTART, "--accept-outage").code == 0
    changed = config(api)
    refused = run("rollback", "tiny", "-n", "llm")
    assert refused.code == 1, str(refused)
    assert "--accept-outage" in refused.err
    assert config(api) == changed
    assert run("rollback", "tiny", "-n", "llm", "--accept-outage").code == 0
    assert config(api) != changed
