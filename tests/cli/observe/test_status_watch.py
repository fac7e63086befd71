"""`status --watch`: the output of `status`, again on every change, against a fake API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rayllm_ctl.workflows.observe import wait
from tests.cli.conftest import Deploy, Run
from tests.cli.observe.test_wait import SERVE
from tests.cli.test_commands_service import TINY
from tests.clock import Clock
from tests.cluster.fakeapi import FakeAPI, Request


class Ticking(Clock):
    """Advances whenever it is read: --timeout is then a number of observations."""

    def monotonic(self) -> float:
        self.now += 0.1
        return self.now


@pytest.fixture(autouse=True)
def few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "time", Ticking())
    monkeypatch.setattr(wait, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(wait, "SETTLE", 0.0)


@pytest.fixture
def service(deploy: Deploy) -> None:
    deploy(*TINY)


def answers(api: FakeAPI, *replicas_running: int) -> None:
    """Let Serve say in each answer how many replicas run, and the last number from then on."""
    course = iter(replicas_running)

    def answer(_: Request) -> tuple[int, Any]:
        return 200, serve(next(course, replicas_running[-1]))

    api.answer("GET", SERVE, answer)


def serve(running: int) -> dict[str, Any]:
    one = {"state": "RUNNING", "node_instance_id": "tiny-bcdfg-worker", "start_time_s": 1}
    deployment = {
        "status": "HEALTHY", "target_num_replicas": 2,
        "deployment_config": {"autoscaling_config": {"min_replicas": 0, "max_replicas": 3}},
        "replicas": [{**one, "replica_id": f"r{number}"} for number in range(running)],
    }  # fmt: skip
    return {"applications": {"tiny": {"status": "RUNNING", "deployments": {"LLMServer:tiny": deployment}}}}


def blocks(text: str) -> list[list[str]]:
    return [block.splitlines() for block in text.removesuffix("\n\n").split("\n\n")]


@pytest.mark.usefixtures("service")
def test_a_block_for_each_change_that_is_what_status_prints(run: Run, api: FakeAPI) -> None:
    answers(api, 1, 1, 1, 2, 2, 2)
    result = run("status", "tiny", "--watch", "--timeout", "5s")
    first, second = blocks(result.out)
    assert [any("replicas 1 of 2" in line for line in block) for block in (first, second)] == [True, False]
    assert second[1:] == run("status", "tiny").out.splitlines()
    assert result.code == 0, str(result)


@pytest.mark.usefixtures("service")
def test_the_exit_code_is_that_of_the_last_state(run: Run, api: FakeAPI) -> None:
    answers(api, 0)
    result = run("status", "tiny", "-w", "--timeout", "5s")
    assert result.code == run("status", "tiny").code == 1, str(result)


@pytest.mark.usefixtures("service")
def test_a_deleted_service_is_waited_for(run: Run, api: FakeAPI) -> None:
    """A GitOps controller may delete and create it."""

    def delete(_: Request) -> tuple[int, Any]:
        api.remove("RayService", "tiny")
        return 200, serve(2)

    api.answer("GET", SERVE, delete, times=1)
    result = run("status", "tiny", "-w", "--timeout", "5s")
    assert result.code == 1, str(result)
    assert "NotFound" in blocks(result.out)[-1][1]


@pytest.mark.usefixtures("service")
def test_json_is_a_line_for_each_change(run: Run, api: FakeAPI) -> None:
    answers(api, 1, 1, 2, 2)
    result = run("status", "tiny", "--watch", "--timeout", "5s", "-o", "json")
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [one["replicasRunning"] for one in found] == [1, 2]
    assert {(one["name"], one["namespace"]) for one in found} == {("tiny", "llm")}


@pytest.mark.usefixtures("service")
def test_all_services_until_one_is_deleted(run: Run, api: FakeAPI) -> None:
    lists = 0

    def remove(_: Request) -> None:
        nonlocal lists
        lists += 1
        if lists == 4:
            api.remove("RayService", "tiny")
            api.remove("RayCluster", "tiny-bcdfg")

    api.answer("GET", "rayservices$", remove)
    result = run("status", "-A", "--watch", "--timeout", "5s")
    first, last = blocks(result.out)
    assert first[1].startswith("NAMESPACE  NAME")
    assert first[2].startswith("llm        tiny  Ready")
    assert last[1:] == ["no services"]
    assert result.code == 0


@pytest.mark.usefixtures("service")
def test_an_interrupt_ends_it_with_130(run: Run, api: FakeAPI) -> None:
    def interrupt(_: Request) -> None:
        raise KeyboardInterrupt

    api.answer("GET", SERVE, interrupt)
    result = run("status", "tiny", "--watch")
    assert (result.code, result.err.strip()) == (130, "✗ interrupted")


@pytest.mark.usefixtures("service")
def test_a_server_that_does_not_answer_is_not_a_state(run: Run, api: FakeAPI) -> None:
    def starting(_: Request) -> tuple[int, Any]:
        return 503, b"starting"

    api.answer("GET", "rayservices/tiny$", starting)
    result = run("status", "tiny", "--watch", "--timeout", "5s")
    assert (result.code, result.out) == (5, ""), str(result)
    assert "✗ the API server cannot get RayService llm/tiny now: starting" in result.err
    assert result.err.count("; retrying") == 1


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("tiny", "--timeout", "1s"), "--timeout requires --watch"),
        (("tiny", "--watch", "-o", "name"), "--watch and -o name cannot be combined"),
        (("tiny", "--watch", "--from", "."), "--watch and --from cannot be combined"),
        (("tiny", "--watch", "-A"), "-A lists services and excludes NAME"),
    ],
)
def test_flags_that_cannot_work(run: Run, flags: tuple[str, ...], says: str) -> None:
    result = run("status", *flags)
    assert result.code == 2
    assert says in result.err
