"""Failures on demand, and clusters that do not know of each other."""

from __future__ import annotations

import json

import pytest

from .conftest import HEAD, SERVER, Simulation, llm_config, pod


def simulate(simulation: Simulation, **changes: object) -> tuple[int, str]:
    return simulation.ask("PUT", "/_simulate", changes)


def test_application_fails_as_a_whole(one_worker: Simulation) -> None:
    simulate(one_worker, fail={"status": "DEPLOY_FAILED", "message": "No module named 'nosuch'"})
    one_worker.put(llm_config())
    app = one_worker.settle()
    assert (app["status"], app["message"], app["deployments"]) == ("DEPLOY_FAILED", "No module named 'nosuch'", {})
    simulate(one_worker, fail=None)
    assert one_worker.settle()["status"] == "RUNNING"


def test_one_deployment_fails_and_its_log_says_why(one_worker: Simulation) -> None:
    simulate(
        one_worker,
        fail={
            "status": "DEPLOY_FAILED",
            "deployment": "LLMServer",
            "message": "Engine core failed",
            "log": "KV cache\n",
        },
    )
    one_worker.put(llm_config())
    app = one_worker.settle()
    assert (app["status"], app["message"]) == ("DEPLOY_FAILED", f"Failed to update the deployments ['{SERVER}'].")
    server = app["deployments"][SERVER]
    assert (server["status"], server["status_trigger"]) == ("DEPLOY_FAILED", "REPLICA_STARTUP_FAILED")
    assert server["message"] == "Engine core failed"
    actor = server["replicas"][0]["actor_id"]
    listed = json.loads(one_worker.ask("GET", "/api/v0/actors?detail=1")[1])["data"]["result"]
    assert actor in {one["actor_id"] for one in listed["result"]}
    assert listed["total"] == 2
    assert one_worker.ask("GET", f"/api/v0/logs/file?actor_id={actor}&suffix=err&lines=9") == (200, "KV cache\n")
    assert one_worker.ask("GET", f"/api/v0/logs/file?actor_id={actor}&suffix=out")[1] == ""


def test_crash_of_a_replica(one_worker: Simulation) -> None:
    assert simulate(one_worker, crash="LLMServer")[0] == 404
    one_worker.put(llm_config())
    one_worker.settle()
    assert simulate(one_worker, crash="LLMServer")[0] == 200
    assert one_worker.app()["status"] == "UNHEALTHY"
    assert one_worker.settle()["status"] == "RUNNING"


def test_slow_start_is_said_after_the_warning_time(one_worker: Simulation) -> None:
    simulate(one_worker, start_seconds=300, warning_seconds=5)
    one_worker.put(llm_config())
    app = one_worker.settle()
    assert app["status"] == "DEPLOYING"
    assert "1 replicas that have taken more than 5s to initialize" in app["deployments"][SERVER]["message"]


def test_rejected_config(one_worker: Simulation) -> None:
    simulate(one_worker, reject="validation error for ServeDeploySchema")
    assert one_worker.put(llm_config()) == (400, "validation error for ServeDeploySchema")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"start_secs": 1}, "unknown setting 'start_secs'"),
        ({"start_seconds": "1"}, "not a number: '1'"),
        ({"start_seconds": -1}, "not a number: -1"),
        ({"fail": {"status": "BROKEN"}}, "status is one of"),
        ({"fail": {"state": "UNHEALTHY"}}, "an object of texts"),
    ],
)
def test_wrong_settings_are_refused(one_worker: Simulation, changes: dict[str, object], text: str) -> None:
    status, said = simulate(one_worker, **changes)
    assert status == 400
    assert text in said


def test_settings_come_with_the_head_pod(simulation: Simulation) -> None:
    simulation.table.put(pod("head", HEAD, head=True, settings='{"start_seconds": 60}'))
    assert json.loads(simulation.ask("GET", "/_simulate")[1])["start_seconds"] == 60


def test_clusters_are_separate_and_forgotten_with_their_head(one_worker: Simulation) -> None:
    one_worker.table.put(pod("head", "127.0.0.9", head=True, cluster="other-xyz"))
    one_worker.put(llm_config())
    assert one_worker.details("127.0.0.9")["applications"] == {}
    simulate(one_worker, start_seconds=9)

    # A new head with the address of the old one is a new Ray cluster.
    one_worker.table.remove("uid-llm-abc-head")
    one_worker.table.put(pod("head", HEAD, head=True, uid="uid-new"))
    assert one_worker.details()["applications"] == {}
    assert json.loads(one_worker.ask("GET", "/_simulate")[1])["start_seconds"] == 3


def test_addresses_without_a_pod(simulation: Simulation) -> None:
    status, said = simulation.ask("GET", "/api/version", address="127.0.0.77")
    assert status == 404
    assert "127.0.0.77" in said
