"""What Serve's HTTP proxy does before a request reaches the ingress.

Every proxy runs it where RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=rayllm_ctl.serving.proxy:middlewares is set. By
itself the proxy lists all applications at /-/routes, answers with a header X-Request-ID that has whatever the client
sent, next to that of the ingress, and asks for the body of a request with `Expect: 100-continue` before the ingress has
seen its headers (Ray 2.60, ray/serve/_private/http_util.py and proxy.py).

It is part of the code of all pods, also of those with models: another one is another Ray cluster. So it imports little.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rayllm_ctl.serving.gateway.http.expect import Held, announced, expects_continue
from rayllm_ctl.serving.gateway.http.request_id import request_id

if TYPE_CHECKING:
    from rayllm_ctl.serving.gateway.application import App
    from rayllm_ctl.serving.gateway.requests import Message, Receive, Scope, Send

ROUTES = "/-/routes"
NOT_FOUND: Final = (
    b'{"error":{"message":"The path does not exist","type":"invalid_request_error","param":null,"code":"not_found"}}'
)
_REQUEST_ID = b"x-request-id"


def middlewares() -> list[Any]:
    """What Ray calls when a proxy starts."""
    from starlette.middleware import Middleware

    return [Middleware(Edge)]


class Edge:
    """Closes the list of routes, gives each request and response one valid request id, and does not ask for bodies."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        identifier = request_id(scope["headers"]).encode()
        headers = [header for header in scope["headers"] if header[0] != _REQUEST_ID]
        scope = {**scope, "headers": [*headers, (_REQUEST_ID, identifier)]}

        async def with_one_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                others = [header for header in message.get("headers", ()) if header[0].lower() != _REQUEST_ID]
                message = {**message, "headers": [*others, (_REQUEST_ID, identifier)]}
            await send(message)

        if scope["path"] == ROUTES:
            await _not_found(with_one_id)
        elif expects_continue(scope):
            held = Held(receive, with_one_id)
            await self._app(announced(scope), held.receive, held.send)
            if held.lacks_response:
                # The message that asks for the body is the first of a response to Ray, which then has no answer of its
                # own for a replica that is lost or takes too long.
                await _failed(with_one_id, identifier.decode())
        else:
            await self._app(scope, receive, with_one_id)


async def _not_found(send: Send) -> None:
    await _answer(send, 404, NOT_FOUND)


async def _failed(send: Send, identifier: str) -> None:
    """Answer as the gateway does (errors.server_error); part of the body may be unread."""
    message = f"The server failed to process the request (request id {identifier})"
    error = {"message": message, "type": "server_error", "param": None, "code": "server_error"}
    await _answer(send, 503, json.dumps({"error": error}, separators=(",", ":")).encode(), (b"connection", b"close"))


async def _answer(send: Send, status: int, body: bytes, *others: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *others]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
