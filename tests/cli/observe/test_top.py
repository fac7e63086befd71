"""`top`: whole commands against a fake API server with recorded metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.cluster.api.permissions import format_right
from rayllm_ctl.kinds import RAY_CLUSTER, RAY_SERVICE
from rayllm_ctl.model.workload import Right, WorkloadKind
from rayllm_ctl.workflows.observe import top
from tests.cli.access.test_keys import SPEC, deployed
from tests.cli.conftest import Deploy, Run
from tests.cli.test_commands_rights import grants
from tests.cli.test_commands_service import TINY
from tests.clock import Clock
from tests.cluster.fakeapi import FakeAPI, Request, status
from tests.conftest import Golden
from tests.model.metrics import ASKED, recorded

RAYCLUSTER = ("--kind", "raycluster")
WORKER = "pods/tiny-bcdfg-worker:8080/proxy/metrics$"
SERVER = "pods/tiny-server:8000/proxy/metrics$"
SERVE = "tiny-bcdfg-head-svc:dashboard/proxy/api/serve/applications/$"


def counting(tokens: int) -> Iterator[bytes]:
    """vLLM's metrics, in each reading `tokens` further."""
    generated = 67890
    while True:
        yield recorded("vllm").replace("67890.0", f"{generated}.0").encode()
        generated += tokens


def reports(api: FakeAPI, pattern: str, texts: Iterator[bytes]) -> None:
    api.answer("GET", pattern, lambda _: (200, next(texts)))


def serve(replica: str = ASKED) -> tuple[int, Any]:
    """Serve's state with one replica of the model."""
    worker = {"replica_id": replica, "state": "RUNNING", "node_instance_id": "tiny-bcdfg-worker"}
    deployment = {"status": "HEALTHY", "target_num_replicas": 1, "replicas": [worker]}
    return 200, {"applications": {"tiny": {"status": "RUNNING", "deployments": {"LLMServer:tiny": deployment}}}}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(top, "time", made)
    return made


@pytest.fixture
def servers(deploy: Deploy, api: FakeAPI) -> FakeAPI:
    """A service in mode raycluster, whose server answers 50 tokens between two readings."""
    deploy(*TINY, *RAYCLUSTER)
    reports(api, SERVER, counting(50))
    return api


@pytest.fixture
def rayservice(deploy: Deploy, api: FakeAPI) -> FakeAPI:
    """A RayService of which Ray reports first what was recorded under load, and then what came after."""
    deploy(*TINY)
    api.answer("GET", SERVE, serve())
    texts = iter([recorded("ray-busy")])
    api.answer("GET", WORKER, lambda _: (200, next(texts, recorded("ray-done")).encode()))
    return api


def rows(text: str) -> list[list[str]]:
    return [re.split(r"  +", line) for line in text.splitlines()]


def test_the_table_of_a_rayservice(run: Run, rayservice: FakeAPI, golden: Golden) -> None:
    result = run("top", "tiny", "--interval", "100ms")
    golden.check("commands/top.txt", str(result))
    header, row = rows(result.out)
    cells = dict(zip(header, row, strict=True))
    # 750 and 375 tokens in a report interval.
    assert (cells["PROMPT-TOK/S"], cells["GEN-TOK/S"], cells["RUNNING"]) == ("75.0", "37.5", "0")


def test_one_late_answer_of_serve_does_not_end_it(run: Run, rayservice: FakeAPI) -> None:
    answers = iter([serve(), (503, b"the head is busy")])
    rayservice.answer("GET", SERVE, lambda _: next(answers, serve()))
    result = run("top", "tiny", "--interval", "100ms", "-o", "json")
    assert result.code == 0, str(result)
    assert json.loads(result.out)["replicas"][0]["generationTokensPerSecond"] == 37.5


def test_it_waits_no_longer_than_until_the_next_report(run: Run, rayservice: FakeAPI, clock: Clock) -> None:
    container = {"env": [{"name": "RAY_metrics_report_interval_ms", "value": "1000"}]}
    cluster = rayservice.stored("RayCluster", "tiny-bcdfg")
    rayservice.put(**{**cluster, "spec": {"headGroupSpec": {"template": {"spec": {"containers": [container]}}}}})
    rayservice.answer("GET", WORKER, (200, recorded("ray-done").encode()))
    begin = clock.now
    result = run("top", "tiny", "--interval", "100ms")
    assert 1.4 < clock.now - begin < 1.6
    assert "waiting for the next report of Ray, which is sent every 1 s\n" in result.err
    header, row = rows(result.out)
    assert dict(zip(header, row, strict=True))["GEN-TOK/S"] == "0.0"


