from __future__ import annotations

import json
import queue
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.api import service_proxy as proxy
from rayllm_ctl.cluster.api.errors import ForbiddenError, UnauthorizedError, UnreachableError
from rayllm_ctl.cluster.api.service_proxy import cleaned, open_stream, proxy_path, request_json
from rayllm_ctl.errors import UserError
from tests.cluster.fakeapi import FakeAPI, status

TRACE = """\x1b[36mray::ServeReplica\x1b[39m failed
Traceback (most recent call last):
  File "/usr/lib/python3/site-packages/vllm/engine.py", line 7, in run
    raise ValueError("no")
ValueError: the prompt is too long"""


def ask(cluster: Cluster) -> dict[str, Any]:
    return request_json(cluster, "llm", "tiny-serve-svc", 8000, "/v1/models")


def stream(cluster: Cluster) -> list[str]:
    with open_stream(cluster, "llm", "tiny-serve-svc", 8000, "/v1/chat/completions", {"stream": True}) as lines:
        return list(lines)


def test_path_of_a_service_port() -> None:
    assert proxy_path("llm", "tiny-head-svc", "dashboard", "/api/a b") == (
        "/api/v1/namespaces/llm/services/tiny-head-svc:dashboard/proxy/api/a%20b"
    )


def test_json_of_a_service(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "services/tiny-serve-svc:8000/proxy/v1/models$", (200, {"data": [{"id": "m"}]}))
    assert ask(cluster) == {"data": [{"id": "m"}]}


def test_lines_come_as_they_are_sent(api: FakeAPI, cluster: Cluster) -> None:
    events: queue.Queue[Any] = queue.Queue()
    api.answer("POST", "proxy/v1/chat/completions$", lambda _request: events)  # type: ignore[arg-type,return-value]
    with open_stream(cluster, "llm", "tiny-serve-svc", 8000, "/v1/chat/completions", {"stream": True}) as lines:
        events.put(b"data: one\n\nda")
        assert next(lines) == "data: one"
        events.put("ta: zwölf\n".encode())
        assert next(lines) == "data: zwölf"
        events.put(b"")
        assert list(lines) == []
    assert api.requests[-1].json() == {"stream": True}
    assert api.requests[-1].headers["Connection"] == "close", "or it may give up an answer that begins early"


def test_a_stream_that_breaks_says_so(api: FakeAPI, cluster: Cluster) -> None:
    events: queue.Queue[Any] = queue.Queue()
    events.put(b"data: one\n")
    events.put(None)
    api.answer("POST", "proxy", lambda _request: events)  # type: ignore[arg-type,return-value]
    with pytest.raises(UserError, match="the answer of service llm/tiny-serve-svc ended prematurely") as caught:
        stream(cluster)
    assert not isinstance(caught.value, UnreachableError)


@pytest.mark.parametrize("call", [ask, stream])
def test_a_service_that_does_not_answer_in_time(
    api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, call: Any
) -> None:
    cluster.request_timeout = 0.1
    monkeypatch.setattr(proxy, "STREAM_TIMEOUT", 0.1)
    api.hang("GET" if call is ask else "POST", "proxy")
    with pytest.raises(UserError, match="service llm/tiny-serve-svc did not answer in time"):
        call(cluster)


def test_an_api_server_that_does_not_answer_is_named(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("POST", "proxy", (0, b""))
    with pytest.raises(UnreachableError):
        stream(cluster)


@pytest.mark.parametrize("call", [ask, stream])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (status(404, 'services "tiny-serve-svc" not found', "NotFound"), "there is no service llm/tiny-serve-svc yet"),
        (
            status(503, 'no endpoints available for service "x"', "ServiceUnavailable"),
            "not ready: no endpoints available",
        ),
        (
            (502, b"error trying to reach service: dial tcp 10.0.0.1:8000: connect: connection refused"),
            "not ready: error",
        ),
        ((404, {"detail": "Not Found"}), "answered 404: Not Found"),
        (
            (400, {"error": {"message": "max_tokens is too large", "code": 400}}),
            "answered 400: max_tokens is too large",
        ),
        (
            (400, {"error": {"message": "Message: max_tokens is 0, Internal exception: ray.llm.X: max_tokens is 0"}}),
            "answered 400: max_tokens is 0",
        ),
        ((500, TRACE.encode()), "answered 500: ray::ServeReplica failed ValueError: the prompt is too long"),
        ((500, {"error": {"message": TRACE}}), "answered 500: ray::ServeReplica failed ValueError: the prompt is too"),
        ((500, b""), "answered 500: nothing"),
        ((503, b"<!DOCTYPE html><p>x"), "answered 503: an HTML page"),
    ],
)
def test_what_a_service_answers_instead(
    api: FakeAPI, cluster: Cluster, call: Any, answer: tuple[int, Any], message: str
) -> None:
    api.answer("GET" if call is ask else "POST", "proxy", answer)
    with pytest.raises(UserError) as caught:
        call(cluster)
    assert message in caught.value.message
    assert "Traceback" not in caught.value.message
    assert "/usr/lib" not in caught.value.message
    assert caught.value.hints == ("rayllm-ctl status tiny -n llm",)


def test_the_api_servers_own_refusals(api: FakeAPI, cluster: Cluster) -> None:
    text = '"x" is forbidden: User "a" cannot get resource "services/proxy" in API group "" in the namespace "llm"'
    api.answer("GET", "proxy", status(403, text, "Forbidden"), times=1)
    with pytest.raises(ForbiddenError, match="is not permitted to get services/proxy in namespace llm"):
        ask(cluster)
    api.answer("GET", "proxy", status(401, "Unauthorized", "Unauthorized"))
    with pytest.raises(UnauthorizedError):
        ask(cluster)


def test_a_services_own_401_is_not_the_api_servers(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "proxy", (401, {"error": {"message": "no API key"}}))
    with pytest.raises(UserError, match="answered 401: no API key") as caught:
        ask(cluster)
    assert not isinstance(caught.value, UnauthorizedError)


def test_an_answer_that_is_no_json(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "proxy", (200, b"hello"))
    with pytest.raises(UserError, match="answered /v1/models with hello"):
        ask(cluster)


def test_long_texts_are_cut() -> None:
    assert len(cleaned("x" * 5000)) == 500
    assert cleaned(json.dumps("a")) == '"a"'
