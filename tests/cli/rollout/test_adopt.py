"""A service goes from the command line to the controller and back: nothing restarts, and each step can be repeated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Deploy, Run
from tests.cli.rollout.declared import FLAGS, SPEC, Declared, managers, spec_file
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.interruption import Interruption

FIXED = (*FLAGS, "--replicas", "2")
"""With a PodDisruptionBudget beside the service."""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "tiny.yaml"
    path.write_text(spec_file(replicas={"min": 2, "max": 2}))
    return str(path)


@pytest.fixture
def cli_service(api: FakeAPI, run: Run, deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> Declared:
    """A service of the command line, and a controller that has nothing to do yet."""
    deploy(*FIXED)
    api.requests.clear()
    return Declared(api, run, monkeypatch)


def adopted(run: Run, file: str) -> None:
    result = run("adopt", "tiny", "-f", file, "--offline", "-n", "llm")
    assert result.code == 0, str(result)


def running(api: FakeAPI) -> dict[str, Any]:
    """What pods are made of."""
    return {
        f"{kind}/{name}": item.get("spec") or item.get("binaryData")
        for (kind, _, name), item in api._objects.items()
        if kind not in ("Node", "Deployment", "ControllerRevision", "LLMService")
    }


def children(api: FakeAPI) -> dict[str, dict[str, Any]]:
    kinds = ("RayService", "PodDisruptionBudget", "ConfigMap")
    return {f"{kind}/{name}": item for (kind, _, name), item in api._objects.items() if kind in kinds}


def test_adopt_changes_the_owner_and_nothing_that_runs(
    run: Run, api: FakeAPI, cli_service: Declared, file: str
) -> None:
    before = running(api)
    generation = cli_service.child()["metadata"]["generation"]
    adopted(run, file)
    assert running(api) == before
    assert cli_service.child()["metadata"]["generation"] == generation
    owner = api.stored("LLMService", "tiny")
    assert owner["spec"] == {**SPEC, "replicas": {"min": 2, "max": 2}}
    for item in children(api).values():
        assert [one["uid"] for one in item["metadata"]["ownerReferences"]] == [owner["metadata"]["uid"]]
        assert managers(item) == {"rayllm-controller"}
    assert api.names("ControllerRevision") == ["tiny-1", "tiny-2"]


def test_the_controller_renders_and_applies_nothing_of_it(
    run: Run, api: FakeAPI, cli_service: Declared, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopted(run, file)
    monkeypatch.setattr("rayllm_ctl.controller.service.propose", None)
    before = running(api)
    cli_service.writes()
    cli_service.settle()
    assert running(api) == before
    assert cli_service.condition("Applied")[:2] == ("True", "Applied")
    assert cli_service.condition("Planned")[0] == "True"


def test_what_the_controller_removes_later_is_gone(run: Run, api: FakeAPI, cli_service: Declared, file: str) -> None:
    adopted(run, file)
    cli_service.settle()
    result = run("scale", "tiny", "--min-replicas", "1", "--max-replicas", "2", "-n", "llm", "--no-wait")
    assert result.code == 0, str(result)
    cli_service.step()
    cli_service.step()
    assert api.names("PodDisruptionBudget") == []


def test_a_service_that_would_restart_is_not_adopted(
    run: Run, api: FakeAPI, cli_service: Declared, tmp_path: Path
) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(spec_file(replicas={"min": 2, "max": 2}, engine={"args": {"seed": 7}}))
    result = run("adopt", "tiny", "-f", str(path), "--offline", "-n", "llm")
    assert result.code == 1, str(result)
    assert "nothing was adopted" in result.err
    assert "restart" in result.err
    assert cli_service.writes() == []


def test_an_object_that_nobody_would_own_is_named(
    run: Run, api: FakeAPI, cli_service: Declared, tmp_path: Path
) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(spec_file(replicas={"min": 1, "max": 2}))
    result = run("adopt", "tiny", "-f", str(path), "--offline", "-n", "llm")
    assert result.code == 1, str(result)
    assert "PodDisruptionBudget tiny is not among the objects of the spec" in result.err
    assert cli_service.writes() == []


def test_adopt_for_an_llmservice_that_there_is(run: Run, api: FakeAPI, cli_service: Declared) -> None:
    result = run("adopt", "tiny", "--offline", "-n", "llm")
    assert result.code == 2
    assert "its spec is required" in result.err
    api.put(kind="LLMService", metadata={"name": "tiny"}, spec={**SPEC, "replicas": {"min": 2, "max": 2}})
    cli_service.step()
    assert cli_service.condition("Applied")[1] == "NotAdopted"
    result = run("adopt", "tiny", "--offline", "-n", "llm")
    assert result.code == 0, str(result)
    cli_service.settle()
    again = run("adopt", "tiny", "--offline", "-n", "llm")
    assert again.code == 1
    assert "llmservice/tiny declares rayservice/tiny already" in again.err


def test_a_dry_run_writes_nothing(run: Run, api: FakeAPI, cli_service: Declared, file: str) -> None:
    result = run("adopt", "tiny", "-f", file, "--offline", "-n", "llm", "--dry-run=server", "-o", "name")
    assert result.code == 0, str(result)
    assert "llmservice.rayllm.io/tiny" in result.out
    assert "rayservice.ray.io/tiny" in result.out
    assert cli_service.writes() == []
    adopted(run, file)
    cli_service.writes()
    result = run("release", "tiny", "-n", "llm", "--dry-run=server", "-o", "name")
    assert result.code == 0, str(result)
    assert cli_service.writes() == []


def test_release_is_the_reverse(run: Run, api: FakeAPI, cli_service: Declared, file: str) -> None:
    before = running(api)
    adopted(run, file)
    cli_service.settle()
    result = run("release", "tiny", "-n", "llm")
    assert result.code == 0, str(result)
    assert running(api) == before
    assert api.names("LLMService") == []
    for item in children(api).values():
        assert "ownerReferences" not in item["metadata"]
        assert managers(item) == {"rayllm-ctl"}
    assert api.names("ControllerRevision") == ["tiny-1", "tiny-2"]
    result = run("release", "tiny", "-n", "llm")
    assert result.code == 1
    assert "a service of the command line already" in result.err
    result = run("scale", "tiny", "--replicas", "3", "-n", "llm", "--no-wait")
    assert result.code == 0, str(result)
    assert api.stored("PodDisruptionBudget", "tiny")["spec"]["minAvailable"] == 2


def test_a_service_that_was_suspended_once_is_released_without_another_cluster(
    run: Run, api: FakeAPI, cli_service: Declared, file: str
) -> None:
    """An explicit false is part of the spec by which KubeRay knows a RayCluster."""
    adopted(run, file)
    cli_service.settle()
    assert run("suspend", "tiny", "-n", "llm", "--no-wait").code == 0
    cli_service.step()
    assert run("resume", "tiny", "-n", "llm", "--no-wait").code == 0
    cli_service.step()
    before = running(api)
    assert before["RayService/tiny"]["rayClusterConfig"]["suspend"] is False
    result = run("release", "tiny", "-n", "llm")
    assert result.code == 0, str(result)
    result = run("deploy", "-f", file, "--offline", "-n", "llm", "--no-wait")
    assert result.code == 0, str(result)
    assert running(api) == before


def test_a_service_that_was_suspended_once_is_adopted_without_another_cluster(
    run: Run, api: FakeAPI, cli_service: Declared, file: str
) -> None:
    for command in ("suspend", "resume"):
        assert run(command, "tiny", "-n", "llm", "--no-wait").code == 0
    before = running(api)
    assert before["RayService/tiny"]["rayClusterConfig"]["suspend"] is False
    adopted(run, file)
    cli_service.step()
    assert running(api) == before
    assert managers(cli_service.child()) == {"rayllm-controller"}
    # The field is the controller's now.
    assert run("suspend", "tiny", "-n", "llm", "--no-wait").code == 0
    cli_service.step()
    assert cli_service.child()["spec"]["rayClusterConfig"]["suspend"] is True


def test_a_suspended_service_is_not_released(run: Run, api: FakeAPI, cli_service: Declared, file: str) -> None:
    adopted(run, file)
    cli_service.settle()
    assert run("suspend", "tiny", "-n", "llm", "--no-wait").code == 0
    result = run("release", "tiny", "-n", "llm")
    assert result.code == 1
    assert "rayllm-ctl resume tiny -n llm" in result.err
    assert api.names("LLMService") == ["tiny"]


def state(api: FakeAPI) -> dict[str, Any]:
    """What there is in the end, without what differs from run to run."""
    found = {}
    for (kind, _, name), item in api._objects.items():
        owners = [one["name"] for one in item["metadata"].get("ownerReferences") or ()]
        content = {key: value for key, value in item.items() if key in ("spec", "data", "binaryData")}
        of_status = {"rayllm-controller"} if kind == "LLMService" else set()
        found[f"{kind}/{name}"] = (json.dumps(content, sort_keys=True), owners, managers(item) - of_status)
    return found


@pytest.mark.parametrize("sent", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("command", ["adopt", "release"])
def test_an_interrupted_command_is_continued_by_the_same_one(
    run: Run, api: FakeAPI, cli_service: Declared, file: str, monkeypatch: pytest.MonkeyPatch, command: str, sent: bool
) -> None:
    arguments: tuple[str, ...] = ("adopt", "tiny", "-f", file, "--offline", "-n", "llm")
    if command == "release":
        adopted(run, file)
        cli_service.settle()
        arguments = ("release", "tiny", "-n", "llm")
    begin = api.saved()
    interruption = Interruption(monkeypatch)
    assert run(*arguments).code == 0
    expected, requests = state(api), interruption.count
    assert requests > 10
    for at in range(requests):
        api.restore(begin)
        cli_service.restart()
        interruption.sent, interruption.at, interruption.count = sent, at, 0
        first = run(*arguments)
        interruption.at = None
        if command == "adopt" and "LLMService" in {kind for kind, _, _ in api._objects}:
            cli_service.step()  # the controller looks at what has been done so far
        again = run(*arguments)
        done = "already" in again.err and again.code == 1
        assert done or again.code == 0, f"request {at}: {first}\n{again}"
        found = state(api)
        differing = sorted(key for key in expected | found if expected.get(key) != found.get(key))
        assert differing == [], f"request {at}"
