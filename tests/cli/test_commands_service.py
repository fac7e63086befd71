"""Whole commands in one process against a fake API server: what they print, on which stream, and their exit codes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.conftest import Deploy, Run
from tests.cluster.fakeapi import FakeAPI, Request, status
from tests.conftest import Golden

TINY = (
    "--model", "tiny", "--model-path", "/models/tiny", "--accelerator", "cpu", "--max-model-len", "1024",
    "--volume", "pvc:models:/models", "--image", "example.com/vllm-cpu:1", "--offline",
)  # fmt: skip
DEPLOY = ("deploy", *TINY)


@pytest.fixture
def deployed(deploy: Deploy) -> None:
    deploy(*TINY)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("deploy", DEPLOY),
        ("deploy-no-wait", (*DEPLOY, "--no-wait")),
        ("deploy-dry-run-server", (*DEPLOY, "--dry-run=server")),
        ("deploy-name", (*DEPLOY, "-o", "name")),
        ("deploy-json", (*DEPLOY, "-o", "json")),
        ("status-of-nothing", ("status",)),
        ("status-unknown", ("status", "tiny")),
        ("delete-unknown", ("delete", "tiny")),
        ("chat-unknown", ("chat", "tiny", "Hello")),
        ("namespace-missing", (*DEPLOY, "-n", "nowhere")),
    ],
)
def test_on_an_empty_cluster(run: Run, golden: Golden, name: str, arguments: tuple[str, ...]) -> None:
    golden.check(f"commands/{name}.txt", str(run(*arguments)))


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("deploy-unchanged", DEPLOY),
        ("status", ("status", "tiny")),
        ("status-json", ("status", "tiny", "-o", "json")),
        ("status-name", ("status", "tiny", "-o", "name")),
        ("status-list", ("status",)),
        ("status-all", ("status", "-A")),
        ("status-list-name", ("status", "-o", "name")),
        ("watch", ("watch", "tiny", "--timeout", "1ms")),
        ("watch-json", ("watch", "tiny", "--timeout", "1ms", "-o", "json")),
        ("chat", ("chat", "tiny", "Why?")),
        ("chat-misspelled", ("chat", "tine", "Why?")),
        ("chat-with-a-model-misspelled", ("chat", "tiny", "--model", "tyni", "Why?")),
        ("endpoint", ("endpoint", "tiny")),
        ("endpoint-misspelled", ("endpoint", "tine")),
        ("delete-no-wait", ("delete", "tiny", "--no-wait")),
        ("version", ("version",)),
    ],
)
def test_with_a_service(run: Run, golden: Golden, name: str, arguments: tuple[str, ...]) -> None:
    golden.check(f"commands/{name}.txt", str(run(*arguments)))


@pytest.mark.usefixtures("deployed")
def test_chat_has_no_question_if_the_input_is_closed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    closed = run("chat", "tiny")
    assert (closed.code, closed.out) == (2, "")
    assert closed.err == '✗ standard input is closed\n\nhint: rayllm-ctl chat tiny "PROMPT"\n'


@pytest.mark.usefixtures("deployed")
def test_chat_asks_the_model_that_is_named(run: Run, api: FakeAPI) -> None:
    api.answer("GET", "tiny-serve-svc:serve/proxy/v1/models$", (200, {"data": [{"id": "tiny"}, {"id": "legal"}]}))
    assert run("chat", "tiny", "--model", "legal", "Why?").code == 0
    (asked,) = (request for request in api.requests if request.path.endswith("chat/completions"))
    assert asked.json()["model"] == "legal"
    assert json.loads(run("endpoint", "tiny", "-o", "json").out)["models"] == ["tiny", "legal"]


def test_client_dry_run_and_render_print_the_same_and_ask_no_cluster(run: Run, api: FakeAPI) -> None:
    rendered = run("render", *TINY)
    assert rendered.code == 0
    assert rendered.err.startswith("what example.com/vllm-cpu:1 contains is not known")
    assert rendered.err.count("\n") == 1
    assert run(*DEPLOY, "--dry-run=client") == rendered
    assert api.requests == []


@pytest.mark.parametrize("form", ["yaml", "json", "name"])
def test_a_client_dry_run_of_files_prints_what_render_prints(run: Run, api: FakeAPI, tmp_path: Path, form: str) -> None:
    files = []
    for name in ("a", "b"):
        file = tmp_path / f"{name}.yaml"
        file.write_text(run("init", *TINY, "--name", name).out)
        files += ["-f", str(file)]
    rendered = run("render", *files, "--offline", "-o", form)
    assert rendered.out.count("a") > 1
    assert run("apply", *files, "--offline", "--dry-run=client", "-o", form) == rendered
    assert api.requests == []


def test_a_service_in_two_files_is_applied_from_none(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(run("init", *TINY, "--name", "a").out)
    result = run("apply", "-f", str(file), "-f", str(file), "--offline")
    assert (result.code, result.out, api.requests) == (2, "", [])
    assert "service a is in 2 of the files" in result.err


def test_apply_plans_every_file_before_it_asks_the_cluster(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    head = "apiVersion: rayllm.io/v1alpha1\nkind: LLMService\n"
    model = "spec: {model: {id: tiny, path: /models/tiny}, accelerator: {kind: cpu}, engine: {image: x:1}}\n"
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(f"{head}metadata: {{name: good}}\n{model}")
    bad.write_text(f"{head}metadata: {{name: bad}}\n{model.replace('cpu', 'tpu')}")
    assert run("apply", "-f", str(good), "-f", str(bad), "--offline").code == 2
    assert api.requests == []
    result = run("apply", "-f", str(good), "--offline", "-o", "name")
    assert (result.code, result.out) == (0, "rayservice.ray.io/good\n")


def test_deploy_renders_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from rayllm_ctl import render
    from rayllm_ctl.workflows.render import manifests

    calls: list[Any] = []
    real = render.render

    def counted(*args: Any) -> Any:
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(manifests, "render", counted)
    assert run(*DEPLOY).code == 0
    assert len(calls) == 1


def test_deploy_ends_at_once_when_its_service_is_deleted(run: Run, api: FakeAPI, golden: Golden) -> None:
    api.applied = lambda item: None

    def delete(_request: Request) -> None:
        if api.count("PATCH", "rayservices"):
            api.remove("RayService", "tiny")

    api.answer("GET", "/rayservices/tiny$", delete)
    golden.check("commands/deploy-deleted.txt", str(run(*DEPLOY)))


def test_the_loser_of_two_deployments_is_told(run: Run, api: FakeAPI, golden: Golden) -> None:
    def other(item: dict[str, Any]) -> None:
        changed = json.loads(json.dumps(item))
        changed["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["maxReplicas"] = 7
        changed["spec"]["serveConfigV2"] += "# another"
        api.put(**changed)

    api.applied = other
    result = run(*DEPLOY)
    golden.check("commands/deploy-changed.txt", str(result))
    assert result.code == 4


def test_fields_of_another_manager_are_a_conflict(run: Run, api: FakeAPI) -> None:
    conflict = {"reason": "FieldManagerConflict", "message": 'conflict with "argocd"', "field": ".spec.serveConfigV2"}
    api.answer("PATCH", "rayservices", status(409, "conflict", "Conflict", causes=[conflict]))
    result = run(*DEPLOY)
    assert result.code == 4
    assert "spec.serveConfigV2  is owned by argocd" in result.err
    assert "hint: --force-conflicts" in result.err


@pytest.mark.parametrize(("name", "again"), [("deploy-interrupted", False), ("deploy-interrupted-unchanged", True)])
def test_an_interrupted_wait_says_what_goes_on(
    run: Run, api: FakeAPI, golden: Golden, monkeypatch: pytest.MonkeyPatch, name: str, again: bool
) -> None:
    if again:
        run(*DEPLOY)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rayllm_ctl.cluster.snapshot.service.Collector.collect", interrupt)
    result = run(*DEPLOY)
    golden.check(f"commands/{name}.txt", str(result))
    assert result.code == 130


def test_a_deletion_waits_until_the_pods_are_gone(
    run: Run, api: FakeAPI, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rayllm_ctl.cluster.apply.leftovers.POLL_SECONDS", 0.05)
    run(*DEPLOY)

    def drain(_request: Request) -> None:
        if api.count("DELETE", "rayservices"):
            for kind, name in (("RayCluster", ""), ("Pod", "-head"), ("Pod", "-worker")):
                api.remove(kind, f"tiny-bcdfg{name}")

    before = api.count("GET", "/pods$")
    api.answer("GET", "/pods$", lambda request: drain(request) if api.count("GET", "/pods$") == before + 3 else None)
    golden.check("commands/delete.txt", str(run("delete", "tiny")))


def test_an_interrupted_deletion_says_that_it_goes_on(
    run: Run, api: FakeAPI, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(*DEPLOY)

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    # The module's own clock: threads of other tests keep sleeping.
    clock = SimpleNamespace(sleep=interrupt, monotonic=time.monotonic)
    monkeypatch.setattr("rayllm_ctl.cluster.apply.leftovers.time", clock)
    golden.check("commands/delete-interrupted.txt", str(run("delete", "tiny")))
