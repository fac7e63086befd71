"""The call of the application behind the gateway."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from rayllm_ctl.serving.gateway.errors import Rejected, invalid, server_error
from rayllm_ctl.serving.gateway.exchange import Exchange, log
from rayllm_ctl.serving.gateway.requests import Disconnected, Message, Receive, Scope, Send
from rayllm_ctl.serving.gateway.response import Forwarder

App = Callable[[Scope, Receive, Send], Awaitable[None]]

RETRIED = "rayllm.retried"
"""The key in a request's scope of what the application calls when it sends the request to another replica."""

TAKEN = "rayllm.taken"
"""The key of what the application calls when a replica accepted the request; only where there is a queue."""

MODEL = "rayllm.model"
"""The key of the model that the request was admitted for, if it names one."""


async def call(exchange: Exchange, app: App, body: bytes, forwarder: Forwarder) -> None:
    """Give the request to the application: without the key, with the request id and the body as it is now."""
    exchange.overhead = time.perf_counter() - exchange.began
    dropped = {b"x-request-id", b"content-length", b"transfer-encoding"}
    if exchange.state.keys is not None:
        dropped.add(b"authorization")
    headers = [(name, value) for name, value in exchange.headers if name not in dropped]
    headers.append((b"x-request-id", exchange.request_id.encode()))
    if body:
        headers.append((b"content-length", str(len(body)).encode()))
    pending: list[bytes] = [body]

    async def receive() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        while (message := await exchange.receive())["type"] == "http.request":
            pass
        return message

    try:
        scope = {**exchange.scope, "headers": headers, "extensions": {}, RETRIED: exchange.retried}
        if exchange.slot is not None:
            scope[TAKEN] = exchange.slot.taken
        if exchange.model:
            scope[MODEL] = exchange.model
        await app(scope, receive, forwarder.send)
    except Exception:
        if exchange.disconnected and not exchange.complete:
            raise Disconnected from None
        log.exception("request %s: the application raised", exchange.request_id)
        await forwarder.fail()
        if not exchange.complete:
            exchange.status = 500
            raise
    finally:
        forwarder.settle()
    if not exchange.started:
        if exchange.disconnected:
            raise Disconnected
        log.error("request %s: the application did not answer", exchange.request_id)
        raise Rejected(server_error(500, exchange.request_id))


def check_model(scope: Scope, model: str) -> None:
    """Raise Rejected unless `model`, which the application read, is the one that the request was admitted for.

    Both read the same bytes, each with its own parser. Whatever they may disagree about, a key, a limit and a queue of
    one model are not for another.
    """
    if scope.get(MODEL, model) != model:
        raise invalid("model: the request names more than one", "model", "duplicate_key")
