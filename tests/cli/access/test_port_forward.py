"""`port-forward`: what it prints, what clients get, and how it ends."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.cli.commands.access import port_forward
from rayllm_ctl.kinds import WORKLOADS
from tests.cli.access.test_keys import KEYS, deployed
from tests.cli.conftest import Deploy, Result, Run
from tests.cli.test_commands_rights import grants
from tests.cli.test_commands_service import TINY
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakeportforward import port

pytestmark = pytest.mark.connections

Client = Callable[[], Any]


def pod(api: FakeAPI, service: str, answers: dict[str, bytes]) -> None:
    """A ready pod behind `service`, which answers by path."""
    labels = {"kubernetes.io/service-name": service}
    ready = {"conditions": {"ready": True}, "targetRef": {"kind": "Pod", "name": "front"}}
    ports = [{"name": "serve", "port": 8000}]
    api.put(kind="EndpointSlice", metadata={"name": "own", "labels": labels}, endpoints=[ready], ports=ports)
    api.answer("GET", "/pods/front/portforward$", port(partial(web, answers)))


def web(answers: dict[str, bytes], connection: socket.socket) -> None:
    request = connection.recv(65536)
    if request:
        connection.sendall(answers[request.split()[1].decode()])
    connection.close()


def reply(status: str, value: Any) -> bytes:
    body = json.dumps(value).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


MODELS = {"/v1/models": reply("200 OK", {"data": [{"id": "tiny"}, {"id": "legal"}]})}


@pytest.fixture
def number() -> int:
    """A port that is free."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        found: int = server.getsockname()[1]
        return found


Interrupted = Callable[..., tuple[Result, Any]]


@pytest.fixture
def interrupted(run: Run, monkeypatch: pytest.MonkeyPatch, number: int) -> Interrupted:
    """Runs port-forward until a client has used it, then Ctrl-C: what it printed, and what the client got."""

    def command(*arguments: str, client: Client = lambda: None) -> tuple[Result, Any]:
        got: list[Any] = []

        def use() -> None:
            got.append(client())
            raise KeyboardInterrupt

        monkeypatch.setattr(port_forward, "_until_interrupted", use)
        return run("port-forward", *arguments, "--port", str(number)), got[0]

    return command


def test_the_url_comes_first_and_the_api_answers(
    interrupted: Interrupted, deploy: Deploy, api: FakeAPI, number: int
) -> None:
    deploy(*TINY)
    pod(api, "tiny-serve-svc", MODELS | {"/v1/chat/completions": reply("200 OK", {"id": "1"})})

    def chat() -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", number, timeout=10)
        connection.request("GET", "/v1/chat/completions")
        return json.load(connection.getresponse())

    result, got = interrupted("tiny", client=chat)
    assert got == {"id": "1"}
    assert (result.code, result.out) == (130, "http://SERVER/v1\n")
    assert result.err == "models tiny, legal\n\n✗ interrupted\n"


@pytest.mark.parametrize("kind", ["raycluster", "rayservice"])
def test_the_declared_rights_are_enough(
    run: Run, interrupted: Interrupted, deploy: Deploy, api: FakeAPI, kind: str
) -> None:
    deploy(*TINY, *(("--kind", kind) if kind == "raycluster" else ()))
    workload = next(one for one in WORKLOADS.values() if one.name.lower() == kind)
    pod(api, workload.serve_service("tiny"), MODELS)
    needed = workload.rights_for("port-forward").needed
    api.granted = grants(*needed)
    result, _ = interrupted("tiny")
    assert (result.code, result.out) == (130, "http://SERVER/v1\n"), str(result)
    assert "models tiny, legal" in result.err
    for right in needed:
        if right.verb == "create":
            continue  # what older versions of Kubernetes ask for in place of get
        api.granted = grants(*needed) - grants(right)
        failed = run("port-forward", "tiny", "--port", "0")
        assert failed.code == 5, str(failed)
        assert "not permitted to" in failed.err


