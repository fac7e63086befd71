"""One request and its response: what the steps learn about it, and the answers of the gateway itself."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from rayllm_ctl.serving.gateway import telemetry
from rayllm_ctl.serving.gateway.errors import error_body
from rayllm_ctl.serving.gateway.http import cors
from rayllm_ctl.serving.gateway.http.addresses import client_address
from rayllm_ctl.serving.gateway.http.request_id import request_id
from rayllm_ctl.serving.gateway.requests import Message, Receive, Scope, Send
from rayllm_ctl.serving.gateway.state import State
from rayllm_ctl.serving.gateway.steps import ANONYMOUS, Admission, Client, Headers, Rejection, Slot

log = logging.getLogger("rayllm.gateway")

Pairs = tuple[tuple[bytes, bytes], ...]


class Exchange:
    """Written by the steps as they go; `close` logs and counts it."""

    def __init__(self, state: State, scope: Scope, receive: Receive, send: Send) -> None:
        self.state, self.scope, self.send = state, scope, send
        self._receive = receive
        self.began = time.perf_counter()
        self.headers: Headers = scope["headers"]
        self.method: str = scope["method"]
        root = scope.get("root_path", "")
        path: str = scope["path"]
        self.path = path[len(root) :] if root and path.startswith(root) else path
        self.request_id = request_id(self.headers)
        limits = state.settings.limits
        self.address = client_address(scope, limits.trusted_proxies if limits else 0)
        self.client: Client | None = None if state.keys else ANONYMOUS
        self.route = "other"
        self.model = ""
        self.slot: Slot | None = None
        self.admission: Admission | None = None
        self.limit_headers: Pairs | None = None
        self.cleaned = b""
        self.streams = False
        self.reads = 0
        self.status = 0
        self.code = ""
        self.started = False
        self.complete = False
        self.failed = False
        self.disconnected = False
        self.retries = 0
        self.prompt_tokens: int | None = None
        self.output_tokens = 0
        self.overhead: float | None = None

    async def receive(self) -> Message:
        """The next message from the client; remembers that it went away."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.disconnected = True
        return message

    def own_headers(self) -> list[tuple[bytes, bytes]]:
        """Headers that every response has."""
        headers = [(b"x-request-id", self.request_id.encode())]
        if self.limit_headers:
            headers += self.limit_headers
        if self.cleaned:
            headers.append((b"x-prompt-cleaned", self.cleaned))
        if self.state.settings.cors:
            headers += cors.response_headers(self.headers, self.state.settings.cors)
        return headers

    async def know_standing(self) -> None:
        """Get the x-ratelimit-* headers of a request that is not counted."""
        if self.limit_headers is None and self.state.limits is not None:
            self.limit_headers = await self.state.limits.standing(self.client, self.address)

    async def reply(
        self, status: int, body: bytes, headers: Pairs = (), content_type: bytes = b"application/json"
    ) -> None:
        """Send a whole response."""
        self.status = status
        described = [(b"content-type", content_type)] if body else []
        length = [(b"content-length", str(len(body)).encode())]
        await self.start(status, [*described, *length, *headers, *self.own_headers()])
        await self.body(body, last=True)

    async def reject(self, rejection: Rejection) -> None:
        """Send an error."""
        self.code = rejection.code
        try:
            await self.know_standing()
        except Exception:
            # The client gets the answer that it was to get: what the server would send instead names its files.
            log.exception("request %s: limits cannot be read", self.request_id)
        await self.reply(rejection.status, error_body(rejection), rejection.headers)

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Begin the response."""
        self.status = status
        self.started = True
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def body(self, body: bytes, *, last: bool) -> None:
        """Send a part of the response."""
        await self.send({"type": "http.response.body", "body": body, "more_body": not last})
        self.complete = last

    def retried(self) -> None:
        """The replica was lost before it answered, and another one has the request now."""
        self.retries += 1

    def produced(self, tokens: int) -> None:
        """Count tokens of the answer."""
        if tokens > 0:
            self.output_tokens += tokens
            self.charge(tokens)

    def charge(self, tokens: int) -> None:
        """Charge tokens to the limits of the client."""
        if tokens > 0 and self.state.limits is not None and self.client is not None:
            self.state.limits.produced(self.client, self.address, tokens)

    def withdraw(self) -> None:
        """Take back what the limits counted: the application rejected the request."""
        if self.state.limits is not None and self.admission is not None:
            self.state.limits.withdraw(self.admission)

    def close(self) -> None:
        """Leave the queue, log, count."""
        if self.slot is not None:
            self.slot.leave(completed=self.complete and self.status < 400)
        if not self.complete and self.status < 500:
            self.status = 499
        metrics, key = self.state.metrics, self.client.name if self.client else ""
        outcome = "error" if self.failed else telemetry.outcome(self.status)
        metrics.add(telemetry.REQUESTS, 1, (key, self.model, outcome))
        if self.retries:
            metrics.add(telemetry.RETRIES, self.retries, (key, self.model))
        if self.prompt_tokens:
            metrics.add(telemetry.PROMPT_TOKENS, self.prompt_tokens, (key, self.model))
        if self.output_tokens:
            metrics.add(telemetry.OUTPUT_TOKENS, self.output_tokens, (key, self.model))
        if self.overhead is not None:
            metrics.add(telemetry.OVERHEAD, self.overhead, (self.model,))
        telemetry.log_access(self._record(outcome))

    def _record(self, outcome: str) -> dict[str, Any]:
        return {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "request_id": self.request_id,
            "key": self.client.name if self.client else None,
            "address": self.address,
            "method": self.method[:16],
            "route": self.route,
            "model": self.model,
            "status": self.status,
            "outcome": outcome,
            "code": self.code,
            "seconds": round(time.perf_counter() - self.began, 4),
            "overhead_seconds": None if self.overhead is None else round(self.overhead, 5),
            "stream": self.streams or None,
            "retries": self.retries or None,
            "body_bytes": self.reads or None,
            "prompt_tokens": self.prompt_tokens,
            "output_tokens": self.output_tokens or None,
            "cleaned": self.cleaned.decode(),
        }


def json_reply(value: object) -> bytes:
    """A JSON body."""
    return json.dumps(value, separators=(",", ":")).encode()
