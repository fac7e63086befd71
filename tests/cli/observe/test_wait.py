"""`wait`: conditions of a service against a fake API server, and what ends it early."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.workflows.observe import wait
from tests.cli.conftest import Deploy, Run
from tests.cli.test_commands_raycluster import KIND
from tests.cli.test_commands_rights import grants
from tests.cli.test_commands_service import TINY
from tests.cluster.fakeapi import FakeAPI, Request
from tests.conftest import Golden

SERVE = "-head-svc:dashboard/proxy/api/serve/applications/$"


@pytest.fixture
def deployed(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayllm_ctl.workflows.observe.wait.LOOK_EVERY", 0.05)
    monkeypatch.setattr("rayllm_ctl.workflows.observe.wait.SETTLE", 0.0)
    deploy(*TINY)


def replicas(api: FakeAPI, running: int, wanted: int, most: int = 3) -> None:
    """Let Serve say how many replicas there are."""
    one = {"state": "RUNNING", "node_instance_id": "tiny-bcdfg-worker", "start_time_s": 1}
    config = {"autoscaling_config": {"min_replicas": 0, "max_replicas": most}}
    deployment = {
        "status": "HEALTHY", "target_num_replicas": wanted, "deployment_config": config,
        "replicas": [{**one, "replica_id": f"r{number}"} for number in range(running)],
    }  # fmt: skip
    application = {"status": "RUNNING", "deployments": {"LLMServer:tiny": deployment}}
    api.answer("GET", SERVE, (200, {"applications": {"tiny": application}}))


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize(
    ("name", "wanted"), [("ready", "ready"), ("healthy", "healthy"), ("replicas", "replicas=1")]
)  # fmt: skip
def test_what_holds_ends_it_at_once(run: Run, golden: Golden, name: str, wanted: str) -> None:
    result = run("wait", "tiny", f"--for={wanted}")
    assert result.code == 0, str(result)
    golden.check(f"commands/wait-{name}.txt", str(result))


@pytest.mark.usefixtures("deployed")
def test_json_says_what_holds_and_how_the_service_is(run: Run) -> None:
    result = run("wait", "tiny", "-o", "json")
    data = json.loads(result.out)
    assert (data["name"], data["namespace"], data["condition"]) == ("tiny", "llm", "ready")
    assert data["health"]["state"] == "Ready"
    assert data["elapsedSeconds"] >= 0


@pytest.mark.usefixtures("deployed")
def test_it_waits_for_the_number_of_replicas(run: Run, api: FakeAPI) -> None:
    replicas(api, 1, 2)
    looks = 0

    def more(_request: Request) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            replicas(api, 2, 2)

    api.answer("GET", SERVE, more)
    result = run("wait", "tiny", "--for=replicas=2", "--timeout", "20s")
    assert result.code == 0, str(result)
    assert looks >= 3
    assert "tiny has 2 replicas after" in result.err


@pytest.mark.usefixtures("deployed")
def test_replicas_0_holds_for_a_service_scaled_to_zero_alone(run: Run, api: FakeAPI) -> None:
    assert run("wait", "tiny", "--for=replicas=0", "--timeout", "1ms").code == 3
    replicas(api, 0, 0)
    result = run("wait", "tiny", "--for=replicas=0", "--timeout", "20s")
    assert result.code == 0, str(result)
    assert "tiny has 0 replicas after" in result.err


@pytest.mark.usefixtures("deployed")
def test_more_replicas_than_there_may_be_are_not_waited_for(run: Run, api: FakeAPI) -> None:
    replicas(api, 1, 1, most=2)
    result = run("wait", "tiny", "--for=replicas=3", "--timeout", "20s")
    assert result.code == 1
    assert "tiny does not have 3 replicas: it may have 2 at most (spec.replicas.max)" in result.err
    assert re.search(r"hint: rayllm-ctl scale tiny -n \S+ --max-replicas 3\n", result.err)


@pytest.mark.usefixtures("deployed")
def test_a_time_out_says_the_last_state(run: Run, api: FakeAPI, golden: Golden) -> None:
    replicas(api, 1, 2)
    result = run("wait", "tiny", "--for=replicas=2", "--timeout", "1ms")
    assert result.code == 3
    golden.check("commands/wait-timeout.txt", str(result))


@pytest.mark.usefixtures("deployed")
def test_ready_is_not_healthy_while_serve_cannot_be_read(run: Run, api: FakeAPI) -> None:
    api.answer("GET", SERVE, (500, b"no"))
    assert run("wait", "tiny", "--timeout", "1ms").code == 0
    result = run("wait", "tiny", "--for=healthy", "--timeout", "1ms")
    assert result.code == 3
    assert "tiny is not healthy after" in result.err
    assert "Serve state could not be read" in result.err


@pytest.mark.usefixtures("deployed")
def test_a_terminal_cause_ends_it_at_once(run: Run, api: FakeAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayllm_ctl.workflows.observe.wait.OLD_EVIDENCE_GRACE", 0.0)
    stored = api.stored("RayService", "tiny")
    condition = {"type": "Ready", "status": "False", "reason": "ValidationFailed", "message": "spec is invalid: x"}
    status: dict[str, Any] = {**stored["status"], "conditions": [condition]}
    api.update("kuberay", "RayService", "tiny", status=status)
    api.remove("EndpointSlice", "tiny-serve-svc-x")
    result = run("wait", "tiny", "--timeout", "20s")
    assert result.code == 1, str(result)
    assert "tiny will not become ready: ValidationFailed: " in result.err


@pytest.mark.usefixtures("deployed")
def test_deleted_holds_when_nothing_is_left(run: Run, api: FakeAPI) -> None:
    assert run("wait", "tiny", "--for=deleted", "--timeout", "1ms").code == 3
    for kind, name in (("RayService", ""), ("RayCluster", "-bcdfg"), ("Pod", "-bcdfg-head"), ("Pod", "-bcdfg-worker")):
        api.remove(kind, f"tiny{name}")
    result = run("wait", "tiny", "--for=deleted", "--timeout", "20s")
    assert result.code == 0, str(result)
    assert "tiny is deleted after" in result.err


@pytest.mark.usefixtures("deployed")
def test_a_change_that_makes_it_ready_ends_it_with_one_more_request(
    run: Run, api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one to Serve; the change itself is known from the watch."""
    monkeypatch.setattr(wait, "LOOK_EVERY", 60.0)
    ready = api.stored("RayService", "tiny")["status"]
    api.update("kuberay", "RayService", "tiny", status={**ready, "observedGeneration": 0})
    before: list[int] = []
    pause = wait._pause

    def change_and_pause(*how: Any) -> bool:
        """Change the service once all is watched."""
        if not before:
            while api.watching() < 4:
                time.sleep(0.01)
            before.append(len(api.requests))
            api.update("kuberay", "RayService", "tiny", status=ready)
        return pause(*how)

    monkeypatch.setattr(wait, "_pause", change_and_pause)
    result = run("wait", "tiny", "--timeout", "20s")
    assert result.code == 0, str(result)
    assert [request.path.rpartition(":")[2] for request in api.requests[before[0] :]] == [
        "dashboard/proxy/api/serve/applications/"
    ]


