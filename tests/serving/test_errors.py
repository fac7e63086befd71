"""Which errors mean a lost replica, with a stand-in for Ray's, and how an answer ends that fails."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rayllm_ctl.serving.error_answers import ErrorAnswers
from rayllm_ctl.serving.gateway.errors import error_body
from rayllm_ctl.serving.gateway.http.upstream import stream_error
from rayllm_ctl.serving.gateway.requests import Message, Receive, Scope, Send
from rayllm_ctl.serving.gateway.steps import Rejection

NAMES = ("RayActorError", "OutOfMemoryError", "WorkerCrashedError", "NodeDiedError", "ObjectLostError")
EVENT = 'data: {"error": {"message": "EngineCore encountered an issue. See stack trace.", "code": 500}}\n\n'


class RayTaskError(Exception):
    """What a replica raised."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause


class EngineDeadError(Exception):
    """vLLM's."""


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    exceptions, common = ModuleType("ray.exceptions"), ModuleType("ray.llm._internal.common.errors")
    for name in NAMES:
        setattr(exceptions, name, type(name, (Exception,), {}))
    exceptions.RayTaskError = RayTaskError  # type: ignore[attr-defined]
    common.VLLM_FATAL_ERRORS = (EngineDeadError,)  # type: ignore[attr-defined]
    packages = ("ray", "ray.llm", "ray.llm._internal", "ray.llm._internal.common")
    for module in (*map(ModuleType, packages), exceptions, common):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    yield importlib.import_module("rayllm_ctl.serving.errors")
    del sys.modules["rayllm_ctl.serving.errors"]


def test_lost_replicas(errors: Any) -> None:
    exceptions = sys.modules["ray.exceptions"]
    for name in NAMES:
        assert errors.is_lost(getattr(exceptions, name)()), name
    for error in (RayTaskError(EngineDeadError()), errors.EngineError(503, "replica_lost", "lost")):
        assert errors.is_lost(error)
        assert errors.has_ended(error)
    # Serve's router learns of it by itself, or the replica may be back without a word from Serve.
    assert not errors.has_ended(exceptions.RayActorError())
    assert errors.has_ended(exceptions.OutOfMemoryError())


def test_what_a_replica_says_is_no_loss(errors: Any) -> None:
    class Downstream(RayTaskError, sys.modules["ray.exceptions"].RayActorError):  # type: ignore[misc]
        """Another actor died, and the replica says so."""

    others = [
        ValueError(), RayTaskError(ValueError()), Downstream(sys.modules["ray.exceptions"].RayActorError()),
        errors.EngineError(503, "out_of_memory", "full"), EngineDeadError(),
    ]  # fmt: skip
    assert not [error for error in others if errors.is_lost(error)]


def test_an_event_of_a_dead_engine_is_a_loss(errors: Any) -> None:
    for part in (EVENT, ['data: {"choices": []}\n\n', EVENT]):
        with pytest.raises(errors.EngineError) as caught:
            errors.check_event(part)
        assert errors.is_lost(caught.value)
    word = f"data: {json.dumps({'choices': [{'delta': {'content': EVENT}}]})}\n\n"
    others: list[object] = [word, [word], EVENT.replace("EngineCore", "Model"), object(), []]
    for other in others:
        errors.check_event(other)


def answered(*messages: Message) -> list[Message]:
    """What a client gets of an application that sends these messages and then fails."""
    sent: list[Message] = []

    async def application(_: Scope, __: Receive, send: Send) -> None:
        for message in messages:
            await send(message)
        raise ValueError("secret")

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    def rejection(error: Exception) -> Rejection:
        assert isinstance(error, ValueError)
        return Rejection(503, "lost", "replica_lost", headers=((b"retry-after", b"5"),))

    asyncio.run(ErrorAnswers(application, rejection)({"type": "http"}, receive, send))
    return sent


def start(kind: bytes) -> Message:
    return {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]}


ERROR = {"error": {"message": "lost", "type": "server_error", "param": None, "code": "replica_lost"}}


def test_an_answer_that_has_not_begun_is_an_error() -> None:
    begin, body = answered()
    assert begin["status"] == 503
    headers = dict(begin["headers"])
    assert (headers[b"retry-after"], headers[b"content-length"]) == (b"5", str(len(body["body"])).encode())
    assert (json.loads(body["body"]), body["more_body"]) == (ERROR, False)


def test_a_stream_that_has_begun_ends_with_an_error_and_not_as_if_it_were_complete() -> None:
    kind = b"text/event-stream; charset=utf-8"
    part = {"type": "http.response.body", "body": b"data: {}\n\n", "more_body": True}
    *before, last = answered(start(kind), part)
    assert before == [start(kind), part]
    assert last["body"].startswith(b"data: {")
    assert (json.loads(last["body"][6:]), last["more_body"]) == (ERROR, False)
    assert b"[DONE]" not in last["body"]


def test_another_response_that_has_begun_breaks_off() -> None:
    with pytest.raises(ValueError, match="secret"):
        answered(start(b"application/json"))


class GenerationError(Exception):
    """vLLM's, of an answer that its engine ended without a reason."""


FAILED = (
    'data: {"error": {"message": "Internal server error", "type": "InternalServerError", "param": null, "code": 500}}'
)


def test_the_field_with_a_schema(errors: Any) -> None:
    def field(**given: object) -> object:
        return errors.constrained_by(SimpleNamespace(**given))

    assert field(response_format={"type": "json_schema"}) == "response_format"
    assert field(response_format=SimpleNamespace(type="structural_tag")) == "response_format"
    assert field(structured_outputs={"regex": "a"}, response_format=None) == "structured_outputs"
    for choice in ("required", {"type": "function"}, SimpleNamespace(type="function")):
        assert field(tool_choice=choice) == "tools"
    for unconstrained in ({}, {"tool_choice": "auto"}, {"tool_choice": "none"}, {"tool_choice": None}):
        assert field(**unconstrained) is None
    assert field(response_format={"type": "text"}, structured_outputs=None) is None


def test_a_schema_that_the_engine_cannot_follow_is_an_error_of_the_request(errors: Any) -> None:
    for part in (RayTaskError(GenerationError("Internal server error")), FAILED, ["data: {}", FAILED]):
        rejection = errors.cannot_follow(part, "response_format").rejection
        assert (rejection.status, rejection.param, rejection.code) == (400, "response_format", "invalid_value")
    word = f"data: {json.dumps({'choices': [{'delta': {'content': FAILED}}]})}"
    others: list[object] = [RayTaskError(ValueError()), word, EVENT, "data: [DONE]", object()]
    assert [part for part in others if errors.cannot_follow(part, "response_format")] == []


def test_that_error_reaches_the_client_of_a_stream(errors: Any) -> None:
    error = errors.cannot_follow(FAILED, "response_format")
    rejection = stream_error(json.loads(error_body(error.rejection)), "id-1")
    assert (rejection.status, rejection.param, rejection.message) == (400, "response_format", error.rejection.message)