def test_the_table_of_vllms_own_server(run: Run, servers: FakeAPI) -> None:
    result = run("top", "tiny", "--interval", "200ms")
    header, row = rows(result.out)
    cells = dict(zip(header, row, strict=True))
    assert cells["GEN-TOK/S"] == "250", "50 tokens in 200 ms"
    assert (cells["RUNNING"], cells["WAITING"], cells["KV-CACHE"], cells["GPU"]) == ("3", "1", "25%", "-")
    assert (cells["POD"], cells["NODE"]) == ("tiny-server", "n1")
    assert "REPLICA" not in cells
    assert result.err == "no GPUs: the pods request none\n"
    assert servers.count("GET", SERVER) == 2


def test_as_json(run: Run, servers: FakeAPI) -> None:
    found = json.loads(run("top", "tiny", "--interval", "100ms", "-o", "json").out)
    (replica,) = found["replicas"]
    assert replica.pop("generationTokensPerSecond") == pytest.approx(500)
    assert replica == {
        "model": "tiny", "replica": None, "running": 3, "waiting": 1, "promptTokensPerSecond": 0.0,
        "kvCacheUsage": 0.25, "gpus": None, "pod": "tiny-server", "node": "n1",
    }  # fmt: skip
    assert found["problems"] == ["no GPUs: the pods request none"]
    assert "queue" not in found


def test_watch_is_a_block_for_each_reading_and_says_each_problem_once(run: Run, servers: FakeAPI) -> None:
    texts = counting(50)
    answers = 0

    def answer(_: Request) -> tuple[int, Any]:
        nonlocal answers
        answers += 1
        if answers == 3:
            return status(503, "error trying to reach service", "ServiceUnavailable")
        if answers == 5:
            servers.remove("RayCluster", "tiny")
        return 200, next(texts)

    servers.answer("GET", SERVER, answer)
    result = run("top", "tiny", "--watch", "--interval", "20ms")
    blocks = result.out.removesuffix("\n\n").split("\n\n")
    assert len(blocks) == 5
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", block.splitlines()[0]) for block in blocks)
    cells = [dict(zip(*rows("\n".join(block.splitlines()[1:])), strict=True)) for block in blocks]
    assert [one["RUNNING"] for one in cells] == ["3", "3", "-", "3", "3"]
    assert [one["GEN-TOK/S"] == "-" for one in cells] == [True, False, True, False, False]
    assert result.code == 1
    assert result.err.count("tokens/s are known from the second reading on") == 1
    assert result.err.count("no GPUs: the pods request none") == 1
    assert result.err.count("read the metrics of pod tiny-server at port 8000") == 1
    assert "there is no service tiny in namespace llm" in result.err


def test_watch_as_json_is_a_line_for_each_reading(run: Run, servers: FakeAPI) -> None:
    answers = counting(50)

    def answer(_: Request) -> tuple[int, Any]:
        if servers.count("GET", SERVER) == 3:
            servers.remove("RayCluster", "tiny")
        return 200, next(answers)

    servers.answer("GET", SERVER, answer)
    result = run("top", "tiny", "-w", "--interval", "20ms", "-o", "json")
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [one["replicas"][0]["generationTokensPerSecond"] is None for one in found] == [True, False, False]


def test_watch_goes_on_where_serve_cannot_be_read_for_a_while(run: Run, rayservice: FakeAPI) -> None:
    answers = iter([serve(), (503, b"the head is starting"), (503, b"the head is starting"), serve()])

    def answer(_: Request) -> tuple[int, Any]:
        found = next(answers, None)
        if found is None:
            rayservice.remove("RayService", "tiny")
            return serve()
        return found

    rayservice.answer("GET", SERVE, answer)
    result = run("top", "tiny", "-w", "--interval", "20ms", "-o", "json")
    found = [json.loads(line)["replicas"] for line in result.out.splitlines()]
    assert [None if one is None else len(one) for one in found][:4] == [1, None, None, 1]
    assert result.err.count("Serve's state could not be read: ") == 1
    assert "the head is starting" in result.err


