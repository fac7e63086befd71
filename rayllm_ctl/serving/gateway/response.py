"""The application's response on its way to the client."""

from __future__ import annotations

import json
import re
from typing import Any

from rayllm_ctl.serving.gateway.errors import error_body, server_error
from rayllm_ctl.serving.gateway.exchange import Exchange, json_reply, log
from rayllm_ctl.serving.gateway.http import upstream
from rayllm_ctl.serving.gateway.http.sse import EventFilter
from rayllm_ctl.serving.gateway.requests import Message

_FLUSH = 16
"""Tokens of a stream after which they are charged."""

_COLLECTED = 16 * 2**20
"""Bytes of a response that is kept until its end, as errors and the list of models are; the rest is dropped."""

_LOGGED = 8192
"""Bytes of an error of the application that are logged."""

_USAGE = re.compile(rb'"(prompt_tokens|completion_tokens)"\s*:\s*(\d{1,12})')

_OWN = frozenset({b"x-request-id"})
_CHANGING = _OWN | {b"content-length"}
_DESCRIBING = _CHANGING | {b"content-type", b"transfer-encoding", b"content-encoding"}


class Forwarder:
    """Sends what the application sends, with the gateway's headers.

    Bodies of successful responses pass as they are. Errors are read as a whole, and replaced.
    """

    def __init__(self, exchange: Exchange, *, drop_usage: bool = False, filter_models: bool = False) -> None:
        self._exchange = exchange
        self._drop_usage = drop_usage
        self._filter_models = filter_models
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._events: EventFilter | None = None
        self._collected: list[bytes] | None = None
        self._parts: list[bytes] | None = None
        self._charged = 0

    async def send(self, message: Message) -> None:
        """What the application calls in place of the server's `send`."""
        if message["type"] == "http.response.start":
            await self._start(message)
        elif message["type"] == "http.response.body":
            body, last = message.get("body", b""), not message.get("more_body", False)
            if self._events is not None:
                await self._event(message, body, last)
            elif self._collected is not None:
                if sum(map(len, self._collected)) < _COLLECTED:
                    self._collected.append(body)
                if last:
                    await self._replace(b"".join(self._collected))
            else:
                if self._parts is not None:
                    self._parts.append(body)
                await self._exchange.send(message)
                if last:
                    self._exchange.complete = True
                    self._count()

    async def _start(self, message: Message) -> None:
        self._status = message["status"]
        self._headers = list(message.get("headers", ()))
        kind = next((bytes(value) for name, value in self._headers if name.lower() == b"content-type"), b"")
        if self._status >= 400 or (self._filter_models and self._status == 200):
            self._collected = []
            return
        removed = _OWN
        if kind.startswith(b"text/event-stream"):
            self._events = EventFilter(self._drop_usage, self._stream_error)
            self._exchange.streams = True
            removed = _CHANGING
        elif kind.startswith(b"application/json") and self._exchange.method == "POST":
            self._parts = []
        await self._exchange.start(self._status, self._kept(removed))

    def _kept(self, removed: frozenset[bytes]) -> list[tuple[bytes, bytes]]:
        """Headers of the application without some, and without CORS, which the gateway alone decides."""
        kept = [
            (name, value)
            for name, value in self._headers
            if (lower := name.lower()) not in removed and not lower.startswith(b"access-control-")
        ]
        return kept + self._exchange.own_headers()

    async def _event(self, message: Message, body: bytes, last: bool) -> None:
        assert self._events is not None
        passed = self._events.feed(body, last)
        if passed is body:
            await self._exchange.send(message)
        elif passed or last:
            await self._exchange.send({"type": "http.response.body", "body": passed, "more_body": not last})
        if self._events.events - self._charged >= _FLUSH:
            self._charge_events()
        if last:
            self._exchange.complete = True

    def _charge_events(self) -> None:
        if self._events is not None:
            self._exchange.produced(self._events.events - self._charged)
            self._charged = self._events.events

    def settle(self) -> None:
        """Charge the events of a stream that are not yet charged, and correct them to what the engine reported."""
        self._charge_events()
        usage = self._events.usage if self._events is not None else None
        if usage is None:
            return
        output, prompt = usage.get("completion_tokens"), usage.get("prompt_tokens")
        if isinstance(output, int):
            self._exchange.produced(output - self._exchange.output_tokens)
            self._exchange.output_tokens = output
        if isinstance(prompt, int):
            self._prompt(prompt)

    def _prompt(self, tokens: int) -> None:
        """Tokens of a prompt that was not counted before are charged when the engine reports them."""
        if self._exchange.prompt_tokens is None:
            self._exchange.charge(tokens)
            self._exchange.prompt_tokens = tokens

    def _count(self) -> None:
        """Tokens of a response that is not a stream, from its usage; inside of strings quotes are escaped."""
        if self._parts is None:
            return
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        place = body.rfind(b'"usage"')
        if place < 0:
            return
        found = {name: int(value) for name, value in _USAGE.findall(body, place)}
        self._exchange.produced(found.get(b"completion_tokens", 0))
        if b"prompt_tokens" in found:
            self._prompt(found[b"prompt_tokens"])

    async def _replace(self, body: bytes) -> None:
        """Answer in place of the application: with an error, or with the models that the key may use."""
        exchange = self._exchange
        if self._status < 400:
            await exchange.reply(self._status, _permitted(body, exchange))
            return
        if self._status == 503 and (known := upstream.unavailable(body)):
            rejection = known
        elif self._status >= 500:
            self._log(body)
            rejection = server_error(self._status, exchange.request_id)
        else:
            rejection = upstream.client_error(self._status, body, exchange.request_id)
            exchange.withdraw()
        exchange.code = rejection.code
        replacement = error_body(rejection)
        described = [(b"content-type", b"application/json"), (b"content-length", str(len(replacement)).encode())]
        await exchange.start(self._status, described + self._kept(_DESCRIBING))
        await exchange.body(replacement, last=True)

    def _stream_error(self, value: Any) -> bytes:
        exchange = self._exchange
        self._log(value if isinstance(value, bytes) else json.dumps(value).encode())
        rejection = upstream.stream_error(value, exchange.request_id)
        exchange.code, exchange.failed = rejection.code, True
        return error_body(rejection)

    def _log(self, cause: bytes) -> None:
        text = cause[:_LOGGED].decode(errors="replace")
        log.error("request %s: the application answered with an error: %s", self._exchange.request_id, text)

    async def fail(self) -> None:
        """The application raised: end the response as well as still possible."""
        exchange = self._exchange
        rejection = server_error(500, exchange.request_id)
        exchange.code, exchange.failed = rejection.code, True
        if not exchange.started:
            await exchange.reject(rejection)
        elif self._events is not None and not exchange.complete:
            await exchange.body(b"data: " + error_body(rejection) + b"\n\n", last=True)


def _permitted(body: bytes, exchange: Exchange) -> bytes:
    value = json.loads(body)
    client = exchange.client
    if client is not None and client.models is not None:
        value["data"] = [model for model in value["data"] if model.get("id") in client.models]
    return json_reply(value)
