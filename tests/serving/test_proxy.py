"""What Serve's HTTP proxy does before a request reaches the ingress."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rayllm_ctl.serving.gateway.errors import error_body
from rayllm_ctl.serving.gateway.requests import Message, Receive, Scope, Send
from rayllm_ctl.serving.gateway.steps import Rejection
from rayllm_ctl.serving.proxy import Edge


def answered(path: str, *identifiers: bytes) -> tuple[list[bytes], list[Message]]:
    """The request ids that Serve gets, and what the client gets. Serve and the ingress both add theirs."""
    got: list[bytes] = []
    sent: list[Message] = []

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        got.extend(value for name, value in scope["headers"] if name == b"x-request-id")
        headers = [(b"content-type", b"text/plain"), (b"x-request-id", got[-1]), (b"X-Request-ID", got[-1])]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError

    headers = [(b"accept", b"*/*"), *((b"x-request-id", value) for value in identifiers)]
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "headers": headers}
    asyncio.run(Edge(serve)(scope, receive, send))
    return got, sent


def ids(message: Message) -> list[bytes]:
    return [value for name, value in message["headers"] if name.lower() == b"x-request-id"]


def test_a_valid_request_id_is_kept_once() -> None:
    got, (start, body) = answered("/v1/models", b"mine-1")
    assert got == ids(start) == [b"mine-1"]
    assert (b"content-type", b"text/plain") in start["headers"]
    assert body["body"] == b"{}"


@pytest.mark.parametrize("given", [(), (b"a b",), (b"x" * 129,), (b"\xff",)])
def test_other_request_ids_are_replaced(given: tuple[bytes, ...]) -> None:
    got, (start, _) = answered("/v1/models", *given)
    assert got == ids(start)
    assert len(got) == 1
    assert got[0] not in given


def test_the_list_of_routes_is_closed() -> None:
    got, (start, body) = answered("/-/routes", b"mine-1")
    assert got == []
    assert (start["status"], ids(start)) == (404, [b"mine-1"])
    assert len(ids(answered("/-/routes", b"a b")[1][0])) == 1
    assert body["body"] == error_body(Rejection(404, "The path does not exist", "not_found"))
    assert answered("/-/healthz")[0]
