"""Looks at the replicas of a service through a fake API server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.ray import top_sample as toplook
from rayllm_ctl.cluster.ray.top_sample import RayServiceReplicas, ray_cluster_replicas
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube.labels import MODEL
from rayllm_ctl.model.kube.names import INGRESS_BUILDER
from rayllm_ctl.model.observed.health import QueueState
from rayllm_ctl.model.observed.top import ServiceLook
from tests.cluster.fakeapi import FakeAPI, status

SERVE = "%s-head-svc:dashboard/proxy/api/serve/applications/$"
METRICS = "pods/%s:8080/proxy/metrics$"
GPU = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}


def deployment(*replicas: tuple[str, str]) -> dict[str, Any]:
    """replicas: pod and state of each."""
    found = [{"replica_id": f"r-{pod}", "state": state, "node_instance_id": pod} for pod, state in replicas]
    return {"status": "HEALTHY", "target_num_replicas": 2, "replicas": found}


def pod(api: FakeAPI, name: str, cluster: str, container: dict[str, Any], **labels: str) -> None:
    api.put(
        kind="Pod", metadata={"name": name, "labels": {"ray.io/cluster": cluster, **labels}},
        spec={"nodeName": f"node-of-{name}", "containers": [container]},
        status={"conditions": [{"type": "Ready", "status": "True"}]},
    )  # fmt: skip


def served(api: FakeAPI, cluster: str, *pods: str) -> None:
    """What Serve and the pods of a RayCluster answer."""
    app = {
        "status": "RUNNING",
        "deployed_app_config": {"args": {"llm_configs": [
            {"model_loading_config": {"model_id": "org/big.model"}}, {"model_loading_config": "file.yaml"}, "file.yaml",
        ]}},
        "deployments": {
            "LLMServer:org--big_model": deployment(*((one, "RUNNING") for one in pods), ("w9", "STARTING")),
            "OpenAiIngress": deployment((pods[0], "RUNNING")),
        },
    }  # fmt: skip
    ingress = {"status": "RUNNING", "deployed_app_config": None, "deployments": {"LLMServer:other": deployment()}}
    api.answer("GET", SERVE % cluster, (200, {"applications": {"org": app, "chat": ingress}}))
    for name in pods:
        pod(api, name, cluster, GPU)
        api.answer("GET", METRICS % name, (200, f"metrics of {name}\n".encode()))


@pytest.fixture
def chat(api: FakeAPI) -> FakeAPI:
    """A RayService with a gateway, on RayCluster chat-x."""
    models = [{"id": "org/big.model", "application": "org", "deployment": "LLMServer:org--big_model"}]
    ingress = {"user_config": {"models": models, "gateway": {"keys": None}}}
    config = {"applications": [{"import_path": INGRESS_BUILDER, "deployments": [ingress]}]}
    activate(api, "chat-x", serveConfigV2=json.dumps(config))
    for name in ("chat-x", "chat-y"):
        api.put(kind="RayCluster", metadata={"name": name, "namespace": "llm"}, spec={})
    served(api, "chat-x", "w1", "w2")
    api.answer("GET", "chat-serve-svc:serve/proxy/queue$", (200, {"pending": 7, "running": 3, "maxPending": 9}))
    return api


def look_at(cluster: Cluster) -> Callable[[], ServiceLook]:
    """Looks at the RayService as it is then."""
    look = RayServiceReplicas(cluster)
    return lambda: look(cluster.get("RayService", "chat", "llm"))


def activate(api: FakeAPI, cluster: str, **spec: str) -> None:
    spec = spec or api.stored("RayService", "chat")["spec"]
    active = {"activeServiceStatus": {"rayClusterName": cluster}} if cluster else {}
    api.put(kind="RayService", metadata={"name": "chat", "namespace": "llm"}, spec=spec, status=active)


def test_the_running_replicas_of_models(cluster: Cluster, chat: FakeAPI) -> None:
    look = look_at(cluster)
    found = look()
    assert [(one.model, one.replica, one.pod, one.node, one.has_gpus) for one in found.replicas] == [
        ("org/big.model", "r-w1", "w1", "node-of-w1", True),
        ("org/big.model", "r-w2", "w2", "node-of-w2", True),
    ]
    assert [one.engine for one in found.replicas] == ["metrics of w1\n", "metrics of w2\n"]
    assert [one.ray for one in found.replicas] == [one.engine for one in found.replicas]
    assert (found.report_interval, found.queue, found.problems) == (10.0, QueueState(7, 3, 9), ())
    asked = len(chat.requests)
    assert look() == found
    # Where replicas run is known; all else may have changed.
    assert sorted(one.path.rsplit("/", 1)[-1] for one in chat.requests[asked:]) == [
        "", "chat", "metrics", "metrics", "queue",
    ]  # fmt: skip


def test_an_upgrade_moves_the_look_to_the_new_cluster(cluster: Cluster, chat: FakeAPI) -> None:
    look = look_at(cluster)
    look()
    served(chat, "chat-y", "v1")
    assert {one.pod for one in look().replicas} == {"w1", "w2"}
    activate(chat, "chat-y")
    (only,) = look().replicas
    assert (only.pod, only.node, only.engine) == ("v1", "node-of-v1", "metrics of v1\n")
    activate(chat, "")
    with pytest.raises(UserError, match="the RayService has no active RayCluster"):
        look()


def test_what_cannot_be_read_is_missing_with_the_reason(
    cluster: Cluster, chat: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toplook, "_TIMEOUT", 0.3)
    chat.answer("GET", METRICS % "w1", status(503, "error trying to reach service", "ServiceUnavailable"))
    chat.hang("GET", METRICS % "w2")
    chat.answer("GET", "chat-serve-svc:serve/proxy/queue$", (500, b"oops"))
    chat.answer("GET", "/namespaces/llm/pods$", status(500, "etcd is down", "InternalError"))
    look = look_at(cluster)
    found = look()
    assert [(one.pod, one.engine, one.node, one.has_gpus) for one in found.replicas] == [
        ("w1", None, None, None), ("w2", None, None, None),
    ]  # fmt: skip
    assert found.queue is None
    nodes, queue, first, second = found.problems
    assert nodes.startswith("the nodes of pods could not be read: ")
    assert "etcd is down" in nodes
    assert "read the metrics of pod w1 at port 8080" in first
    assert "error trying to reach service" in first
    assert second == "pod w2 did not answer at port 8080 within 0.3 s"
    assert queue == "the gateway's queue could not be read: service llm/chat-serve-svc answered 500: oops"
    # The gateway is not asked again at once.
    again = look()
    assert (again.queue, len(again.problems)) == (None, 3)
    assert chat.count("GET", "proxy/queue$") == 1


def test_without_serves_state_there_is_nothing_to_show(cluster: Cluster, chat: FakeAPI) -> None:
    look = look_at(cluster)
    chat.answer("GET", SERVE % "chat-x", (503, b"no endpoints available"))
    with pytest.raises(UserError, match=r"Serve's state could not be read: .*no endpoints") as caught:
        look()
    assert caught.value.hints == ("rayllm-ctl status chat -n llm",)
    chat.granted = {
        ("get", "rayservices.ray.io", False), ("get", "rayclusters.ray.io", False), ("get", "services/proxy", False),
    }  # fmt: skip
    served(chat, "chat-x", "w1")
    with pytest.raises(ForbiddenError, match="not permitted to get pods/proxy"):
        look()
    chat.granted.discard(("get", "services/proxy", False))
    with pytest.raises(ForbiddenError, match="not permitted to get services/proxy"):
        look()


def test_vllms_own_servers(cluster: Cluster, api: FakeAPI) -> None:
    annotations = {MODEL: "org/big.model"}
    api.put(kind="RayCluster", metadata={"name": "chat", "namespace": "llm", "annotations": annotations}, spec={})
    group = {"ray.io/group": "server"}
    labels = {"ray.io/cluster": "chat", **group}
    pod(api, "s1", "chat", GPU, **group)
    pod(api, "s2", "chat", {}, **group)
    pod(api, "m1", "chat", GPU)
    api.put(kind="Pod", metadata={"name": "s3", "labels": labels}, spec={"containers": [{}]}, status={})
    for name in ("s1", "s2"):
        api.answer("GET", f"pods/{name}:8000/proxy/metrics$", (200, f"vllm of {name}\n".encode()))
    api.answer("GET", METRICS % "s1", (200, b"ray of s1\n"))
    item = cluster.get("RayCluster", "chat", "llm")
    found = ray_cluster_replicas(cluster, item)
    assert [(one.model, one.replica, one.pod, one.node) for one in found.replicas] == [
        ("org/big.model", None, "s1", "node-of-s1"), ("org/big.model", None, "s2", "node-of-s2"),
    ]  # fmt: skip
    assert [(one.has_gpus, one.engine, one.ray) for one in found.replicas] == [
        (True, "vllm of s1\n", "ray of s1\n"), (False, "vllm of s2\n", None),
    ]  # fmt: skip
    assert (found.report_interval, found.queue, found.problems) == (None, None, ())
    # Ray's metrics are read for the GPUs alone.
    assert api.count("GET", METRICS % "s2") == 0
    api.answer("GET", "pods/s1:8000/proxy/metrics$", (0, b""))
    found = ray_cluster_replicas(cluster, item)
    assert [one.engine for one in found.replicas] == [None, "vllm of s2\n"]
    assert "the connection broke" in found.problems[0]
