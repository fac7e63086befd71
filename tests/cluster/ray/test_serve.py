from __future__ import annotations

import base64
import threading
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.ray import dashboard, serve
from rayllm_ctl.cluster.ray.dashboard import Dashboard, dashboard_of
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.observed.serve_state import read_serve
from tests.cluster.fakeapi import FakeAPI, Request, status

NODE, OTHER = "a" * 56, "b" * 56
HEAD = "tiny-bcdfg-head-svc"


def actor(letter: str) -> str:
    return letter * 8 + "0" * 24


def replica(letter: str, started: float, node: str = NODE) -> dict[str, Any]:
    return {
        "actor_id": actor(letter), "node_id": node, "node_instance_id": f"pod-{node[0]}", "start_time_s": started,
        "state": "STOPPED",
    }  # fmt: skip


def state(application: str, *deployments: dict[str, Any]) -> dict[str, Any]:
    named = {deployment["name"]: deployment for deployment in deployments}
    proxies = {NODE: {"node_id": NODE, "node_instance_id": "pod-a"}}
    return {"proxies": proxies, "applications": {"llm": {"status": application, "deployments": named}}}


def deployment(status: str, name: str = "LLMServer:m", **more: Any) -> dict[str, Any]:
    return {"name": name, "status": status, "replicas": [], **more}


def log_of(request: Request) -> tuple[int, bytes]:
    return 200, f"{request.query['actor_id'][:1]} {request.query['suffix']}\n".encode()


def logs(cluster: Cluster, answer: dict[str, Any]) -> dict[str, str]:
    with Tasks() as tasks:
        return serve.failed_replica_logs(Dashboard(cluster, "llm", HEAD), read_serve(answer), tasks)


