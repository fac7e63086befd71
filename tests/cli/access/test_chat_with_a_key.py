"""`chat` and `endpoint` of a service that requires API keys."""

from __future__ import annotations

import json
import socket
from functools import partial
from pathlib import Path

import pytest

from tests.cli.access.test_keys import KEYS, deployed
from tests.cli.conftest import Run
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakeportforward import port

pytestmark = pytest.mark.connections

KEY = "rayllm-0123456789"
ASKED = ("chat", "chat", "Why?", "-n", "llm")


@pytest.fixture
def service(run: Run, api: FakeAPI, tmp_path: Path) -> FakeAPI:
    deployed(run, tmp_path, KEYS)
    missing = {"error": {"message": "missing API key", "code": "invalid_api_key"}}
    api.answer("GET", "chat-serve-svc:serve/proxy/v1/models$", (401, missing))
    labels = {"kubernetes.io/service-name": "chat-serve-svc"}
    ready = {"conditions": {"ready": True}, "targetRef": {"kind": "Pod", "name": "front"}}
    ports = [{"name": "serve", "port": 8000}]
    api.put(kind="EndpointSlice", metadata={"name": "own", "labels": labels}, endpoints=[ready], ports=ports)
    return api


def answer(seen: list[bytes], text: bytes, connection: socket.socket) -> None:
    request = b""
    while not request.endswith(b"}"):
        request += connection.recv(65536)
    seen.append(request)
    connection.sendall(text)
    connection.close()


def forward(api: FakeAPI, text: bytes) -> list[bytes]:
    seen: list[bytes] = []
    api.answer("GET", "/pods/front/portforward$", port(partial(answer, seen, text)))
    return seen


def test_the_key_comes_from_the_environment_or_a_file(
    run: Run, service: FakeAPI, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chunks = [{"choices": [{"delta": {"content": text}}]} for text in ("Because ", "it is.")]
    lines = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks) + b"data: [DONE]\n\n"
    seen = forward(service, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + lines)
    monkeypatch.setenv("RAYLLM_API_KEY", KEY)
    result = run(*ASKED)
    assert (result.code, result.out) == (0, "Because it is.\n"), result.err
    monkeypatch.delenv("RAYLLM_API_KEY")
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    assert run(*ASKED, "--api-key-file", str(file)).out == "Because it is.\n"
    assert [f"Authorization: Bearer {KEY}\r\n".encode() in request for request in seen] == [True, True]
    assert json.loads(seen[0].partition(b"\r\n\r\n")[2])["model"] == "tiny"
    assert KEY not in "".join(f"{one.path}{one.query}{one.headers}{one.body!r}" for one in service.requests)


def test_what_is_wrong_with_the_key(
    run: Run, service: FakeAPI, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lacking = run(*ASKED)
    assert lacking.code == 1
    assert "service llm/chat requires an API key" in lacking.err
    assert "export RAYLLM_API_KEY=$(rayllm-ctl keys create chat -n llm --key-name NAME)" in lacking.err
    text = b'{"error": {"message": "the API key has expired"}}'
    forward(service, b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
    monkeypatch.setenv("RAYLLM_API_KEY", KEY)
    expired = run(*ASKED)
    assert expired.code == 1
    assert "answered 401: the API key has expired" in expired.err
    assert KEY not in expired.err
    for wrong in (f"{KEY} {KEY}", "ключ", f"a\n{KEY}"):
        monkeypatch.setenv("RAYLLM_API_KEY", wrong)
        result = run(*ASKED)
        assert result.code == 2
        assert "RAYLLM_API_KEY: expected one API key and nothing else" in result.err
        assert KEY not in result.err
    empty = tmp_path / "empty"
    empty.write_text("")
    assert run(*ASKED, "--api-key-file", str(empty)).code == 2


def test_endpoint_says_that_a_key_is_required(run: Run, service: FakeAPI) -> None:
    result = run("endpoint", "chat", "-n", "llm")
    assert result.out == "http://chat-serve-svc.llm:8000/v1\n"
    assert 'curl -H "Authorization: Bearer $KEY" http://chat-serve-svc.llm:8000/v1/models' in result.err
    found = json.loads(run("endpoint", "chat", "-n", "llm", "-o", "json").out)
    assert (found["keyRequired"], found["models"]) == (True, ["tiny"])
