"""Keys, models, limits, queue, and what the gateway answers by itself."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from rayllm_ctl.serving.gateway.settings import GatewaySettings
from tests.serving.gateway.upstream import Keys, Limits, Metrics, Queue, gateway

CHAT = "/v1/chat/completions"
ADMIN = {"authorization": "Bearer k-admin"}
READER = {"authorization": "Bearer k-reader"}
BODY = {"model": "small", "messages": [{"role": "user", "content": "hi"}]}


def test_the_key_is_checked_before_anything_else() -> None:
    case = gateway({"validation": {"maxBodyBytes": 10}}, keys=Keys())
    for method, path, body in (
        ("POST", CHAT, b"{"),
        ("POST", CHAT, b" " * 99),
        ("GET", "/nowhere", b""),
        ("PUT", CHAT, b""),
    ):
        response = case.call(method, path, body)
        assert (response.status, response.error["code"]) == (401, "invalid_api_key")
        assert response.headers["www-authenticate"] == "Bearer"
    assert case.call("GET", "/queue").status == 401
    assert case.call("GET", "/health").status == 200
    assert case.call("GET", "/docs").status == 404
    assert not case.upstream.bodies


def test_the_key_does_not_reach_the_application() -> None:
    case = gateway(keys=Keys())
    assert case.call("POST", CHAT, BODY, ADMIN).status == 200
    assert "k-admin" not in str(case.upstream.scopes)
    open_case = gateway()
    open_case.call("POST", CHAT, BODY, ADMIN)
    assert "k-admin" in str(open_case.upstream.scopes)


def test_models_of_a_key() -> None:
    case = gateway(keys=Keys())
    listed = case.call("GET", "/v1/models", headers=READER)
    assert [model["id"] for model in listed.json["data"]] == ["small"]
    assert int(listed.headers["content-length"]) == len(listed.body)
    assert [model["id"] for model in case.call("GET", "/v1/models", headers=ADMIN).json["data"]] == [
        "big",
        "small",
        "small-sql",
    ]
    for model, reader, admin in (("small", 200, 200), ("big", 403, 200), ("small-sql", 403, 200), ("none", 404, 404)):
        for headers, status in ((READER, reader), (ADMIN, admin)):
            response = case.call("POST", CHAT, {**BODY, "model": model}, headers)
            assert response.status == status, (model, headers)
            assert case.call("GET", f"/v1/models/{model}", headers=headers).status == status
            if status != 200:
                assert response.error["param"] == "model"
    # A path that only the application knows must not be a way around the models of a key.
    assert case.call("POST", "/v1/responses", {"model": "big"}, READER).status == 403
    odd: list[object] = [{}, [], {"model": None}, {"model": ["small"]}, b"", b'{"model": "small", "model": "big"}']
    for body in odd:
        assert case.call("POST", "/v1/responses", body, READER).status == 403
    assert (
        case.call("POST", "/v1/responses", {"model": "small"}, {**READER, "content-type": "text/plain"}).status == 403
    )
    assert case.call("POST", "/v1/responses", {"model": "small"}, READER).status == 200
    assert case.call("POST", "/v1/responses", {}, ADMIN).status == 200


def test_limits_count_accepted_requests() -> None:
    limits, queue = Limits(most=2), Queue(most=1)
    case = gateway({"validation": {"promptTokens": {"max": 20}}}, limits=limits, queue=queue)
    assert case.call("GET", "/v1/models").headers["x-ratelimit-remaining-requests"] == "2"
    assert case.chat(temperature=9).headers["x-ratelimit-remaining-requests"] == "2"
    assert case.call("POST", CHAT, b"{").headers["x-ratelimit-remaining-requests"] == "2"
    assert case.chat("a b c").headers["x-ratelimit-remaining-requests"] == "1"
    assert case.chat("a " * 21).status == 400
    queue.inside = 1
    shed = case.chat()
    assert (shed.status, shed.error["code"], shed.headers["retry-after"]) == (503, "queue_full", "3")
    queue.inside = 0
    assert case.chat().status == 200
    limited = case.chat()
    assert (limited.status, limited.error["code"], limited.headers["retry-after"]) == (429, "rate_limit_exceeded", "7")
    assert limited.error["type"] == "rate_limit_error"
    assert limits.prompts == [5, 3]
    assert queue.inside == 0
    assert queue.left == [True, False, True, False]


def test_queue() -> None:
    case = gateway(queue=Queue(most=8))
    assert case.call("GET", "/queue").json == {
        "pending": 1,
        "running": 0,
        "replicas": 2,
        "maxPending": 8,
        "estimatedWaitSeconds": 0.5,
    }
    assert case.call("POST", "/queue", {}).status == 405
    assert case.call("POST", CHAT, {**BODY, "model": "small-sql"}).status == 200
    assert gateway().call("GET", "/queue").status == 404


def test_request_ids() -> None:
    case = gateway()
    for given, kept in (
        ("r-1", True),
        ("!" * 128, True),
        ("a" * 129, False),
        ("a b", False),
        ("\xe9", False),
        ("", False),
    ):
        response = case.chat(headers={"x-request-id": given})
        assert (response.headers["x-request-id"] == given) is kept
        inside = [value for name, value in case.upstream.scopes[-1]["headers"] if name == b"x-request-id"]
        assert inside == [response.headers["x-request-id"].encode()]
    assert case.chat(temperature=9, headers={"x-request-id": "r-2"}).headers["x-request-id"] == "r-2"


def test_docs_are_closed_by_default() -> None:
    opened = gateway({"docs": True}, keys=Keys())
    document = opened.call("GET", "/openapi.json").json
    assert document["paths"][CHAT]["post"]["security"] == [{"key": []}]
    page = opened.call("GET", "/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<code>POST /v1/embeddings</code>" in page.body.decode()
    assert "<code>temperature</code><td><td>number ≥ 0, ≤ 2" in page.body.decode()
    assert opened.call("GET", "/-/routes").status == 404
    assert len(opened.upstream.bodies) == 1
    closed = gateway()
    for path in ("/docs", "/openapi.json", "/redoc", "/-/routes"):
        assert closed.call("GET", path).error["code"] == "not_found"
    assert not closed.upstream.bodies


def test_cors() -> None:
    page = {"origin": "https://chat.example.com"}
    asked = {**page, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    case = gateway({"cors": {"origins": ["https://chat.example.com"]}}, keys=Keys())
    preflight = case.call("OPTIONS", CHAT, headers=asked)
    assert preflight.status == 204
    assert preflight.headers["access-control-allow-origin"] == page["origin"]
    assert preflight.headers["access-control-allow-headers"] == "authorization"
    response = case.call("POST", CHAT, BODY, {**page, **ADMIN})
    assert response.headers["access-control-allow-origin"] == page["origin"]
    assert "x-request-id" in response.headers["access-control-expose-headers"]
    assert response.headers["vary"] == "Origin"
    assert case.call("POST", CHAT, BODY, page).headers["access-control-allow-origin"] == page["origin"]
    stranger = case.call("OPTIONS", CHAT, headers={**asked, "origin": "https://evil.example.com"})
    assert "access-control-allow-origin" not in stranger.headers
    for_all = gateway({"cors": {"origins": ["*"]}})
    assert for_all.chat(headers=page).headers["access-control-allow-origin"] == "*"
    # The application's own CORS headers do not pass.
    assert "access-control-allow-origin" not in gateway().chat(headers=page).headers


def test_metrics() -> None:
    metrics = Metrics()
    case = gateway({"validation": {"promptTokens": {"max": 20}}}, keys=Keys(), metrics=metrics)
    case.call("POST", CHAT, BODY, ADMIN)
    case.call("POST", CHAT, {**BODY, "temperature": 9}, ADMIN)
    case.call("POST", CHAT, {**BODY, "model": "none"}, ADMIN)
    case.call("POST", CHAT, BODY)
    case.call("POST", CHAT, {**BODY, "messages": [{"role": "user", "content": "raise"}]}, ADMIN)
    counted = {series[1:]: value for series, value in metrics.sums.items() if series[0] == "rayllm_gateway_requests"}
    assert counted == {
        ("admin", "small", "ok"): 1,
        ("admin", "small", "invalid"): 1,
        ("admin", "", "not_found"): 1,
        ("", "", "unauthorized"): 1,
        ("admin", "small", "error"): 1,
    }
    assert metrics.sums["rayllm_gateway_prompt_tokens", "admin", "small"] == 6
    assert metrics.sums["rayllm_gateway_output_tokens", "admin", "small"] == 7


def test_other_settings_take_effect_with_the_next_request() -> None:
    async def run() -> None:
        case = gateway()
        case.upstream.gate = asyncio.Event()
        body = json.dumps({**BODY, "stream": True, "messages": [{"role": "user", "content": "wait"}]}).encode()
        task = asyncio.create_task(case.send("POST", CHAT, body))
        while not case.upstream.bodies:
            await asyncio.sleep(0)
        case.use(keys=Keys(), settings=replace(GatewaySettings(), docs=True), models={})
        assert (await case.send("POST", CHAT, body)).status == 401
        assert (await case.send("POST", CHAT, body, ADMIN)).status == 404
        case.upstream.gate.set()
        assert (await task).status == 200

    asyncio.run(run())


def test_only_http_is_passed() -> None:
    case, sent = gateway(), []

    async def run() -> None:
        async def receive() -> dict[str, str]:
            return {"type": "websocket.connect"}

        async def send(message: object) -> None:
            sent.append(message)

        await case.gateway({"type": "websocket", "path": "/v1/realtime", "headers": []}, receive, send)

    asyncio.run(run())
    assert sent == [{"type": "websocket.close", "code": 1008}]
    assert not case.upstream.scopes
