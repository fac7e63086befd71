"""Requests whose client waits to be asked for the body, through a server and a proxy that receives as Serve's does."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable

import pytest
import uvicorn

from rayllm_ctl.serving.gateway.application import App
from rayllm_ctl.serving.gateway.errors import error_body, server_error
from rayllm_ctl.serving.gateway.http.expect import WANTED, Held
from rayllm_ctl.serving.gateway.requests import Message, Receive, Scope, Send
from rayllm_ctl.serving.proxy import Edge
from tests.serving.gateway.upstream import Case, Keys, gateway

BODY = json.dumps({"model": "small", "messages": [{"role": "user", "content": "hi"}]}).encode()
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def serve_proxy(app: App) -> App:
    """Receives at once, as ray/serve/_private/proxy.py does (`proxy_asgi_receive`)."""

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        messages: asyncio.Queue[Message] = asyncio.Queue()

        async def receiving() -> None:
            while True:
                messages.put_nowait(await receive())
                if messages._queue[-1]["type"] == "http.disconnect":  # type: ignore[attr-defined]
                    return

        task = asyncio.create_task(receiving())
        try:
            await app(scope, messages.get, send)
        finally:
            task.cancel()

    return proxy


def losing(app: App) -> App:
    """Ends with the ingress, without a response, as ray/serve/_private/proxy.py does after a message of it."""

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        asked = asyncio.Event()

        async def sends(message: Message) -> None:
            await send(message)
            asked.set()

        ingress = asyncio.ensure_future(app(scope, receive, sends))
        await asked.wait()
        ingress.cancel()

    return proxy


def talk(case: Case, client: Talk, around: Callable[[App], App] = lambda app: app) -> None:
    """Let a client talk to a server with the whole chain behind it."""

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            config = uvicorn.Config(Edge(around(serve_proxy(case.gateway))), lifespan="off", log_level="critical")
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            await client(reader, writer)
            writer.close()
            server.should_exit = True
            await serving

    asyncio.run(run())


def head(length: int, **headers: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    first = ["POST /v1/chat/completions HTTP/1.1", "Host: x", "Content-Type: application/json"]
    last = [f"Content-Length: {length}", "Expect: 100-Continue", "", ""]
    return "\r\n".join([*first, *lines, *last]).encode()


@pytest.mark.parametrize(
    ("length", "headers", "status", "code"),
    [
        (10**9, {"Authorization": "Bearer k-reader"}, b"413", "body_too_large"),
        (len(BODY), {"Authorization": "Bearer wrong"}, b"401", "invalid_api_key"),
        (len(BODY), {"Authorization": "Bearer k-reader", "Content_Encoding": "gzip"}, b"415", "unsupported_encoding"),
    ],
)
def test_a_body_that_is_not_accepted_is_not_asked_for(
    length: int, headers: dict[str, str], status: bytes, code: str
) -> None:
    case = gateway(keys=Keys())

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head(length, **headers))
        # To the end: the body is not read, so the connection cannot have another request.
        response = await reader.read()
        started, _, body = response.partition(b"\r\n\r\n")
        assert started.startswith(b"HTTP/1.1 " + status)
        assert b"\r\nconnection: close" in started
        assert json.loads(body)["error"]["code"] == code

    talk(case, client)
    assert not case.upstream.bodies


@pytest.mark.parametrize("gated", [True, False])
def test_a_body_that_is_accepted_is_asked_for(gated: bool) -> None:
    case = gateway(keys=Keys())
    if not gated:
        case.gateway.state = None

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):  # on one connection
            writer.write(head(len(BODY), Authorization="Bearer k-reader"))
            assert await reader.readexactly(len(CONTINUE)) == CONTINUE
            writer.write(BODY)
            started = await reader.readuntil(b"\r\n\r\n")
            assert started.startswith(b"HTTP/1.1 200")
            assert b"connection: close" not in started
            length = next(line for line in started.split(b"\r\n") if line.startswith(b"content-length: "))
            await reader.readexactly(int(length.split()[1]))

    talk(case, client)
    assert case.upstream.bodies == [BODY, BODY]


def test_a_replica_that_is_lost_after_it_asked_for_the_body_is_an_error_of_the_gateway() -> None:
    case = gateway(keys=Keys())

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head(len(BODY), Authorization="Bearer k-reader", X_Request_ID='mine-"1"'))
        response = await reader.read()
        started, _, body = response.removeprefix(CONTINUE).partition(b"\r\n\r\n")
        assert started.startswith(b"HTTP/1.1 503")
        assert started.count(b'\r\nx-request-id: mine-"1"') == 1
        assert b"\r\nconnection: close" in started
        assert body == error_body(server_error(503, 'mine-"1"'))

    talk(case, client, losing)
    assert not case.upstream.bodies


def test_an_application_that_does_not_ask_gets_the_body_after_a_while() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": BODY}

    async def run() -> Message:
        held = Held(receive, send, seconds=0)
        received = await held.receive()
        await held.send({"type": WANTED})
        await held.send({"type": "http.response.start", "status": 200, "headers": []})
        return received

    assert asyncio.run(run())["body"] == BODY
    assert sent == [{"type": "http.response.start", "status": 200, "headers": []}]
