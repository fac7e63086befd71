"""Whether the node of a head is there where Serve is silent."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.ray import dashboard
from rayllm_ctl.cluster.snapshot import container_logs as logs
from rayllm_ctl.cluster.snapshot import serve_states as servestates
from rayllm_ctl.cluster.snapshot.serve_states import ServeStates
from tests.cluster.fakeapi import Answer, FakeAPI, Request, status

RAY_CLUSTER = {"metadata": {"name": "tiny-bcdfg", "namespace": "llm", "uid": "1"}}
NO_ROUTE = "dial tcp 10.0.0.6:10250: connect: no route to host"
REFUSED = "dial tcp 10.0.0.6:10250: connect: connection refused"


def ask(cluster: Cluster, ready: str = "True") -> dict[str, Any]:
    head = {
        "metadata": {
            "name": "head",
            "namespace": "llm",
            "labels": {"ray.io/cluster": "tiny-bcdfg", "ray.io/node-type": "head"},
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "ray-head"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    }
    with Tasks() as tasks:
        return dict(ServeStates(cluster).ask(tasks, [RAY_CLUSTER], [head])["tiny-bcdfg"])


@pytest.mark.parametrize(
    ("kubelet", "node"),
    [
        ((200, b"x"), None),
        (status(500, f'Get "https://10.0.0.6:10250/containerLogs/llm/head/ray-head": {NO_ROUTE}'), "n1"),
        (status(500, f'Get "https://10.0.0.6:10250/containerLogs/llm/head/ray-head": {REFUSED}'), None),
        (status(403, 'User "a" cannot get resource "pods/log"'), None),
    ],
)
def test_a_node_is_silent_whose_kubelet_cannot_be_reached(
    kubelet: tuple[int, Any], node: str | None, api: FakeAPI, cluster: Cluster
) -> None:
    api.answer("GET", "proxy", status(503, "error trying to reach service: dial tcp 10.0.0.6:8265: no route to host"))
    api.answer("GET", "pods/head/log", kubelet)
    assert ask(cluster).get("silentNode") == node


def test_a_kubelet_is_asked_before_serve_has_been_silent_for_long(
    api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Serve answers when the kubelet has been asked."""
    monkeypatch.setattr(servestates, "PATIENCE", 0.1)
    monkeypatch.setattr(dashboard, "TIMEOUT", 30.0)
    monkeypatch.setattr(logs, "KUBELET_SECONDS", 0.1)
    asked = threading.Event()

    def kubelet(_: Request) -> Answer:
        asked.set()
        api.ending.wait(30)
        return 0, b""

    api.answer("GET", "proxy", lambda _: status(503, "no route to host" if asked.wait(10) else "not asked"))
    api.answer("GET", "pods/head/log", kubelet)
    assert ask(cluster) == {"error": "no route to host", "status": 503, "silentNode": "n1"}


def test_a_kubelet_is_not_waited_for(api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "KUBELET_SECONDS", 0.1)
    api.answer("GET", "proxy", status(503, "no answer"))
    api.hang("GET", "pods/head/log")
    assert ask(cluster)["silentNode"] == "n1"


@pytest.mark.parametrize(
    ("answer", "ready"), [((200, {"applications": {}}), "True"), (status(503, "starting"), "False")]
)
def test_a_kubelet_is_asked_only_where_a_ready_head_is_silent(
    answer: tuple[int, Any], ready: str, api: FakeAPI, cluster: Cluster
) -> None:
    api.answer("GET", "proxy", answer)
    ask(cluster, ready)
    assert not [request for request in api.requests if request.path.endswith("/log")]
