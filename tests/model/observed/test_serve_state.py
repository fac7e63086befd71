"""Serve's answer as types: what it holds, and what it does not say."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.model.observed.serve_state import read_serve

NODE = "c" * 56
ANSWER: dict[str, Any] = {
    "controller_info": {"node_id": NODE, "node_instance_id": "head-0", "log_file_path": "/serve/controller_1.log"},
    "applications": {
        "llm": {
            "status": "RUNNING",
            "deployed_app_config": {"name": "llm", "args": {"llm_configs": []}},
            "deployments": {
                "LLMServer:m": {
                    "status": "HEALTHY",
                    "target_num_replicas": 3,
                    "deployment_config": {
                        "max_ongoing_requests": 32,
                        "autoscaling_config": {"min_replicas": 1, "max_replicas": 4, "target_ongoing_requests": 16},
                    },
                    "replicas": [
                        {"replica_id": "a", "state": "RUNNING", "node_instance_id": "worker-0", "actor_id": "f1"},
                        {"replica_id": "b", "state": "RUNNING", "node_id": "d" * 56, "log_file_path": "/serve/b.log"},
                        {"replica_id": "c", "state": "STARTING"},
                    ],
                },
                "OpenAiIngress": {"status": "HEALTHY", "deployment_config": {"num_replicas": 2}},
            },
        },
        "other": {"status": "DELETING"},
    },
}


def test_applications_deployments_and_replicas() -> None:
    state = read_serve(ANSWER)
    assert state.error == ""
    assert [(app.name, app.status) for app in state.applications] == [("llm", "RUNNING"), ("other", "DELETING")]
    [engine] = state.engines
    assert engine == state.deployment("llm", "LLMServer:m")
    assert (engine.target, engine.low, engine.high, engine.autoscaled) == (3, 1, 4, True)
    assert (engine.requests, engine.wanted_requests) == (32, 16.0)
    assert [replica.id for replica in engine.running] == ["a", "b"]
    assert [replica.place for replica in engine.replicas] == ["worker-0", "d" * 8, ""]
    assert [replica.actor for replica in engine.replicas] == ["f1", "", ""]
    assert engine.replicas[1].log_file == "/serve/b.log"


def test_what_an_answer_says_beside_its_deployments() -> None:
    state = read_serve(ANSWER)
    application = state.application("llm")
    assert application is not None
    assert application.config == {"name": "llm", "args": {"llm_configs": []}}
    assert (state.controller.node, state.controller.pod) == (NODE, "head-0")
    assert state.controller.log_file == "/serve/controller_1.log"
    assert state.pods == {NODE: "head-0"}
    assert not state.no_controller


def test_names_that_serve_does_not_know() -> None:
    state = read_serve(ANSWER)
    assert state.application("chat") is None
    assert state.deployment("other", "LLMServer:m") is None


@pytest.mark.parametrize("answer", [None, [], "text", {}, {"applications": None}, {"applications": []}])
def test_no_answer_is_not_an_answer_without_applications(answer: Any) -> None:
    assert read_serve(answer).error == "no answer of Serve"
    assert read_serve({"applications": {}}).error == ""


def test_why_there_is_no_answer_is_kept() -> None:
    state = read_serve({"error": "no answer within 5 s", "silentNode": "node-a", "applications": {"llm": {}}})
    assert (state.error, state.silent_node, state.applications) == ("no answer within 5 s", "node-a", ())


@pytest.mark.parametrize(("info", "missing"), [({}, True), (None, True), ({"node_id": NODE}, False)])
def test_an_answer_of_the_dashboard_alone(info: Any, missing: bool) -> None:
    assert read_serve({"controller_info": info, "applications": {}}).no_controller is missing
    assert not read_serve({"applications": {}}).no_controller


def test_a_replica_that_was_lost_during_a_change_is_not_one_that_does_not_start() -> None:
    lost = {"status": "DEPLOY_FAILED", "status_trigger": "HEALTH_CHECK_FAILED"}
    failed = {"status": "DEPLOY_FAILED", "status_trigger": "REPLICA_STARTUP_FAILED"}
    state = read_serve({"applications": {"llm": {"deployments": {"a": lost, "b": failed}}}})
    assert [(one.status, one.lost) for one in state.deployments] == [("UNHEALTHY", True), ("DEPLOY_FAILED", False)]