def test_state(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", f"services/{HEAD}:dashboard/proxy/api/serve/applications/$", (200, {"applications": {}}))
    assert serve.state(Dashboard(cluster, "llm", HEAD)) == {"applications": {}}


@pytest.mark.parametrize(
    ("answer", "message"), [({}, "no answer of Serve"), ({"controller_info": {}, "applications": {}}, "controller")]
)
def test_a_state_that_says_nothing_is_unknown(
    api: FakeAPI, cluster: Cluster, answer: dict[str, Any], message: str
) -> None:
    api.answer("GET", f"services/{HEAD}:dashboard/proxy/api/serve/applications/$", (200, answer))
    with pytest.raises(UserError, match=message):
        serve.read_state(Dashboard(cluster, "llm", HEAD))


def test_serve_that_was_never_started_has_no_applications(api: FakeAPI, cluster: Cluster) -> None:
    answer: dict[str, Any] = {"controller_info": {}, "applications": {}}
    api.answer("GET", f"services/{HEAD}:dashboard/proxy/api/serve/applications/$", (200, answer))
    assert serve.read_state(Dashboard(cluster, "llm", HEAD), started=False).applications == ()


def test_state_of_a_head_that_does_not_answer(api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    api.answer("GET", "proxy", status(503, f'no endpoints available for service "{HEAD}"'), times=1)
    text = f'no endpoints available for service "{HEAD}"'
    assert serve.state(Dashboard(cluster, "llm", HEAD)) == {"error": text, "status": 503}
    api.answer("GET", "proxy", (0, b""))
    assert "the connection broke" in serve.state(Dashboard(cluster, "llm", HEAD))["error"]
    monkeypatch.setattr(dashboard, "TIMEOUT", 0.1)
    monkeypatch.setattr(serve, "TIMEOUT", 0.1)
    api.hang("GET", "proxy")
    assert serve.state(Dashboard(cluster, "llm", HEAD)) == {"error": "no answer within 0.1 s"}


def test_logs_of_the_newest_replicas_of_a_failed_deployment(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "/api/v0/logs/file", log_of)
    dead = [replica("c", 3), replica("d", 9, OTHER), replica("e", 1)]
    found = logs(cluster, state("DEPLOY_FAILED", deployment("DEPLOY_FAILED", recent_dead_replicas=dead)))
    assert found == {
        "pod-a/replica-llm.LLMServer.m-cccccccc.log": "c err\nc out\n",
        "pod-b/replica-llm.LLMServer.m-dddddddd.log": "d err\nd out\n",
    }


def test_logs_on_a_node_that_is_gone_hold_up_no_others(
    api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its two files are asked for at the same time."""
    monkeypatch.setattr(serve, "LOG_TIMEOUT", 60.0)
    both = threading.Barrier(2)

    def answer(request: Request) -> tuple[int, bytes]:
        if request.query["actor_id"] == actor("d"):
            both.wait(10)
            return 0, b""
        return log_of(request)

    api.answer("GET", "/api/v0/logs/file", answer)
    dead = [replica("c", 3), replica("d", 9, OTHER)]
    found = logs(cluster, state("DEPLOY_FAILED", deployment("DEPLOY_FAILED", recent_dead_replicas=dead)))
    assert not both.broken
    assert found == {"pod-a/replica-llm.LLMServer.m-cccccccc.log": "c err\nc out\n"}


def test_logs_are_not_waited_for_as_long_as_other_answers(
    api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float | None] = []
    text = Dashboard.text

    def noted(self: Dashboard, path: str, *, timeout: float | None = None, **request: Any) -> str:
        limits.append(timeout)
        return text(self, path, timeout=timeout, **request)

    monkeypatch.setattr(Dashboard, "text", noted)
    monkeypatch.setattr(serve, "LOG_TIMEOUT", 0.1)
    api.hang("GET", "/api/v0/logs/file")
    dead = [replica("d", 9, OTHER)]
    assert logs(cluster, state("DEPLOY_FAILED", deployment("DEPLOY_FAILED", recent_dead_replicas=dead))) == {}
    assert limits == [0.1, 0.1]


def test_logs_after_the_first_failure_while_serve_tries_again(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "/api/v0/logs/file", log_of)
    message = "The deployment failed to start 1 times in a row. This may be due to a problem with its constructor"
    retrying = deployment(
        "UPDATING", message=message, recent_dead_replicas=[replica("c", 1)], replicas=[replica("d", 2)]
    )
    found = logs(cluster, state("DEPLOYING", retrying))
    assert list(found) == ["pod-a/replica-llm.LLMServer.m-cccccccc.log"]


def test_logs_of_the_first_failure_while_the_next_try_is_slow(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "/api/v0/logs/file", log_of)
    message = "Deployment 'm' in application 'llm' has 1 replicas that have taken more than 30s to initialize."
    slow = deployment("UPDATING", message=message, recent_dead_replicas=[replica("c", 1)], replicas=[replica("d", 2)])
    assert list(logs(cluster, state("DEPLOYING", slow))) == ["pod-a/replica-llm.LLMServer.m-cccccccc.log"]
    # Of one that is slow at its first try there is nothing to read.
    api.requests.clear()
    assert logs(cluster, state("DEPLOYING", slow | {"recent_dead_replicas": []})) == {}
    assert api.requests == []


def test_what_the_controller_said_of_the_last_failure_while_the_next_try_is_slow(
    api: FakeAPI, cluster: Cluster
) -> None:
    def record(replica: str, name: str, error: str) -> str:
        head = (
            f"ERROR 2026-03-01 12:09:12,122 controller 4 -- Exception in Replica(id='{replica}', deployment='{name}', "
        )
        return f"{head}app='llm'), the replica will be stopped.\nTraceback (most recent call last):\nOSError: {error}\n"

    def answer(request: Request) -> tuple[int, bytes]:
        if request.query.get("filename") != "serve/controller_4.log":
            return log_of(request)
        text = record("r1", "LLMServer:m", "first") + record("r2", "LLMServer:m", "second")
        text += "INFO 2026-03-01 12:09:13,122 controller 4 -- Adding 1 replica to it.\n" + record(
            "r3", "Other", "third"
        )
        return 200, text.encode()

    api.answer("GET", "/api/v0/logs/file", answer)
    message = "Deployment 'm' in application 'llm' has 1 replicas that have taken more than 30s to initialize."
    slow = deployment("UPDATING", message=message, recent_dead_replicas=[replica("c", 1)])
    controller = {"node_id": NODE, "node_instance_id": "pod-a", "log_file_path": "/serve/controller_4.log"}
    found = logs(cluster, state("DEPLOYING", slow) | {"controller_info": controller})
    assert found["pod-a/controller-llm.LLMServer.m.log"] == record("r2", "LLMServer:m", "second")
    # In the message of one that is not slow stands as much.
    retrying = slow | {"message": "A replica failed to start with exception. Retrying 2 more time(s)."}
    assert list(logs(cluster, state("DEPLOYING", retrying) | {"controller_info": controller})) == [
        "pod-a/replica-llm.LLMServer.m-cccccccc.log"
    ]


def test_logs_of_a_replica_that_lives_but_is_unhealthy(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "/api/v0/logs/file", log_of)
    found = logs(cluster, state("UNHEALTHY", deployment("UNHEALTHY", replicas=[replica("c", 1)])))
    assert list(found) == ["pod-a/replica-llm.LLMServer.m-cccccccc.log"]


@pytest.mark.parametrize(
    "answer",
    [
        state("RUNNING", deployment("HEALTHY", recent_dead_replicas=[replica("c", 1)])),
        state("DEPLOYING", deployment("UPDATING", recent_dead_replicas=[replica("c", 1)])),
        {"error": "no"},
        {},
    ],
)
def test_nothing_is_read_while_nothing_has_failed(api: FakeAPI, cluster: Cluster, answer: dict[str, Any]) -> None:
    assert logs(cluster, answer) == {}
    assert api.requests == []


def test_a_healthy_deployment_of_a_failed_application_is_left_alone(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "/api/v0/logs/file", log_of)
    good = deployment("HEALTHY", "Ingress", replicas=[replica("c", 1)])
    bad = deployment("DEPLOY_FAILED", recent_dead_replicas=[replica("d", 1)])
    assert list(logs(cluster, state("DEPLOY_FAILED", good, bad))) == ["pod-a/replica-llm.LLMServer.m-dddddddd.log"]


def test_without_dead_replicas_in_the_state_the_actors_are_asked_for(api: FakeAPI, cluster: Cluster) -> None:
    def row(letter: str, name: str) -> dict[str, str]:
        return {"actor_id": actor(letter), "name": f"SERVE_REPLICA::llm#{name}#x", "node_id": NODE}

    rows = [row("c", "LLMServer:m"), row("d", "Other"), row("e", "LLMServer:m"), row("f", "LLMServer:m")]
    api.answer("GET", "/api/v0/actors", (200, {"data": {"result": {"result": rows}}}))
    api.answer("GET", "/api/v0/logs/file", log_of)
    found = logs(cluster, state("DEPLOY_FAILED", deployment("DEPLOY_FAILED")))
    assert sorted(name[-12:-4] for name in found) == ["eeeeeeee", "ffffffff"]


def test_logs_that_cannot_be_read_are_left_out(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "/api/v0/logs/file", (500, b"gone"))
    dead = [replica("c", 1)]
    assert logs(cluster, state("DEPLOY_FAILED", deployment("DEPLOY_FAILED", recent_dead_replicas=dead))) == {}


def ray_cluster(**auth: str) -> dict[str, Any]:
    return {"metadata": {"name": "tiny-bcdfg", "namespace": "llm"}, "spec": {"authOptions": auth}}


@pytest.mark.parametrize(("auth", "secret"), [({}, "tiny-bcdfg"), ({"secretName": "mine"}, "mine")])
def test_the_token_of_the_dashboard_is_read_and_sent(
    api: FakeAPI, cluster: Cluster, auth: dict[str, str], secret: str
) -> None:
    api.put(kind="Secret", metadata={"name": secret}, data={"auth_token": base64.b64encode(b"t0ken").decode()})
    api.answer("GET", "proxy", (200, {"applications": {}}))
    assert serve.state(dashboard_of(cluster, ray_cluster(mode="token", **auth))) == {"applications": {}}
    assert api.requests[-1].headers["x-ray-authorization"] == "Bearer t0ken"


def test_without_a_token_no_secret_is_read(api: FakeAPI, cluster: Cluster) -> None:
    assert dashboard_of(cluster, ray_cluster(mode="disabled")).headers == ()
    assert api.requests == []


def test_a_token_that_is_not_accepted(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "proxy", (401, b"Unauthorized"))
    found = serve.state(Dashboard(cluster, "llm", HEAD))
    assert found == {"error": "Ray's dashboard did not accept the token", "status": 401}


def test_a_secret_without_a_token_is_named(api: FakeAPI, cluster: Cluster) -> None:
    api.put(kind="Secret", metadata={"name": "tiny-bcdfg"}, data={"token": "eA=="})
    with pytest.raises(UserError, match="Secret llm/tiny-bcdfg has no readable auth_token"):
        dashboard_of(cluster, ray_cluster(mode="token"))
