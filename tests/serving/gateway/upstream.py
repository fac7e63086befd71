"""A small OpenAI-compatible application behind the gateway, and a client that calls both without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rayllm_ctl.serving.gateway.application import RETRIED, TAKEN
from rayllm_ctl.serving.gateway.body.tokens import Tokenizers
from rayllm_ctl.serving.gateway.middleware import Gateway
from rayllm_ctl.serving.gateway.requests import Message, Receive, Scope, Send
from rayllm_ctl.serving.gateway.settings import by_name
from rayllm_ctl.serving.gateway.state import State
from rayllm_ctl.serving.gateway.steps import (
    Admission,
    Client,
    Headers,
    Metric,
    QueueFigures,
    Rejection,
)
from rayllm_ctl.serving.gateway.user_config import read_gateway, read_models

TRACEBACK = 'Traceback (most recent call last):\n  File "/usr/lib/python3.11/app.py", line 1, in run'


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


class Upstream:
    """Remembers what reached it; the content of the last message says how it behaves."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.bodies: list[bytes] = []
        self.capacity = 1000
        """How many requests replicas take; those that come later wait for ever as far as a queue can see."""
        self.gate: asyncio.Event | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.scopes.append(scope)
        self.bodies.append(body)
        if TAKEN in scope and len(self.bodies) <= self.capacity:
            scope[TAKEN]()
        if b"lost once" in body:
            scope[RETRIED]()
        if scope["path"] == "/v1/models":
            listed = [{"id": name, "object": "model"} for name in ("big", "small", "small-sql")]
            await answer(send, 200, {"object": "list", "data": listed})
        elif scope["path"].startswith("/v1/models/"):
            await answer(send, 200, {"id": scope["path"][11:], "object": "model"})
        elif scope["path"] in ("/v1/audio/transcriptions", "/v1/responses"):
            await answer(send, 200, {"text": "hello"})
        elif scope["method"] == "POST" and scope["path"].startswith(("/v1/", "/tokenize", "/detokenize")):
            value = json.loads(body)
            chat = scope["path"] == "/v1/chat/completions"
            await self.generate(value, value["messages"][-1].get("content") if chat else None, send)
        else:
            await answer(send, 404, {"detail": "Not Found"})

    async def generate(self, body: dict[str, Any], wish: object, send: Send) -> None:
        usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
        if wish == "raise":
            raise RuntimeError("secret cause in /opt/app/engine.py")
        if wish == "500":
            await answer(send, 500, {"error": {"message": TRACEBACK, "code": 500}})
        elif wish == "503 not ready":
            error = {"message": TRACEBACK, "param": "model", "code": "model_not_ready"}
            await answer(send, 503, {"error": error})
        elif wish == "400 with a path":
            await answer(send, 400, {"error": {"message": f"bad, {TRACEBACK}", "code": 400}})
        elif wish == "400 from Ray":
            message = "Message: top_p must be less (Request ID: 1), Internal exception: x, original exception: y"
            await answer(send, 400, {"error": {"message": message, "type": "X", "param": "top_p", "code": 400}})
        elif wish == "nothing":
            return
        elif body.get("stream"):
            await self.stream(body, wish, usage, send)
        else:
            await answer(send, 200, {"choices": [{"text": 'a "usage": {"completion_tokens": 99}'}], "usage": usage})

    async def stream(self, body: dict[str, Any], wish: object, usage: dict[str, int], send: Send) -> None:
        kind = (b"content-type", b"text/event-stream; charset=utf-8")
        await send({"type": "http.response.start", "status": 200, "headers": [kind]})
        for word in ("one", "two", "three"):
            data = event({"choices": [{"delta": {"content": word}}]})
            await send({"type": "http.response.body", "body": data, "more_body": True})
        if wish == "wait" and self.gate is not None:
            await self.gate.wait()
        if wish == "fail midway":
            raise RuntimeError("secret cause in /opt/app/engine.py")
        if wish == "replica lost midway":
            data = event({"error": {"message": TRACEBACK, "param": None, "code": "replica_lost"}})
            await send({"type": "http.response.body", "body": data, "more_body": False})
            return
        if wish == "error event":
            data = event({"error": {"message": TRACEBACK, "code": 500}})
            await send({"type": "http.response.body", "body": data[:20], "more_body": True})
            await send({"type": "http.response.body", "body": data[20:], "more_body": True})
        if (body.get("stream_options") or {}).get("include_usage"):
            await send(
                {"type": "http.response.body", "body": event({"choices": [], "usage": usage}), "more_body": True}
            )
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})


async def answer(send: Send, status: int, value: object) -> None:
    body = json.dumps(value).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"access-control-allow-origin", b"*"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