def test_a_gateways_queue(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    deployed(run, tmp_path, SPEC + "  gateway: {queue: {maxPending: 100}}\n")
    ingress = {"status": "RUNNING", "deployments": {"OpenAiIngress": {"status": "HEALTHY", "replicas": []}}}
    api.answer("GET", "chat-bcdfg-head-svc:dashboard/proxy/api/serve/applications/$", (200, {"applications": {
        "chat": ingress, "chat-tiny": serve()[1]["applications"]["tiny"],
    }}))  # fmt: skip
    api.answer("GET", WORKER, (200, recorded("ray-idle").encode()))
    api.answer("GET", "chat-serve-svc:serve/proxy/queue$", (200, {"pending": 3, "running": 12, "maxPending": 100}))
    result = run("top", "chat", "-n", "llm")
    assert result.out.splitlines()[-1] == "queue: 3 of at most 100 requests wait, 12 run"
    assert json.loads(run("top", "chat", "-n", "llm", "-o", "json").out)["queue"]["pending"] == 3


def test_no_replica_runs(run: Run, rayservice: FakeAPI) -> None:
    rayservice.answer("GET", SERVE, (200, {"controller_info": {"node_id": "a"}, "applications": {}}))
    result = run("top", "tiny")
    assert (result.code, result.out, result.err) == (0, "no running replicas\n", "")


def test_without_serves_controller_replicas_are_unknown(run: Run, rayservice: FakeAPI) -> None:
    rayservice.answer("GET", SERVE, (200, {"controller_info": {}, "applications": {}}))
    result = run("top", "tiny")
    assert (result.code, result.out) == (1, ""), str(result)
    assert "Serve's state could not be read: Ray's dashboard does not reach Serve's controller" in result.err


@pytest.mark.parametrize("kind", [RAY_SERVICE, RAY_CLUSTER], ids=lambda kind: kind.name)
def test_the_declared_rights_are_enough(run: Run, deploy: Deploy, api: FakeAPI, kind: WorkloadKind) -> None:
    deploy(*TINY, *(RAYCLUSTER if kind is RAY_CLUSTER else ()))
    api.answer("GET", SERVE, serve())
    api.answer("GET", WORKER, (200, recorded("ray-idle").encode()))
    reports(api, SERVER, counting(50))
    rights = kind.rights_for("top")
    api.granted = grants(*rights.needed)
    result = run("top", "tiny", "--interval", "10ms", "-o", "json")
    assert result.code == 0, str(result)
    (replica,) = json.loads(result.out)["replicas"]
    assert replica["running"] == (0 if kind is RAY_SERVICE else 3)
    if kind is RAY_SERVICE:
        assert replica["node"] is None
        assert "the nodes of pods could not be read: not permitted to list pods" in result.err
    for right in rights.needed:
        api.granted = grants(*rights.needed) - grants(right)
        failed = run("top", "tiny")
        assert failed.code == 5, str(failed)
        # Without the right to read RayClusters it is not known that the service is one.
        lacking = Right("get", "RayService") if kind is RAY_CLUSTER and right.kind == "RayCluster" else right
        assert f"not permitted to {format_right(lacking)}" in failed.err
    api.granted = grants(*rights.needed, *rights.display)
    api.denied.clear()
    assert run("top", "tiny", "--interval", "10ms").code == 0
    assert [one for one in api.denied if one[0] != "get"] == []
    if kind is RAY_SERVICE:
        assert run("top", "tine").code == 1


def test_what_cannot_be_shown(run: Run, rayservice: FakeAPI) -> None:
    unknown = run("top", "tine")
    assert (unknown.code, unknown.out) == (1, "")
    assert "did you mean tiny?" in unknown.err
    rayservice.answer("GET", SERVE, (503, b"no"))
    failed = run("top", "tiny", "--watch")
    assert (failed.code, failed.out) == (1, "")
    assert "hint: rayllm-ctl status tiny -n llm" in failed.err
    wrong = run("top", "tiny", "--interval", "0s")
    assert wrong.code == 2
    assert "--interval must be greater than 0" in wrong.err
