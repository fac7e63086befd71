"""Ports of pods through the API server, and HTTP with a key over them."""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.cluster import connect
from rayllm_ctl.cluster.api import port_forward as portforward
from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.api.port_forward import forwarded
from rayllm_ctl.cluster.api.service_proxy import ServiceError
from rayllm_ctl.cluster.forward.direct import open_stream
from rayllm_ctl.errors import ClusterError, UserError
from tests.cluster.fakeapi import FakeAPI, status
from tests.cluster.fakehttp import kubeconfig
from tests.cluster.fakeportforward import port

PORT = "/pods/front/portforward$"
BODY = {"prompt": "x" * 70_000}
"""Longer than a frame of the second kind."""


@pytest.fixture
def cluster(api: FakeAPI, tmp_path: Path) -> Any:
    ready = {"conditions": {"ready": True}, "targetRef": {"kind": "Pod", "name": "front"}}
    other = {"conditions": {"ready": False}, "targetRef": {"kind": "Pod", "name": "back"}}
    labels = {"kubernetes.io/service-name": "chat-serve-svc"}
    ports = [{"name": "serve-grpc", "port": 9000}, {"name": "serve", "port": 8000}]
    api.put(kind="EndpointSlice", metadata={"name": "s", "labels": labels}, endpoints=[other, ready], ports=ports)
    return connect(str(kubeconfig(tmp_path / "config", api.url, token="t")))


def web(seen: list[bytes], answer: bytes, connection: socket.socket) -> None:
    request = b""
    while BODY["prompt"].encode() not in request:
        request += connection.recv(65536)
    seen.append(request)
    connection.sendall(answer)
    connection.close()


def test_a_stream_comes_with_the_key_as_its_authorization(api: FakeAPI, cluster: Any) -> None:
    seen: list[bytes] = []
    lines = b"".join(b"data: %d\n\n" % number for number in range(200))
    answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + lines
    api.answer("GET", PORT, port(partial(web, seen, answer)))
    with open_stream(cluster, "llm", "chat-serve-svc", "/v1/completions", BODY, "rayllm-key") as found:
        assert list(found) == [f"data: {number}" for number in range(200)]
    [request] = seen
    assert b"Authorization: Bearer rayllm-key\r\n" in request
    assert request.startswith(b"POST /v1/completions HTTP/1.1\r\n")
    [upgraded] = (one for one in api.requests if one.path.endswith("portforward"))
    assert upgraded.query == {"ports": "8000"}
    assert (upgraded.headers["Authorization"], upgraded.headers["Upgrade"]) == ("Bearer t", "websocket")
    assert "rayllm-key" not in str(upgraded)


def test_what_the_service_answers_is_said(api: FakeAPI, cluster: Any) -> None:
    text = b'{"error": {"message": "the key has expired"}}'
    answer = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)
    api.answer("GET", PORT, port(partial(web, [], answer)))
    with (
        pytest.raises(ServiceError, match="chat-serve-svc answered 401: the key has expired") as caught,
        open_stream(cluster, "llm", "chat-serve-svc", "/v1/completions", BODY, "rayllm-key"),
    ):
        pass
    assert caught.value.status == 401
    assert "rayllm-key" not in caught.value.message


def test_a_node_that_does_not_answer(api: FakeAPI, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portforward, "_OPEN_TIMEOUT", 0.2)
    api.answer("GET", PORT, lambda _: (101, lambda _: api.ending.wait(30)))
    with (
        pytest.raises(ClusterError, match=r"did not forward port 8000 of Pod llm/front within .* node") as caught,
        forwarded(cluster, "front", "llm", 8000),
    ):
        pass
    assert "cannot be reached" not in caught.value.message


def test_why_there_is_no_connection(api: FakeAPI, cluster: Any) -> None:
    denied = 'User "alice" cannot get resource "pods/portforward" in API group "" in the namespace "llm"'
    api.answer("GET", PORT, status(403, denied, "Forbidden"))
    with (
        pytest.raises(ForbiddenError, match="not permitted to get pods/portforward"),
        forwarded(cluster, "front", "llm", 8000),
    ):
        pass
    api.answer("GET", PORT, port(lambda _: None, problem="connection refused"))
    with (
        pytest.raises(UserError, match="cannot be reached: connection refused"),
        forwarded(cluster, "front", "llm", 8000) as near,
    ):
        assert near.recv(10) == b""
    api.answer("GET", PORT, (200, {}))
    with pytest.raises(UserError, match="forward port 8000"), forwarded(cluster, "front", "llm", 8000):
        pass
    api.remove("EndpointSlice", "s")
    with (
        pytest.raises(UserError, match="has no ready pod"),
        open_stream(cluster, "llm", "chat-serve-svc", "/", {}, "k"),
    ):
        pass