@dataclass
class Response:
    """What the client got; `parts` as they were sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    parts: list[bytes] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        error = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error

    def events(self) -> list[Any]:
        lines = [line[6:] for line in self.body.split(b"\n\n") if line and line != b"data: [DONE]"]
        return [json.loads(line) for line in lines]


@dataclass
class Case:
    """A gateway before an upstream."""

    gateway: Gateway
    upstream: Upstream

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | list[bytes] = b"",
        headers: Mapping[str, str | None] | None = None,
        *,
        receive: Callable[[], Awaitable[Message]] | None = None,
        client: str = "10.0.0.1",
        query: bytes = b"",
    ) -> Response:
        parts = [body] if isinstance(body, bytes) else body
        given: dict[str, str | None] = dict(headers or {})
        if method == "POST" and "content-type" not in given:
            given = {"content-type": "application/json", **given}
        scope: Scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query,
            "client": (client, 4000),
            # None: the header is not sent.
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items() if value],
        }
        messages: list[Message] = [
            {"type": "http.request", "body": part, "more_body": place < len(parts) - 1}
            for place, part in enumerate(parts)
        ]
        response = Response()

        async def from_client() -> Message:
            if messages:
                return messages.pop(0)
            await asyncio.Event().wait()
            raise AssertionError

        async def to_client(message: Message) -> None:
            if message["type"] == "http.response.start":
                assert not response.status
                response.status = message["status"]
                for name, value in message["headers"]:
                    assert name.decode() not in response.headers, f"{name} twice"
                    response.headers[name.decode()] = value.decode()
            else:
                response.parts.append(message["body"])

        await self.gateway(scope, receive or from_client, to_client)
        return response

    def call(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Response:
        """One request in an event loop of its own; a body that is not bytes is sent as JSON."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return asyncio.run(self.send(method, path, data, headers))

    def chat(self, content: object = "hi", headers: dict[str, str] | None = None, **fields: object) -> Response:
        body = {"model": "small", "messages": [{"role": "user", "content": content}], **fields}
        return self.call("POST", "/v1/chat/completions", body, headers)

    @property
    def passed(self) -> Any:
        """The body of the last request that reached the application."""
        return json.loads(self.upstream.bodies[-1])

    def use(self, **changes: Any) -> None:
        """Exchange parts of the state."""
        assert self.gateway.state is not None
        self.gateway.state = replace(self.gateway.state, **changes)


class Keys:
    """Keys `k-NAME`; the one of `reader` may only use the model `small`."""

    def authenticate(self, headers: Headers) -> Client | Rejection:
        values = [value for name, value in headers if name == b"authorization"]
        if values == [b"Bearer k-admin"]:
            return Client("admin")
        if values == [b"Bearer k-reader"]:
            return Client("reader", models=frozenset({"small"}))
        return Rejection(401, "No valid key", "invalid_api_key", headers=((b"www-authenticate", b"Bearer"),))

    def close(self) -> None:
        return


@dataclass
class Limits:
    """Admits `most` requests."""

    most: int = 1000
    prompts: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    withdrawn: int = 0

    async def admit(self, client: Client, address: str, model: str, prompt_tokens: int) -> Admission:
        if len(self.prompts) >= self.most:
            rejection = Rejection(429, "Too many requests", "rate_limit_exceeded", headers=((b"retry-after", b"7"),))
            return Admission(((b"x-ratelimit-remaining-requests", b"0"),), rejection)
        self.prompts.append(prompt_tokens)
        return Admission(((b"x-ratelimit-remaining-requests", str(self.most - len(self.prompts)).encode()),))

    def withdraw(self, admission: Admission) -> None:
        self.withdrawn += 1

    def produced(self, client: Client, address: str, tokens: int) -> None:
        self.tokens.append(tokens)

    async def standing(self, client: Client | None, address: str) -> tuple[tuple[bytes, bytes], ...]:
        return ((b"x-ratelimit-remaining-requests", str(self.most - len(self.prompts)).encode()),)

    async def close(self) -> None:
        return


@dataclass
class Queue:
    """Admits `most` requests at a time; a place in it is the queue itself."""

    most: int = 1000
    inside: int = 0
    left: list[bool] = field(default_factory=list)
    reached: int = 0

    async def enter(self, model: str) -> Queue | Rejection:
        assert model in ("small", "big")
        if self.inside >= self.most:
            return Rejection(503, "Too many requests wait", "queue_full", headers=((b"retry-after", b"3"),))
        self.inside += 1
        return self

    def taken(self) -> None:
        self.reached += 1

    def leave(self, *, completed: bool) -> None:
        self.inside -= 1
        self.left.append(completed)

    async def figures(self) -> QueueFigures:
        return QueueFigures(1, self.inside, 2, self.most, 0.5)

    async def close(self) -> None:
        return


@dataclass
class Metrics:
    """Sums by metric and labels."""

    sums: dict[tuple[str, ...], float] = field(default_factory=dict)

    def add(self, metric: Metric, value: float, labels: Sequence[str]) -> None:
        assert len(labels) == len(metric.labels)
        series = (metric.name, *labels)
        self.sums[series] = self.sums.get(series, 0) + value


class Words:
    """A tokenizer for which a word is a token; its chat template writes the roles and an opening for the answer."""

    def apply_chat_template(
        self, conversation: list[dict[str, Any]], *, add_generation_prompt: bool = False, **options: Any
    ) -> str:
        assert options.pop("tokenize") is False
        text = " ".join(f"<{message['role']}> {message['content']}" for message in conversation)
        return f"{text} <assistant>" if add_generation_prompt else text

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [1] * (len(text.split()) + add_special_tokens)


def gateway(settings: dict[str, Any] | None = None, **steps: Any) -> Case:
    """A gateway with three models, and an adapter of the second; the third has the Transformers engine."""
    read = read_gateway(settings or {})
    assert read is not None
    models = read_models(
        [
            {"id": "big", "application": "a", "deployment": "d", "tokenizer": "words", "maxModelLen": 64},
            {
                "id": "small",
                "application": "b",
                "deployment": "d",
                "tokenizer": "words",
                "maxModelLen": 32,
                "adapters": [{"id": "small-sql", "path": "/adapters/sql"}],
            },
            {"id": "rare", "application": "c", "deployment": "d", "engine": "transformers"},
        ]
    )
    upstream = Upstream()
    tokenizers = Tokenizers(lambda name: Words())
    return Case(Gateway(upstream, State(read, by_name(models), tokenizers, **steps)), upstream)
