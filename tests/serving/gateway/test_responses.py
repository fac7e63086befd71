"""What the application answers, and what of it reaches the client."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from rayllm_ctl.serving.gateway.http.sse import EventFilter
from rayllm_ctl.serving.gateway.requests import Message
from tests.serving.gateway.upstream import Case, Limits, Metrics, Queue, event, gateway

CHAT = "/v1/chat/completions"
TOKEN_LIMITS = {"limits": {"perKey": {"tokens": "1000/minute"}}}
LEAKS = ("Traceback", "/opt/", "/usr/", "secret")


@pytest.mark.parametrize("wish", ["raise", "500", "400 with a path", "nothing"])
def test_errors_of_the_application_are_replaced(wish: str, caplog: pytest.LogCaptureFixture) -> None:
    response = gateway().chat(wish)
    assert response.status == (400 if wish.startswith("400") else 500)
    assert not [leak for leak in LEAKS if leak in response.body.decode()]
    request_id = response.headers["x-request-id"]
    assert request_id in response.error["message"]
    assert int(response.headers["content-length"]) == len(response.body)
    if wish == "raise":
        assert "secret cause" in caplog.text
    if response.status == 500:
        assert request_id in caplog.text
        assert response.error["type"] == "server_error"


def test_the_message_of_a_client_error_remains() -> None:
    limits = Limits()
    response = gateway(limits=limits).chat("400 from Ray")
    assert response.error == {
        "message": "top_p must be less",
        "type": "invalid_request_error",
        "param": "top_p",
        "code": "invalid_request",
    }
    assert limits.withdrawn == 1


def test_a_stream_whose_replica_is_lost_says_so() -> None:
    metrics = Metrics()
    response = gateway(metrics=metrics).chat("replica lost midway", stream=True)
    assert response.events()[-1]["error"] == {
        "message": "The replica that processed the request was lost",
        "type": "server_error",
        "param": None,
        "code": "replica_lost",
    }
    assert b"[DONE]" not in response.body
    assert metrics.sums["rayllm_gateway_requests", "", "small", "error"] == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_is_sent_again_counts_once(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rayllm.gateway.access")
    limits, metrics, queue = Limits(), Metrics(), Queue()
    case = gateway(TOKEN_LIMITS, limits=limits, metrics=metrics, queue=queue)
    response = case.chat("lost once", stream=stream)
    assert response.status == 200
    assert "retr" not in str(response.headers)
    assert (len(limits.prompts), sum(limits.tokens), queue.inside, queue.left) == (1, 7, 0, [True])
    assert metrics.sums["rayllm_gateway_requests", "", "small", "ok"] == 1
    assert metrics.sums["rayllm_gateway_retries", "", "small"] == 1
    assert json.loads(caplog.messages[-1])["retries"] == 1
    case.chat()
    assert "retries" not in json.loads(caplog.messages[-1])
    assert metrics.sums["rayllm_gateway_retries", "", "small"] == 1


def test_why_the_ingress_is_unavailable_remains() -> None:
    response = gateway().chat("503 not ready")
    assert response.status == 503
    assert response.error == {
        "message": "The model is not ready",
        "type": "server_error",
        "param": "model",
        "code": "model_not_ready",
    }


@pytest.mark.parametrize("wish", ["fail midway", "error event"])
def test_errors_in_streams_are_replaced(wish: str, caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    response = gateway(metrics=metrics).chat(wish, stream=True)
    assert response.status == 200
    *words, error = response.events()
    assert [word["choices"][0]["delta"]["content"] for word in words] == ["one", "two", "three"]
    assert response.headers["x-request-id"] in error["error"]["message"]
    assert not [leak for leak in LEAKS if leak in response.body.decode()]
    assert "Traceback" in caplog.text
    assert metrics.sums["rayllm_gateway_requests", "", "small", "error"] == 1


def test_streams_pass_as_they_are() -> None:
    case = gateway()
    behind = Case(case.gateway, case.upstream)
    behind.gateway.state = None
    plain = behind.chat(stream=True)
    response = gateway().chat(stream=True)
    assert response.parts == plain.parts
    assert len(response.parts) == 4
    asked = gateway().chat(stream=True, stream_options={"include_usage": True})
    assert asked.events()[-1]["usage"]["completion_tokens"] == 7


def test_usage_is_asked_for_where_tokens_are_limited() -> None:
    limits = Limits()
    case = gateway(TOKEN_LIMITS, limits=limits)
    response = case.chat("two words", stream=True)
    assert case.passed["stream_options"] == {"include_usage": True}
    assert response.parts == gateway().chat(stream=True).parts
    assert limits.prompts == [4]
    assert sum(limits.tokens) == 7
    asked = case.chat(stream=True, stream_options={"include_usage": True})
    assert asked.events()[-1]["usage"]["completion_tokens"] == 7
    case.chat(stream=True, stream_options={"include_usage": False})
    assert case.passed["stream_options"] == {"include_usage": True}
    case.chat("plain")
    assert sum(limits.tokens) == 28


def test_tokens_are_counted_by_what_the_engine_reports_where_no_tokenizer_is_known() -> None:
    limits, metrics = Limits(), Metrics()
    case = gateway(TOKEN_LIMITS, limits=limits, metrics=metrics)
    assert case.gateway.state is not None
    case.use(models={"small": case.gateway.state.models["small"].__class__("small", "a", "d")})
    assert case.chat().status == 200
    assert (limits.prompts, sum(limits.tokens)) == ([0], 12)
    assert metrics.sums["rayllm_gateway_prompt_tokens", "", "small"] == 5
    assert metrics.sums["rayllm_gateway_output_tokens", "", "small"] == 7


def test_cut_streams_free_their_place_and_charge_what_was_produced() -> None:
    async def run() -> None:
        limits, queue, metrics = Limits(), Queue(), Metrics()
        case = gateway(TOKEN_LIMITS, limits=limits, queue=queue, metrics=metrics)
        case.upstream.gate = asyncio.Event()
        body = {"model": "small", "stream": True, "messages": [{"role": "user", "content": "wait"}]}
        task = asyncio.create_task(case.send("POST", CHAT, json.dumps(body).encode()))
        while not case.upstream.bodies:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert queue.inside == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (queue.inside, queue.left) == (0, [False])
        assert sum(limits.tokens) == 3
        assert metrics.sums["rayllm_gateway_requests", "", "small", "disconnected"] == 1

    asyncio.run(run())


def test_the_application_learns_of_a_disconnect() -> None:
    seen: list[str] = []

    async def run() -> None:
        case = gateway()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            seen.append((await receive())["type"])
            seen.append((await receive())["type"])

        case.gateway.app = app
        body = {"model": "small", "messages": [{"role": "user", "content": "hi"}]}
        messages: list[Message] = [
            {"type": "http.request", "body": json.dumps(body).encode()},
            {"type": "http.disconnect"},
        ]

        async def receive() -> Message:
            return messages.pop(0)

        assert (await case.send("POST", CHAT, receive=receive)).status == 0

    asyncio.run(run())
    assert seen == ["http.request", "http.disconnect"]


def test_events_however_they_are_cut() -> None:
    usage = event({"choices": [], "usage": {"completion_tokens": 9}})
    word = event({"choices": [{"delta": {"content": 'says "error" and "usage": {'}}]})
    crlf = b'event: x\r\ndata: {"choices": [1]}\r\n\r\n'
    broken = b'data: {"error": oops\n\n'
    stream = (
        word + crlf + b": ping\n\n" + usage + broken + b'data: {"error": {"message": "x"}}\n\n' + b"data: [DONE]\n\n"
    )
    for size in (1, 7, 64, len(stream)):
        events = EventFilter(True, lambda value: b"E")
        chunks = [stream[place : place + size] for place in range(0, len(stream), size)]
        passed = [events.feed(chunk, last=place == len(chunks) - 1) for place, chunk in enumerate(chunks)]
        assert b"".join(passed) == word + crlf + b": ping\n\n" + b"data: E\n\n" * 2 + b"data: [DONE]\n\n"
        assert events.usage == {"completion_tokens": 9}
        assert events.events == 2
    unended = EventFilter(False, lambda value: b"E")
    assert unended.feed(b'data: {"error": 1}', last=True) == b"data: E\n\n"


def test_access_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rayllm.gateway.access")
    case = gateway(TOKEN_LIMITS, limits=Limits())
    case.chat("my secret prompt", headers={"x-request-id": "r-1", "authorization": "Bearer k-very-secret"}, stream=True)
    case.call("GET", "/k-very-secret?k-very-secret")
    first, second = (json.loads(record.message) for record in caplog.records)
    assert {
        name: first[name] for name in ("request_id", "address", "method", "route", "model", "status", "outcome")
    } == {
        "request_id": "r-1",
        "address": "10.0.0.1",
        "method": "POST",
        "route": CHAT,
        "model": "small",
        "status": 200,
        "outcome": "ok",
    }
    assert (first["prompt_tokens"], first["output_tokens"], first["stream"]) == (5, 7, True)
    assert (second["status"], second["route"], second["code"]) == (404, "other", "not_found")
    assert "secret" not in caplog.text
