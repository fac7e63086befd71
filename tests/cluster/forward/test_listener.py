"""A local port in front of the pods of a Service: where connections go, and what clients get while there is no pod."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.forward.listener import listen_on_loopback
from rayllm_ctl.errors import UsageError, UserError
from tests.cluster.fakeapi import FakeAPI, status
from tests.cluster.fakeportforward import port

SERVICE = "chat-serve-svc"


def addresses(api: FakeAPI, **ready: bool) -> None:
    """The pods behind the Service."""
    endpoints = [
        {"conditions": {"ready": yes}, "targetRef": {"kind": "Pod", "name": name}} for name, yes in ready.items()
    ]
    labels = {"kubernetes.io/service-name": SERVICE}
    ports = [{"name": "serve", "port": 8000}]
    api.put(kind="EndpointSlice", metadata={"name": "s", "labels": labels}, endpoints=endpoints, ports=ports)


def web(name: str, connection: socket.socket) -> None:
    """A pod that says its name to every request, until the client ends the connection."""
    received = b""
    while piece := connection.recv(65536):
        received += piece
        head, end, body = received.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
        if end and len(body) >= size:
            text = f"{name} {size}".encode()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
            received = body[size:]
    connection.close()


@pytest.fixture
def chat(api: FakeAPI) -> FakeAPI:
    addresses(api, a=True, b=False, c=True)
    for name in "abc":
        api.answer("GET", f"/pods/{name}/portforward$", port(partial(web, name)))
    return api


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def local(cluster: Cluster, chat: FakeAPI, said: list[str]) -> Iterator[int]:
    with listen_on_loopback(cluster, "llm", SERVICE, report=said.append) as number:
        yield number


def ask(number: int, body: bytes = b"") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", number, timeout=10)
    try:
        connection.request("POST", "/v1/chat/completions", body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_connections_go_to_the_ready_pods_in_turn(local: int) -> None:
    found = [ask(local)[1] for _ in range(4)]
    assert sorted(found) == [b"a 0", b"a 0", b"c 0", b"c 0"]
    assert found[0] != found[1]


def test_a_connection_stays_with_its_pod_and_carries_large_bodies(local: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", local, timeout=10)
    found = set()
    for size in (0, 300_000, 7):
        connection.request("POST", "/", b"x" * size)
        found.add(connection.getresponse().read().split()[0])
    connection.close()
    assert len(found) == 1


def test_a_pod_that_becomes_ready_later_gets_new_connections(local: int, chat: FakeAPI) -> None:
    addresses(chat, b=True)
    assert ask(local) == (200, b"b 0")


def test_requests_get_503_while_no_pod_is_ready_and_each_change_is_reported_once(
    local: int, chat: FakeAPI, said: list[str]
) -> None:
    addresses(chat, a=False)
    for size in (0, 10, 30_000_000):  # the last one is still being sent when it is answered
        code, body = ask(local, b"x" * size)
        assert code == 503
        error: dict[str, Any] = json.loads(body)["error"]
        assert error["message"] == "service llm/chat-serve-svc has no ready pod"
        assert (error["type"], error["code"]) == ("server_error", "service_unavailable")
    assert said == ["service llm/chat-serve-svc has no ready pod; requests are answered with 503"]
    addresses(chat, a=True)
    assert [ask(local)[0] for _ in range(3)] == [200] * 3
    assert said[1:] == ["service llm/chat-serve-svc answers again"]
    addresses(chat)
    assert ask(local)[0] == 503
    assert len(said) == 3


def test_requests_get_503_where_the_pod_cannot_be_reached(local: int, chat: FakeAPI, said: list[str]) -> None:
    addresses(chat, a=True)
    chat.answer("GET", "/pods/a/portforward$", port(lambda _: None, problem="connection refused"))
    code, body = ask(local)
    assert code == 503
    assert json.loads(body)["error"]["message"] == "port 8000 of Pod llm/a cannot be reached: connection refused"
    chat.answer("GET", "/pods/a/portforward$", status(500, "error dialing backend", "InternalError"))
    code, body = ask(local)
    assert code == 503
    assert "error dialing backend" in json.loads(body)["error"]["message"]
    assert len(said) == 1


def test_a_client_that_says_nothing_needs_no_pod(local: int, chat: FakeAPI, said: list[str]) -> None:
    asked = len(chat.requests)
    with socket.create_connection(("127.0.0.1", local), timeout=10) as silent:
        silent.shutdown(socket.SHUT_WR)
        assert silent.recv(10) == b""
    assert len(chat.requests) == asked
    assert said == []


def test_the_end_of_the_answer_ends_the_connection(local: int, chat: FakeAPI) -> None:
    def short(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nbye")
        connection.close()

    addresses(chat, a=True)
    chat.answer("GET", "/pods/a/portforward$", port(short))
    assert ask(local) == (200, b"bye")


def test_what_is_wrong_beforehand_is_raised(cluster: Cluster, chat: FakeAPI, local: int) -> None:
    with (
        pytest.raises(UsageError, match=f"port {local} of this machine cannot be used: .*in use") as caught,
        listen_on_loopback(cluster, "llm", SERVICE, local),
    ):
        pass
    assert caught.value.hints == ("--port 0    # any free port",)
    chat.granted = {("list", "endpointslices.discovery.k8s.io", False)}
    with (
        pytest.raises(ForbiddenError, match="not permitted to get pods/portforward"),
        listen_on_loopback(cluster, "llm", SERVICE),
    ):
        pass
    chat.granted = None
    addresses(chat, a=False)
    with pytest.raises(UserError, match="has no ready pod"), listen_on_loopback(cluster, "llm", SERVICE):
        pass


def test_nothing_listens_any_more_after_the_block(cluster: Cluster, chat: FakeAPI) -> None:
    with listen_on_loopback(cluster, "llm", SERVICE) as number:
        assert ask(number)[0] == 200
    with pytest.raises(ConnectionRefusedError):
        ask(number)
