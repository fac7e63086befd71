"""Commands change the LLMService that declares a service, and its controller the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.kinds.llmservice import CHANGE_DECLARED
from rayllm_ctl.model.workload import Right
from tests.cli.conftest import Run
from tests.cli.rollout.declared import FLAGS, SPEC, Declared, spec_file
from tests.cli.test_commands_rights import grants
from tests.cluster.fakeapi import FakeAPI, Request

CHILD = r"/rayservices/tiny$"
DECLARATION = r"/llmservices/tiny$"


@pytest.fixture
def declared(api: FakeAPI, run: Run, monkeypatch: pytest.MonkeyPatch) -> Declared:
    """A service of the controller that is Ready."""
    found = Declared(api, run, monkeypatch)
    api.put(kind="LLMService", metadata={"name": "tiny"}, spec=SPEC)
    found.settle()
    return found


def bodies(api: FakeAPI, pattern: str) -> list[dict[str, Any]]:
    """What was sent to change an object, but for dry runs."""
    sent = [one for one in api.requests if one.method == "PATCH" and pattern.rstrip("$") in one.path]
    return [one.json() for one in sent if "dryRun" not in one.query and not one.path.endswith("/status")]


def deployed(run: Run, tmp_path: Path, *flags: str, **spec: Any) -> Any:
    file = tmp_path / "tiny.yaml"
    file.write_text(spec_file(**spec))
    return run("deploy", "-f", str(file), "--offline", "-n", "llm", *flags)


def test_deploy_applies_the_spec_and_waits_for_the_controller(
    run: Run, api: FakeAPI, declared: Declared, tmp_path: Path
) -> None:
    result = deployed(run, tmp_path, replicas={"min": 1, "max": 3})
    assert result.code == 0, str(result)
    assert "llmservice/tiny declares the service" in result.err
    assert declared.spec()["replicas"] == {"max": 3}
    (body,) = bodies(api, "/llmservices/tiny")
    assert "annotations" not in body["metadata"]
    assert declared.condition("Applied")[2] == "revision 2"


def test_no_command_writes_the_child(run: Run, api: FakeAPI, declared: Declared, tmp_path: Path) -> None:
    declared.looking = False
    for command in (
        lambda: deployed(run, tmp_path, "--no-wait", replicas={"max": 2}),
        lambda: run("scale", "tiny", "--max-replicas", "4", "-n", "llm", "--no-wait"),
        lambda: run("suspend", "tiny", "-n", "llm", "--no-wait"),
        lambda: run("resume", "tiny", "-n", "llm", "--no-wait"),
        lambda: run("rerender", "tiny", "-n", "llm", "--no-wait"),
    ):
        api.requests.clear()
        result = command()
        assert result.code == 0, str(result)
        assert bodies(api, "/rayservices/tiny") == []
        assert len(bodies(api, "/llmservices/tiny")) == 1


def test_the_outage_of_one_generation_is_accepted(run: Run, api: FakeAPI, declared: Declared, tmp_path: Path) -> None:
    api.remove("Node", "n1", "")  # no capacity for another replica
    refused = deployed(run, tmp_path, engine={"args": {"seed": 7}})
    assert refused.code == 1, str(refused)
    assert "waits for consent" in refused.err
    assert "is unavailable for" in refused.err
    assert "--accept-outage    # proceeds anyway" in refused.err
    assert "seed" not in declared.child()["spec"]["serveConfigV2"]
    generation = api.stored("LLMService", "tiny")["metadata"]["generation"]
    accepted = deployed(run, tmp_path, "--accept-outage", engine={"args": {"seed": 8}})
    assert accepted.code == 0, str(accepted)
    stored = api.stored("LLMService", "tiny")["metadata"]
    assert stored["annotations"]["rayllm.io/accept"] == str(stored["generation"]) == str(generation + 1)
    assert '"seed": 8' in declared.child()["spec"]["serveConfigV2"]


def test_what_is_accepted_is_not_the_change_of_another_client(
    run: Run, api: FakeAPI, declared: Declared, tmp_path: Path
) -> None:
    def interfere(_request: Request) -> None:
        api.put(**{**api.stored("LLMService", "tiny"), "spec": {**SPEC, "engine": {"args": {"seed": 9}}}})

    # After the dry run that tells the generation, and before the apply.
    seen: list[Request] = []

    def second(request: Request) -> None:
        if request.query.get("dryRun"):
            seen.append(request)
        elif len(seen) == 1:
            seen.append(request)
            interfere(request)

    api.answer("PATCH", DECLARATION, second)
    result = deployed(run, tmp_path, "--accept-outage", replicas={"max": 2})
    assert result.code == 4, str(result)
    assert "rayllm.io/accept" not in (api.stored("LLMService", "tiny")["metadata"].get("annotations") or {})


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--force-conflicts",), "--force-conflicts"),
        (("--accept-risk",), "--accept-risk"),
        (("--rollback-on-failure",), "--rollback-on-failure"),
    ],
)
@pytest.mark.usefixtures("declared")
def test_what_the_controller_does_not_take_is_rejected(
    run: Run, api: FakeAPI, tmp_path: Path, flags: tuple[str, ...], named: str
) -> None:
    result = deployed(run, tmp_path, *flags)
    assert result.code == 2, str(result)
    assert f"its controller does not take {named}" in result.err
    assert bodies(api, "/llmservices/tiny") == []


@pytest.mark.parametrize(
    "spec", [{}, {"planOnly": True}, {"parallelism": {"tensor": 16}}], ids=["new", "planned", "invalid"]
)
def test_deploy_finds_an_llmservice_without_a_service(
    run: Run, api: FakeAPI, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spec: dict[str, Any]
) -> None:
    """What it would run is not in the cluster yet: beside it, the command line would make a service of its own."""
    found = Declared(api, run, monkeypatch)
    api.put(kind="LLMService", metadata={"name": "tiny"}, spec=SPEC | spec)
    if spec:
        found.step()
    assert api.names("RayService") == []
    result = deployed(run, tmp_path, "--no-wait", replicas={"max": 2})
    assert result.code == 0, str(result)
    assert "llmservice/tiny declares the service" in result.err
    assert found.spec()["replicas"] == {"max": 2}
    assert api.names("RayService") == []
    assert api.names("ControllerRevision") == []


def test_deploy_waits_for_the_controller_that_has_just_been_told(
    run: Run, api: FakeAPI, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = Declared(api, run, monkeypatch)
    api.put(kind="LLMService", metadata={"name": "tiny"}, spec=SPEC)
    result = deployed(run, tmp_path, replicas={"max": 2})
    assert result.code == 0, str(result)
    assert found.condition("Ready")[0] == "True"
    assert api.names("ControllerRevision") == ["tiny-1"]


def test_deploy_beside_an_llmservice_that_is_ending_is_rejected(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    ending = {"name": "tiny", "deletionTimestamp": "2026-03-01T12:00:00Z"}
    api.put(kind="LLMService", metadata=ending, spec=SPEC)
    result = deployed(run, tmp_path, "--no-wait")
    assert result.code == 1, str(result)
    assert "llmservice/tiny is being deleted" in result.err
    assert "rayllm-ctl wait tiny -n llm --for deleted" in result.err


def test_upgrade_is_the_rollout_of_the_llmservice(run: Run, declared: Declared, tmp_path: Path) -> None:
    result = deployed(run, tmp_path, "--upgrade", "in-place", replicas={"max": 2})
    assert result.code == 0, str(result)
    assert declared.spec()["rollout"] == "in-place"
    assert deployed(run, tmp_path, replicas={"max": 3}).code == 0
    assert "rollout" not in declared.spec()
    result = run("rollback", "tiny", "-n", "llm", "--upgrade", "surge")
    assert result.code == 0, str(result)
    assert (declared.spec()["replicas"], declared.spec()["rollout"]) == ({"max": 2}, "surge")


@pytest.mark.parametrize("command", ["deploy", "rollback"])
@pytest.mark.usefixtures("declared")
def test_the_controller_does_not_shrink(run: Run, api: FakeAPI, tmp_path: Path, command: str) -> None:
    assert deployed(run, tmp_path, replicas={"max": 2}).code == 0
    api.requests.clear()
    flags = ("--upgrade", "shrink")
    result = deployed(run, tmp_path, *flags) if command == "deploy" else run("rollback", "tiny", "-n", "llm", *flags)
    assert result.code == 1, str(result)
    assert "spec.rollout: shrink: the controller takes no replicas away" in result.err
    assert "spec.rollout: auto, or new-cluster" in result.err
    assert bodies(api, "/llmservices/tiny") == []


def test_a_dry_run_asks_for_the_llmservice(run: Run, api: FakeAPI, declared: Declared, tmp_path: Path) -> None:
    result = deployed(run, tmp_path, "--dry-run=server", "-o", "name", replicas={"max": 2})
    assert result.code == 0, str(result)
    assert result.out == "llmservice.rayllm.io/tiny\n"
    assert declared.spec() == SPEC
    assert bodies(api, "/llmservices/tiny") == []


def test_a_spec_that_cannot_run_ends_the_wait(run: Run, declared: Declared, tmp_path: Path) -> None:
    declared.looking = False
    result = run("scale", "tiny", "--max-replicas", "0", "-n", "llm")
    assert result.code == 2, str(result)
    declared.looking = True
    api = declared.api
    api.put(**{**api.stored("LLMService", "tiny"), "spec": {**SPEC, "parallelism": {"tensor": 64}}})
    result = run("scale", "tiny", "--max-replicas", "2", "-n", "llm")
    assert result.code == 1, str(result)
    assert "llmservice/tiny: DoesNotFit" in result.err or "llmservice/tiny: InvalidSpec" in result.err


def test_without_a_controller_the_wait_ends(run: Run, declared: Declared) -> None:
    declared.looking = False
    result = run("scale", "tiny", "--max-replicas", "3", "-n", "llm", "--timeout", "1ms")
    assert result.code == 3, str(result)
    assert "no controller has looked at generation 2" in result.err


def test_scale_and_the_next_deploy(run: Run, api: FakeAPI, declared: Declared, tmp_path: Path) -> None:
    assert run("scale", "tiny", "--min-replicas", "1", "--max-replicas", "3", "-n", "llm").code == 0
    assert declared.spec()["replicas"] == {"min": 1, "max": 3}
    assert "max_replicas: 3" in declared.child()["spec"]["serveConfigV2"]
    result = run("scale", "tiny", "--max-replicas", "2", "-n", "llm")
    assert result.code == 0, str(result)
    assert "1..3 → 1..2 replicas" in result.err
    deploy = deployed(run, tmp_path)
    assert deploy.code == 0, str(deploy)
    assert declared.spec() == SPEC  # as the file says


def test_scale_keeps_a_number_of_replicas(run: Run, api: FakeAPI, declared: Declared) -> None:
    declared.looking = False
    api.put(**{**api.stored("LLMService", "tiny"), "spec": {**SPEC, "replicas": {"count": 1}}})
    assert run("scale", "tiny", "--replicas", "2", "-n", "llm", "--no-wait").code == 0
    assert declared.spec()["replicas"] == {"count": 2}
    result = run("scale", "tiny", "--min-replicas", "1", "--max-replicas", "3", "-n", "llm", "--no-wait")
    assert result.code == 0, str(result)
    assert declared.spec()["replicas"] == {"min": 1, "max": 3}


def test_scale_one_of_several_models(run: Run, api: FakeAPI, declared: Declared) -> None:
    declared.looking = False
    models = [{"id": name, "accelerator": {"gpu": "L4"}} for name in ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B")]
    api.put(**{**api.stored("LLMService", "tiny"), "spec": {"models": models}})
    result = run("scale", "tiny", "--max-replicas", "2", "-n", "llm", "--no-wait")
    assert "serves several models" in result.err
    result = run("scale", "tiny", "--model", "Qwen/Qwen3-1.7B", "--max-replicas", "2", "-n", "llm", "--no-wait")
    assert result.code == 0, str(result)
    assert [one.get("replicas") for one in declared.spec()["models"]] == [None, {"min": 1, "max": 2}]


def test_rollback_sets_the_spec_of_a_revision(run: Run, declared: Declared, tmp_path: Path) -> None:
    first = declared.child()["spec"]["serveConfigV2"]
    assert deployed(run, tmp_path, replicas={"min": 1, "max": 3}).code == 0
    assert declared.child()["spec"]["serveConfigV2"] != first
    result = run("rollback", "tiny", "-n", "llm")
    assert result.code == 0, str(result)
    assert declared.spec() == SPEC
    assert declared.child()["spec"]["serveConfigV2"] == first
    assert "generation" in run("history", "tiny", "-n", "llm").out


def test_rollback_leaves_no_field_of_another_manager(
    run: Run, api: FakeAPI, declared: Declared, tmp_path: Path
) -> None:
    assert deployed(run, tmp_path, replicas={"min": 1, "max": 3}).code == 0
    spec = {**declared.spec(), "engine": {"args": {"seed": 7}}}
    api.put(**{**api.stored("LLMService", "tiny"), "spec": spec})
    result = run("rollback", "tiny", "--to", "1", "-n", "llm")
    assert result.code == 4, str(result)
    assert "spec.engine" in result.err
    assert declared.spec() == spec


def test_suspend_and_resume(run: Run, declared: Declared, tmp_path: Path) -> None:
    assert run("suspend", "tiny", "-n", "llm", "--no-wait").code == 0
    declared.step()
    assert declared.child()["spec"]["rayClusterConfig"]["suspend"] is True
    result = deployed(run, tmp_path, replicas={"max": 2})
    assert result.code == 0, str(result)
    assert "llmservice/tiny is suspended" in result.err
    result = run("resume", "tiny", "-n", "llm")
    assert result.code == 0, str(result)
    assert declared.child()["spec"]["rayClusterConfig"]["suspend"] is False


def test_restart_is_left_alone_by_the_controller(run: Run, declared: Declared) -> None:
    assert run("restart", "tiny", "-n", "llm", "--no-wait").code == 0
    head = declared.child()["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]
    restarted = head["metadata"]["annotations"]["rayllm.io/restarted-at"]
    # The API server has a later time for what restart applied: the controller applies its own fields again.
    declared.api.put(**{**declared.child(), "spec": {**declared.child()["spec"], "serveConfigV2": "applications: []"}})
    declared.api.stored("RayService", "tiny")["metadata"]["managedFields"] = [
        one for one in declared.child()["metadata"]["managedFields"] if one["manager"] != "rayllm-controller"
    ]
    declared.step()
    head = declared.child()["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]
    assert head["metadata"]["annotations"]["rayllm.io/restarted-at"] == restarted
    assert declared.child()["spec"]["serveConfigV2"] != "applications: []"


def test_delete_deletes_the_llmservice(run: Run, api: FakeAPI, declared: Declared) -> None:
    def end_pods(_request: Request) -> None:
        for kind in ("Pod", "RayCluster"):
            for name in api.names(kind):
                if name.startswith("tiny"):
                    api.remove(kind, name)

    api.answer("DELETE", DECLARATION, end_pods)
    result = run("delete", "tiny", "-n", "llm")
    assert result.code == 0, str(result)
    assert api.names("LLMService") == api.names("RayService") == api.names("ControllerRevision") == []
    assert [one.path for one in api.requests if one.method == "DELETE" and "/rayservices/" in one.path] == []


@pytest.mark.usefixtures("declared")
def test_diff_shows_no_difference(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tiny.yaml"
    file.write_text(spec_file())
    result = run("diff", "-f", str(file), "--offline", "-n", "llm")
    assert (result.code, result.out) == (0, ""), str(result)
    file.write_text(spec_file(replicas={"min": 1, "max": 3}))
    result = run("diff", "-f", str(file), "--offline", "-n", "llm")
    assert result.code == 1, str(result)
    assert "ownerReferences" not in result.out


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(
    "command",
    [
        ("status", "tiny"),
        ("status",),
        ("watch", "tiny", "--timeout", "1ms"),
        ("wait", "tiny", "--for", "ready"),
        ("events", "tiny"),
        ("logs", "tiny", "--head"),
        ("chat", "tiny", "Why?"),
        ("endpoint", "tiny"),
        ("serve-config", "tiny"),
        ("top", "tiny"),
        ("history", "tiny"),
        ("version", "tiny"),
    ],
    ids=lambda command: " ".join(command),
)
def test_commands_that_look_work_as_always(run: Run, api: FakeAPI, command: tuple[str, ...]) -> None:
    result = run(*command, "-n", "llm")
    assert result.code == 0, str(result)
    assert api.count("GET", "llmservices") == 0


@pytest.mark.usefixtures("declared")
def test_a_bundle_has_the_service(run: Run, tmp_path: Path) -> None:
    result = run("bundle", "tiny", "-n", "llm", "-o", str(tmp_path / "bundle"))
    assert result.code == 0, str(result)


@pytest.mark.parametrize(
    ("command", "most"),
    [
        (("scale", "tiny", "--max-replicas", "3", "--no-wait"), 5),
        (("suspend", "tiny", "--no-wait"), 6),
        (("resume", "tiny", "--no-wait"), 6),
        (("rerender", "tiny", "--no-wait"), 5),
        (("delete", "tiny", "--no-wait"), 10),
    ],
)
def test_requests(run: Run, api: FakeAPI, declared: Declared, command: tuple[str, ...], most: int) -> None:
    declared.looking = False
    result = run(*command, "-n", "llm")
    assert result.code == 0, str(result)
    sent = [f"{one.method} {one.path}" for one in api.requests]
    assert len(sent) <= most, "\n".join(sent)


def test_deploy_by_flags_changes_the_llmservice(run: Run, declared: Declared) -> None:
    result = run("deploy", *FLAGS, "--max-replicas", "2")
    assert result.code == 0, str(result)
    assert declared.spec()["replicas"] == {"max": 2}


@pytest.mark.parametrize(
    "command", [("scale", "tiny", "--max-replicas", "3"), ("suspend", "tiny"), ("resume", "tiny"), ("rerender", "tiny")]
)
def test_rights_on_the_llmservice_are_enough(
    run: Run, api: FakeAPI, declared: Declared, command: tuple[str, ...]
) -> None:
    declared.looking = False
    api.granted = grants(Right("get", "RayService"), *CHANGE_DECLARED.needed)
    result = run(*command, "-n", "llm", "--no-wait")
    assert result.code == 0, str(result)
    api.granted = grants(Right("get", "RayService"), Right("get", "LLMService"))
    result = run(*command, "-n", "llm", "--no-wait")
    assert result.code != 0
    assert "patch" in result.err


def test_deploy_needs_no_right_on_the_child(run: Run, api: FakeAPI, declared: Declared, tmp_path: Path) -> None:
    declared.looking = False
    api.granted = grants(Right("get", "RayService"), *CHANGE_DECLARED.needed)
    result = deployed(run, tmp_path, "--no-wait", replicas={"max": 2})
    assert result.code == 0, str(result)
    assert declared.spec()["replicas"] == {"max": 2}


def test_a_conflict_with_another_manager_is_not_forced(
    run: Run, api: FakeAPI, declared: Declared, tmp_path: Path
) -> None:
    api.update("kubectl", "LLMService", "tiny", spec={**SPEC, "replicas": {"max": 2}})
    result = deployed(run, tmp_path, replicas={"max": 3})
    assert result.code == 4, str(result)
    assert "spec.replicas.max  is owned by kubectl" in result.err
    assert "--force-conflicts" not in result.err
    result = run("scale", "tiny", "--max-replicas", "3", "-n", "llm", "--no-wait")
    assert result.code == 4, str(result)
    assert "--force-conflicts" in result.err
    assert declared.spec()["replicas"] == {"max": 2}
    result = run("scale", "tiny", "--max-replicas", "3", "-n", "llm", "--no-wait", "--force-conflicts")
    assert result.code == 0, str(result)
    assert declared.spec()["replicas"] == {"min": 1, "max": 3}


def test_restart_takes_no_replica_away(run: Run, api: FakeAPI, declared: Declared) -> None:
    api.remove("Node", "n1", "")  # no capacity for a second RayCluster
    result = run("restart", "tiny", "-n", "llm", "--no-wait")
    assert result.code == 0, str(result)
    assert "was not applied by rayllm-ctl but by rayllm-controller" in result.err
    assert {one["metadata"]["name"] for one in bodies(api, "/rayservices/tiny")} == {"tiny"}
    assert [list(one["spec"]) for one in bodies(api, "/rayservices/tiny")] == [["rayClusterConfig"]]


def test_delete_waits_for_the_garbage_collector(run: Run, api: FakeAPI, declared: Declared) -> None:
    api.remove("LLMService", "tiny")  # by a command that was interrupted; its children are still there
    result = run("delete", "tiny", "-n", "llm", "--timeout", "1ms")
    assert result.code == 3, str(result)
    assert "RayService tiny" in result.err
    assert [one.path for one in api.requests if one.method == "DELETE" and "/rayservices/" in one.path] == []
    result = run("scale", "tiny", "--max-replicas", "2", "-n", "llm")
    assert result.code == 1
    assert "llmservice/tiny, which declares rayservice/tiny, is gone" in result.err