@pytest.mark.usefixtures("deployed")
def test_deleted_does_not_hold_while_a_ray_cluster_is_left(run: Run, api: FakeAPI) -> None:
    api.remove("RayService", "tiny")
    result = run("wait", "tiny", "--for=deleted", "--timeout", "1ms")
    assert result.code == 3
    assert "its RayCluster tiny-bcdfg was left behind" in result.err


@pytest.mark.usefixtures("deployed")
def test_a_service_that_is_deleted_meanwhile_ends_it(run: Run, api: FakeAPI) -> None:
    replicas(api, 1, 2)
    api.answer("GET", SERVE, lambda _request: api.remove("RayService", "tiny"), times=1)
    result = run("wait", "tiny", "--for=replicas=2", "--timeout", "20s")
    assert result.code == 1
    assert "tiny was deleted while wait was waiting for it" in result.err


def test_without_a_service(run: Run) -> None:
    result = run("wait", "tiny")
    assert result.code == 1
    assert "there is no service tiny in namespace llm" in result.err
    assert run("wait", "tiny", "--for=deleted").code == 0


def test_an_unknown_condition_is_a_usage_error(run: Run) -> None:
    for wrong in ("green", "replicas", "replicas=-1", "replicas=x"):
        result = run("wait", "tiny", f"--for={wrong}")
        assert result.code == 2
        assert f'"{wrong}" is not one of ready, healthy, deleted, replicas=N' in result.err


@pytest.mark.usefixtures("deployed")
def test_the_rights_of_watch_are_enough(run: Run, api: FakeAPI) -> None:
    rights = RAY_SERVICE.rights_for("follow")
    api.granted = grants(*rights.needed, *rights.display)
    assert run("wait", "tiny", "--for=healthy", "--timeout", "5s").code == 0
    assert api.denied == []
    api.granted = set()
    result = run("wait", "tiny", "--timeout", "5s")
    assert result.code == 5
    assert "list rayservices.ray.io, watch rayservices.ray.io, list rayclusters.ray.io" in result.err


def test_of_vllms_own_servers(run: Run, deploy: Deploy) -> None:
    deploy(*TINY, *KIND)
    for wanted in ("ready", "healthy", "replicas=1"):
        assert run("wait", "tiny", f"--for={wanted}", "--timeout", "5s").code == 0
    assert "may have 1 at most" in run("wait", "tiny", "--for=replicas=2", "--timeout", "5s").err