def test_a_service_with_api_keys(run: Run, interrupted: Interrupted, api: FakeAPI, tmp_path: Path) -> None:
    deployed(run, tmp_path, KEYS)
    pod(api, "chat-serve-svc", {"/v1/models": reply("401 Unauthorized", {"error": {}})})
    result, _ = interrupted("chat", "-n", "llm")
    assert 'model tiny; requires an API key ("Authorization: Bearer KEY")' in result.err


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (reply("404 Not Found", "no"), "GET /v1/models was answered with 404 and lists no models"),
        (reply("200 OK", {"data": []}), "models unknown"),
        (b"", "GET /v1/models was not answered"),
    ],
)
def test_a_service_without_a_list_of_models_is_forwarded_as_well(
    interrupted: Interrupted, deploy: Deploy, api: FakeAPI, answer: bytes, said: str
) -> None:
    deploy(*TINY)
    pod(api, "tiny-serve-svc", {"/v1/models": answer})
    result, _ = interrupted("tiny")
    assert result.out == "http://SERVER/v1\n"
    assert said in result.err


def test_what_cannot_be_forwarded(run: Run, deploy: Deploy, api: FakeAPI, number: int) -> None:
    deploy(*TINY)
    nothing = run("port-forward", "tine")
    assert (nothing.code, nothing.out) == (1, "")
    assert "there is no service tine in namespace llm" in nothing.err
    assert "did you mean tiny?" in nothing.err
    starting = run("port-forward", "tiny")
    assert (starting.code, starting.out) == (1, "")
    assert "service llm/tiny-serve-svc has no ready pod" in starting.err
    assert "hint: rayllm-ctl status tiny -n llm" in starting.err
    pod(api, "tiny-serve-svc", MODELS)
    with socket.create_server(("127.0.0.1", number)):
        taken = run("port-forward", "tiny", "--port", str(number))
    assert (taken.code, taken.out) == (2, "")
    assert f"port {number} of this machine cannot be used: Address already in use" in taken.err
    assert "hint: --port 0    # any free port" in taken.err


def test_the_applications_of_a_serve_configuration(
    run: Run, interrupted: Interrupted, api: FakeAPI, tmp_path: Path
) -> None:
    file = tmp_path / "text.yaml"
    file.write_text(
        "applications:\n"
        "- {name: words, import_path: 'words:app', route_prefix: /words}\n"
        "- {name: index, import_path: 'index:app', route_prefix: /}\n"
        "- {name: hidden, import_path: 'hidden:app', route_prefix: null}\n"
    )
    deployed_file = run("deploy", "--serve-config", str(file), "--image", "rayproject/ray:2.60.0")
    assert deployed_file.code == 0, str(deployed_file)
    pod(api, "text-serve-svc", {})
    result, _ = interrupted("text")
    assert (result.code, result.out) == (130, "http://SERVER/words\nhttp://SERVER/\n")
    assert "application words: http://SERVER/words\napplication index: http://SERVER/\n" in result.err
    assert "models" not in result.err


def test_an_api_below_a_route(run: Run, interrupted: Interrupted, api: FakeAPI, tmp_path: Path) -> None:
    file = tmp_path / "chat.yaml"
    model = "{model_loading_config: {model_id: m, model_source: Qwen/Qwen3-8B}, accelerator_type: L40S}"
    file.write_text(
        "applications:\n"
        "- import_path: ray.serve.llm:build_openai_app\n"
        f"  route_prefix: /llm\n  args: {{llm_configs: [{model}]}}\n"
    )
    made = run("deploy", "--offline", "--serve-config", str(file), "--image", "rayproject/ray-llm:2.60.0-py312-cu130")
    assert made.code == 0, str(made)
    pod(api, "chat-serve-svc", {"/llm/v1/models": reply("200 OK", {"data": [{"id": "m"}]})})
    result, _ = interrupted("chat")
    assert result.out == "http://SERVER/llm/v1\n"
    assert "model m" in result.err
