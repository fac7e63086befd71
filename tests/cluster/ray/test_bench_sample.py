"""Looks at a service under load through a fake API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.ray.bench_sample import RayServiceLook, ray_cluster_look
from rayllm_ctl.model.kube.names import INGRESS_BUILDER
from rayllm_ctl.model.observed.vllm_metrics import EngineFigures
from tests.cluster.fakeapi import FakeAPI

SERVE = "chat-x-head-svc:dashboard/proxy/api/serve/applications/$"
METRICS = "pods/w%d:8080/proxy/metrics$"


def deployment(target: int, *replicas: tuple[str, str]) -> dict[str, Any]:
    """replicas: pod and state of each."""
    found = [
        {"replica_id": f"r-{pod}", "state": state, "node_instance_id": pod, "start_time_s": 1}
        for pod, state in replicas
    ]  # fmt: skip
    return {"status": "HEALTHY", "target_num_replicas": target, "replicas": found}


@pytest.fixture
def chat(api: FakeAPI) -> FakeAPI:
    """A RayService with two models and a gateway; one of the replicas of `a` still starts."""
    models = [{"id": one, "application": one, "deployment": f"LLMServer:{one}"} for one in ("a", "b")]
    ingress = {"user_config": {"models": models, "gateway": {"keys": None}}}
    config = {"applications": [{"import_path": INGRESS_BUILDER, "deployments": [ingress]}]}
    api.put(
        kind="RayService", metadata={"name": "chat", "namespace": "llm"}, spec={"serveConfigV2": json.dumps(config)},
        status={"activeServiceStatus": {"rayClusterName": "chat-x"}},
    )  # fmt: skip
    api.put(kind="RayCluster", metadata={"name": "chat-x", "namespace": "llm"}, spec={})
    a = deployment(3, ("w1", "RUNNING"), ("w2", "RUNNING"), ("w3", "STARTING"))
    apps = {
        "a": {"status": "RUNNING", "deployments": {"LLMServer:a": a}},
        "b": {"status": "RUNNING", "deployments": {"LLMServer:b": deployment(1, ("w4", "RUNNING"))}},
        "chat": {"status": "RUNNING", "deployments": {"OpenAiIngress": deployment(2)}},
    }
    api.answer("GET", SERVE, (200, {"applications": apps}))
    api.answer("GET", "chat-serve-svc:serve/proxy/queue$", (200, {"pending": 7, "running": 3, "maxPending": None}))
    for number in (1, 2):
        text = f'ray_vllm_num_requests_running{{ReplicaId="r-w{number}"}} {number}.0\n'
        api.answer("GET", METRICS % number, (200, text.encode()))
    return api


def test_the_replicas_of_the_model_under_load(cluster: Cluster, chat: FakeAPI) -> None:
    look = RayServiceLook(cluster, "chat", "llm", ["a"])
    found = look()
    assert (found.replicas, found.wanted, found.queued, found.problems) == (2, 3, 7, ())
    assert found.engine == EngineFigures(3, 0, None, {"w1/r-w1/": 0.0, "w2/r-w2/": 0.0})
    asked = len(chat.requests)
    assert look() == found
    # Objects and metrics are not asked for again at once, Serve and the queue are.
    assert [one.path.rsplit("/proxy/")[-1] for one in chat.requests[asked:]] == ["api/serve/applications/", "queue"]
    adapter = RayServiceLook(cluster, "chat", "llm", ["an-adapter"])()
    assert (adapter.replicas, adapter.wanted) == (3, 4)


def test_what_is_forbidden_or_fails_is_said_and_not_tried_at_once(cluster: Cluster, chat: FakeAPI) -> None:
    chat.granted = {
        ("get", "rayservices.ray.io", False), ("get", "rayclusters.ray.io", False), ("get", "services/proxy", False),
    }  # fmt: skip
    look = RayServiceLook(cluster, "chat", "llm", ["a"])
    found = look()
    assert (found.replicas, found.engine) == (2, None)
    assert found.problems == ("vLLM's metrics could not be read: not permitted to get pods/proxy",)
    assert look().problems == ()
    chat.answer("GET", SERVE, (503, b"no"))
    found = look()
    assert (found.replicas, found.wanted, len(found.problems)) == (None, None, 1)
    assert "Serve's state could not be read" in found.problems[0]
    chat.answer("GET", SERVE, (200, {"controller_info": {}, "proxies": {}, "applications": {}}))
    assert look().problems == ("Serve's state could not be read: Ray's dashboard does not reach Serve's controller",)
    chat.granted = set()
    assert look().problems == ("Serve's state could not be read: not permitted to get rayservices.ray.io",)


def test_vllms_own_servers(cluster: Cluster, api: FakeAPI) -> None:
    groups = [{"groupName": "server", "minReplicas": 2}, {"groupName": "workers", "minReplicas": 9}]
    api.put(kind="RayCluster", metadata={"name": "chat", "namespace": "llm"}, spec={"workerGroupSpecs": groups})
    labels = {"ray.io/cluster": "chat", "ray.io/group": "server"}
    for name, ready in (("s1", "True"), ("s2", "False")):
        api.put(
            kind="Pod", metadata={"name": name, "namespace": "llm", "labels": labels}, spec={},
            status={"conditions": [{"type": "Ready", "status": ready}]},
        )  # fmt: skip
    text = b'vllm:num_requests_running{engine="0"} 4.0\nvllm:num_requests_waiting{engine="0"} 1.0\n'
    api.answer("GET", "pods/s1:8000/proxy/metrics$", (200, text))
    look = ray_cluster_look(cluster, "chat", "llm")
    found = look()
    assert (found.replicas, found.wanted, found.problems) == (1, 2, ())
    assert found.engine is not None
    assert (found.engine.running, found.engine.waiting) == (4, 1)
    api.granted = set()
    assert look().problems == ("the RayCluster could not be read: not permitted to get rayclusters.ray.io",)
