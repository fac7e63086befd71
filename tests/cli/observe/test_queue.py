"""The queue of a service with a gateway, in `status` and `watch`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.access.test_keys import KEYS, SPEC, deployed
from tests.cli.conftest import Run
from tests.cluster.fakeapi import FakeAPI

OPEN = SPEC + "  gateway: {queue: {maxPending: 100}}\n"
QUEUE = "chat-serve-svc:serve/proxy/queue$"
METRICS = "chat-bcdfg-head-svc:metrics/proxy/metrics$"
SERVE = "chat-bcdfg-head-svc:dashboard/proxy/api/serve/applications/$"


def state(**deployments: Any) -> tuple[int, dict[str, Any]]:
    """Serve's answer: the ingress, and the application of the model."""
    replica = {"replica_id": "r", "state": "RUNNING", "node_instance_id": "chat-bcdfg-worker", "start_time_s": 1}
    model = {
        "status": "HEALTHY", "target_num_replicas": 2, "deployment_config": {"max_ongoing_requests": 4},
        "replicas": [replica, {**replica, "replica_id": "s"}, {**replica, "replica_id": "t", "state": "STARTING"}],
    }  # fmt: skip
    ingress = {"status": "RUNNING", "deployments": {"OpenAiIngress": {"status": "HEALTHY", "replicas": [replica]}}}
    return 200, {"applications": {
        "chat": ingress, "chat-tiny": {"status": "RUNNING", "deployments": {"LLMServer:tiny": model}}, **deployments,
    }}  # fmt: skip


def test_the_gateway_is_asked_where_there_are_no_keys(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    deployed(run, tmp_path, OPEN)
    figures = {"pending": 3, "running": 12, "replicas": 2, "maxPending": 100, "estimatedWaitSeconds": 1.5}
    api.answer("GET", QUEUE, (200, figures))
    assert "3 of at most 100 requests wait, 12 run" in run("status", "chat", "-n", "llm").out
    found = json.loads(run("status", "chat", "-n", "llm", "-o", "json").out)
    assert found["queue"] == {"pending": 3, "running": 12, "maxPending": 100}
    watched = run("watch", "chat", "-n", "llm", "--timeout", "1ms")
    assert "queue       3 of at most 100 requests wait, 12 run" in watched.err
    api.answer("GET", QUEUE, (500, b"oops"))
    status = run("status", "chat", "-n", "llm")
    assert "requests wait" not in status.out
    assert "the queue could not be read: service llm/chat-serve-svc answered 500: oops" in status.out


def test_serves_own_figures_are_read_where_there_are_keys(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    deployed(run, tmp_path, KEYS)
    api.answer("GET", SERVE, state())
    labels = 'WorkerId="x",application="chat-tiny",deployment="LLMServer:tiny"'
    api.answer("GET", METRICS, (200, (
        "# HELP ray_serve_autoscaling_total_requests Total\n"
        f"ray_serve_autoscaling_total_requests{{{labels}}} 10.6\n"
        'ray_serve_autoscaling_total_requests{application="chat",deployment="OpenAiIngress"} 40.0\n'
        f"ray_serve_autoscaling_desired_replicas{{{labels}}} 2.0\n"
    ).encode()))  # fmt: skip
    # Two replicas take four requests each; the third does not run yet.
    assert "3 requests wait, 8 run" in run("status", "chat", "-n", "llm").out
    assert not [one for one in api.requests if one.path.endswith("proxy/queue")]
    api.answer("GET", METRICS, (200, b""))
    assert "0 requests wait, 0 run" in run("status", "chat", "-n", "llm").out


def test_nobody_is_asked_without_a_gateway_or_before_it_runs(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    deployed(run, tmp_path, OPEN)
    api.answer("GET", SERVE, state(chat={"status": "DEPLOYING"}))
    asked = api.count("GET", "proxy/queue")
    assert run("status", "chat", "-n", "llm").out
    assert api.count("GET", "proxy/queue") == asked
    deployed(run, tmp_path, SPEC)
    assert "requests wait" not in run("status", "chat", "-n", "llm").out
    assert api.count("GET", "proxy/queue") == asked
