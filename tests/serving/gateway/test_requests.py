"""Requests and the status, `param` and code that they are answered with."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from rayllm_ctl.serving.gateway.requests import Message
from tests.serving.gateway.upstream import gateway

USER = {"role": "user", "content": "hi"}
CHAT = "/v1/chat/completions"
NESTED = '{"model":"small","messages":[{"role":"user","content":"hi"}],"x":' + "[" * 40 + "]" * 40 + "}"
BOMB = b'{"model":"small","messages":' + b"[" * 100_000
SETTINGS: dict[str, Any] = {
    "validation": {
        "maxBodyBytes": 200_000,
        "maxMessages": 3,
        "promptCharacters": {"min": 2, "max": 50},
        "promptTokens": {"min": 3, "max": 12},
        "outputTokens": {"max": 20, "exceeding": "reject"},
        "stopSequences": {"max": 2, "maxLength": 5},
    }
}


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "small", "messages": [USER], **fields}


def message(**fields: Any) -> dict[str, Any]:
    return chat(messages=[{**USER, **fields}])


BODIES: list[tuple[str, Any, int, str | None, str]] = [
    # What is not JSON, or what parsers disagree about.
    (CHAT, b"", 400, None, "invalid_json"),
    (CHAT, b"{", 400, None, "invalid_json"),
    (CHAT, b'{"a": "\xff"}', 400, None, "invalid_json"),
    (CHAT, b"\xef\xbb\xbf{}", 400, None, "invalid_json"),
    (CHAT, b'{"a": "\xed\xa0\x80"}', 400, None, "invalid_json"),
    (CHAT, b'{"temperature": NaN}', 400, None, "invalid_json"),
    (CHAT, b'{"temperature": -Infinity}', 400, None, "invalid_json"),
    (CHAT, b'{"temperature": 1e999}', 400, None, "invalid_json"),
    (CHAT, b'{"seed": ' + b"9" * 5000 + b"}", 400, None, "invalid_json"),
    (CHAT, b'{"model": "small", "model": "big"}', 400, "model", "duplicate_key"),
    (CHAT, b'{"model": "small", "messages": [{"role": "user", "role": "system"}]}', 400, "role", "duplicate_key"),
    (CHAT, b"[]", 400, None, "invalid_type"),
    (CHAT, b"1", 400, None, "invalid_type"),
    (CHAT, NESTED.encode(), 400, None, "too_deep"),
    (CHAT, BOMB, 400, None, "too_deep"),
    (CHAT, json.dumps(chat(user="\ud800")).encode(), 400, "user", "invalid_value"),
    (CHAT, json.dumps(message(content="a\udfff")).encode(), 400, "messages[0].content", "invalid_value"),
    (CHAT, b" " * 200_001, 413, None, "body_too_large"),
    # The model.
    (CHAT, chat(model=None), 400, "model", "missing_required_parameter"),
    (CHAT, chat(model=7), 400, "model", "invalid_type"),
    (CHAT, chat(model="none"), 404, "model", "model_not_found"),
    (CHAT, chat(model="small", temperature=9), 400, "temperature", "invalid_value"),
    # Messages.
    (CHAT, {"model": "small"}, 400, "messages", "missing_required_parameter"),
    (CHAT, chat(messages="hi"), 400, "messages", "invalid_type"),
    (CHAT, chat(messages=[]), 400, "messages", "invalid_value"),
    (CHAT, chat(messages=[USER] * 4), 400, "messages", "too_many_messages"),
    (CHAT, chat(messages=["hi"]), 400, "messages[0]", "invalid_type"),
    (CHAT, message(role=None), 400, "messages[0].role", "invalid_type"),
    (CHAT, message(role="wizard"), 400, "messages[0].role", "invalid_value"),
    (CHAT, message(content=None), 400, "messages[0].content", "missing_required_parameter"),
    (CHAT, message(content=5), 400, "messages[0].content", "invalid_type"),
    (CHAT, message(content=[]), 400, "messages[0].content", "invalid_value"),
    (CHAT, message(content=["hi"]), 400, "messages[0].content[0]", "invalid_type"),
    (CHAT, message(content=[{"type": "text"}]), 400, "messages[0].content[0].text", "invalid_type"),
    (CHAT, message(content=[{"type": "poem", "poem": ""}]), 400, "messages[0].content[0].type", "invalid_value"),
    (
        CHAT,
        message(content=[{"type": "image_url", "image_url": {"url": 1}}]),
        400,
        "messages[0].content[0].image_url.url",
        "invalid_type",
    ),
    (CHAT, message(name=1), 400, "messages[0].name", "invalid_type"),
    (
        CHAT,
        message(tool_calls=[{"function": {"name": "f", "arguments": {}}}]),
        400,
        "messages[0].tool_calls[0].function.arguments",
        "invalid_type",
    ),
    # Types are strict, ranges are those of the engine.
    (CHAT, chat(temperature="0.5"), 400, "temperature", "invalid_type"),
    (CHAT, chat(temperature=True), 400, "temperature", "invalid_type"),
    (CHAT, chat(temperature=2.1), 400, "temperature", "invalid_value"),
    (CHAT, chat(top_p=0), 400, "top_p", "invalid_value"),
    (CHAT, chat(n=1.0), 400, "n", "invalid_type"),
    (CHAT, chat(n=True), 400, "n", "invalid_type"),
    (CHAT, chat(n=0), 400, "n", "invalid_value"),
    (CHAT, chat(seed=2**63), 400, "seed", "invalid_value"),
    (CHAT, chat(stream=1), 400, "stream", "invalid_type"),
    (CHAT, chat(stream="true"), 400, "stream", "invalid_type"),
    (CHAT, chat(stream_options={"include_usage": True}), 400, "stream_options", "invalid_value"),
    (CHAT, chat(stream=True, stream_options={"include_usage": 1}), 400, "stream_options.include_usage", "invalid_type"),
    (CHAT, chat(logit_bias={"a": 1}), 400, "logit_bias", "invalid_value"),
    (CHAT, chat(logit_bias={"5": "1"}), 400, "logit_bias", "invalid_type"),
    (
        CHAT,
        chat(tools=[{"type": "function", "function": {}}]),
        400,
        "tools[0].function.name",
        "missing_required_parameter",
    ),
    (CHAT, chat(tool_choice="some"), 400, "tool_choice", "invalid_value"),
    (CHAT, chat(response_format={"type": "xml"}), 400, "response_format.type", "invalid_value"),
    (CHAT, chat(stop=[""]), 400, "stop[0]", "invalid_value"),
    (CHAT, chat(stop=5), 400, "stop", "invalid_type"),
    # Limits of the settings.
    (CHAT, chat(stop=["a", "b", "c"]), 400, "stop", "too_many_stop_sequences"),
    (CHAT, chat(stop=["a", "b" * 6]), 400, "stop[1]", "stop_too_long"),
    (CHAT, message(content="a"), 400, "messages", "prompt_too_short"),
    (CHAT, message(content="a" * 51), 400, "messages", "prompt_too_long"),
    (CHAT, message(content="a " * 20), 400, "messages", "prompt_too_long"),
    (CHAT, chat(max_tokens=21), 400, "max_tokens", "too_many_output_tokens"),
    (CHAT, chat(max_tokens=20), 200, None, ""),
    (CHAT, chat(max_tokens=5, max_completion_tokens=21), 400, "max_completion_tokens", "too_many_output_tokens"),
    (CHAT, chat(max_tokens=21, max_completion_tokens=5), 200, None, ""),
    (CHAT, chat(max_tokens=0), 400, "max_tokens", "invalid_value"),
    (CHAT, chat(min_tokens=21), 400, "min_tokens", "too_many_output_tokens"),
    (CHAT, chat(temperature=None, top_p=None, stop=None, tools=None, max_tokens=None), 200, None, ""),
    (CHAT, chat(vllm_xargs={"x": 1}), 200, None, ""),
    # The other endpoints.
    ("/v1/completions", {"model": "small", "prompt": "one two three"}, 200, None, ""),
    ("/v1/completions", {"model": "small", "prompt": [1, 2, 3]}, 200, None, ""),
    ("/v1/completions", {"model": "small", "prompt": [[1, 2, 3], [4, 5, 6]]}, 200, None, ""),
    ("/v1/completions", {"model": "small", "prompt": [1, "a"]}, 400, "prompt[1]", "invalid_type"),
    ("/v1/completions", {"model": "small", "prompt": [1, -1]}, 400, "prompt[1]", "invalid_value"),
    ("/v1/completions", {"model": "small", "prompt": [[1], []]}, 400, "prompt[1]", "invalid_value"),
    ("/v1/completions", {"model": "small", "prompt": []}, 400, "prompt", "invalid_value"),
    ("/v1/completions", {"model": "small", "prompt": list(range(13))}, 400, "prompt", "prompt_too_long"),
    ("/v1/completions", {"model": "small", "prompt": ["ab cd ef", "x"]}, 400, "prompt", "prompt_too_short"),
    ("/v1/completions", {"model": "small"}, 400, "prompt", "missing_required_parameter"),
    ("/v1/embeddings", {"model": "small", "input": ["one two three"]}, 200, None, ""),
    ("/v1/embeddings", {"model": "small"}, 400, "input", "missing_required_parameter"),
    (
        "/v1/embeddings",
        {"model": "small", "input": "a", "messages": [USER]},
        400,
        "messages",
        "missing_required_parameter",
    ),
    (
        "/v1/embeddings",
        {"model": "small", "input": "abc", "encoding_format": "hex"},
        400,
        "encoding_format",
        "invalid_value",
    ),
    ("/v1/score", {"model": "small", "text_1": "one two", "text_2": ["three four"]}, 200, None, ""),
    ("/v1/score", {"model": "small", "text_1": "a"}, 400, "text_2", "missing_required_parameter"),
    ("/v1/score", {"model": "small", "text_1": 1, "text_2": "a"}, 400, "text_1", "invalid_type"),
    ("/tokenize", {"model": "small", "prompt": "one two three"}, 200, None, ""),
    ("/tokenize", {"model": "small"}, 400, "prompt", "missing_required_parameter"),
    ("/detokenize", {"model": "small", "tokens": [1, 2]}, 200, None, ""),
    ("/detokenize", {"model": "small", "tokens": ["1"]}, 400, "tokens[0]", "invalid_type"),
    ("/v1/responses", {"model": "small", "input": 5}, 200, None, ""),
    # Fields of other endpoints are not looked at.
    ("/v1/score", {"model": "small", "text_1": "ab cd", "text_2": "ef gh", "stop": [1], "messages": 5}, 200, None, ""),
    ("/v1/completions", {"model": "small", "prompt": "one two three", "messages": [1], "input": [{}]}, 200, None, ""),
    ("/v2/anything", {}, 404, None, "not_found"),
    ("/v2/anything", b"{", 404, None, "not_found"),
    ("/v2/anything", b"", 404, None, "not_found"),
]


def test_bodies() -> None:
    case = gateway(SETTINGS)
    for path, body, status, param, code in BODIES:
        before = len(case.upstream.bodies)
        response = case.call("POST", path, body)
        shown = f"{path} {body!r:.200}: {response.body!r}"
        assert response.status == status, shown
        if status != 200:
            assert (response.error["param"], response.error["code"]) == (param, code), shown
        reached = len(case.upstream.bodies) - before
        assert reached == (status == 200 or path.startswith("/v2/")), shown


def test_strategies_are_checked_for_models_of_the_transformers_engine() -> None:
    case = gateway({"validation": {"parameters": ["decoding", "num_beams", "length_penalty"]}})
    asked = {"decoding": "beam_search", "num_beams": 4, "length_penalty": 0.8}
    for path, prompt in ((CHAT, {"messages": [USER]}), ("/v1/completions", {"prompt": "hi"})):
        assert case.call("POST", path, {"model": "rare", **prompt, **asked}).status == 200
        for name, wrong in (
            ("decoding", "contrastive_search"), ("decoding", "Greedy"), ("decoding", 1), ("num_beams", "4"),
            ("num_beams", 1), ("num_beams", 4.0), ("length_penalty", True),
        ):  # fmt: skip
            response = case.call("POST", path, {"model": "rare", **prompt, **asked, name: wrong})
            assert (response.status, response.error["param"]) == (400, name)
        # To vLLM they are fields like any other that the gateway does not know.
        assert case.call("POST", path, {"model": "small", **prompt, "decoding": 1, "num_beams": "4"}).status == 200
    closed = gateway({"validation": {"parameters": ["temperature"]}})
    response = closed.call("POST", CHAT, {"model": "rare", "messages": [USER], "decoding": "greedy"})
    assert (response.status, response.error["code"]) == (400, "parameter_not_allowed")


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "code"),
    [
        ("POST", CHAT, {"content-encoding": "gzip"}, 415, "unsupported_encoding"),
        ("POST", CHAT, {"content-encoding": "identity"}, 415, "unsupported_encoding"),
        ("POST", CHAT, {"content-type": "text/plain"}, 415, "unsupported_type"),
        ("POST", CHAT, {"content-type": "application/json; charset=latin-1"}, 415, "unsupported_type"),
        ("POST", CHAT, {"content-type": "Application/JSON; charset=UTF-8"}, 200, ""),
        ("POST", CHAT, {"content-length": "200001"}, 413, "body_too_large"),
        ("POST", CHAT, {"content-length": "9" * 5000}, 413, "body_too_large"),
        ("GET", CHAT, {}, 405, "method_not_allowed"),
        ("PUT", CHAT, {}, 405, "method_not_allowed"),
        ("OPTIONS", CHAT, {}, 405, "method_not_allowed"),
        ("POST", "/v1/models", {}, 405, "method_not_allowed"),
        ("DELETE", "/v1/models/small", {}, 405, "method_not_allowed"),
        ("GET", "/v1/models", {}, 200, ""),
        ("GET", "/v1/models/small-sql", {}, 200, ""),
        ("GET", "/v1/models/none", {}, 404, "model_not_found"),
        ("GET", "/metrics", {}, 404, "not_found"),
        ("GET", "/docs", {}, 404, "not_found"),
        ("GET", "/openapi.json", {}, 404, "not_found"),
        ("GET", "/-/routes", {}, 404, "not_found"),
        ("GET", "/health", {}, 200, ""),
        ("POST", "/health", {}, 405, "method_not_allowed"),
    ],
)
def test_headers_and_paths(method: str, path: str, headers: dict[str, str], status: int, code: str) -> None:
    response = gateway(SETTINGS).call(method, path, chat() if method == "POST" else None, headers)
    assert response.status == status, response.body
    if status >= 400:
        assert response.error["code"] == code
    assert ("allow" in response.headers) == (status == 405)


def test_slow_and_abandoned_bodies() -> None:
    case = gateway({"validation": {"bodyTimeout": 0.05}})

    async def slow() -> Message:
        await asyncio.sleep(0.03)
        return {"type": "http.request", "body": b" ", "more_body": True}

    response = asyncio.run(case.send("POST", CHAT, receive=slow))
    assert (response.status, response.error["code"]) == (408, "request_timeout")

    async def gone() -> Message:
        return {"type": "http.disconnect"}

    assert asyncio.run(case.send("POST", CHAT, receive=gone)).status == 0
    assert not case.upstream.bodies


def test_a_body_in_parts_passes_byte_for_byte() -> None:
    case = gateway()
    body = (
        b'{ "model" : "small",\n"messages":[ {"role":"user", "content":"caf\xc3\xa9 \\u00e9"} ], "temperature":0.50 }'
    )
    response = asyncio.run(case.send("POST", CHAT, [body[:10], body[10:11], body[11:]]))
    assert response.status == 200
    assert case.upstream.bodies == [body]
    assert (b"content-length", str(len(body)).encode()) in case.upstream.scopes[0]["headers"]


def test_a_body_that_is_too_large_is_not_read_to_its_end() -> None:
    case = gateway({"validation": {"maxBodyBytes": 1000}})
    sent = 0

    async def endless() -> Message:
        nonlocal sent
        sent += 1
        return {"type": "http.request", "body": b" " * 600, "more_body": True}

    assert asyncio.run(case.send("POST", CHAT, receive=endless)).status == 413
    assert sent == 2


def test_output_tokens_are_clamped() -> None:
    case = gateway({"validation": {"outputTokens": {"max": 20}}})
    wishes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"max_tokens": 21}, {"max_tokens": 20}),
        ({"max_tokens": 5}, {"max_tokens": 5}),
        ({"max_tokens": 5, "max_completion_tokens": 30}, {"max_tokens": 5, "max_completion_tokens": 20}),
        ({"max_tokens": 30, "max_completion_tokens": 5}, {"max_tokens": 30, "max_completion_tokens": 5}),
        ({}, {"max_tokens": 20}),
        ({"max_tokens": None}, {"max_tokens": 20}),
        # 32 tokens of context less 18 of the prompt: the engine would reject 20.
        ({"messages": [{"role": "user", "content": "x " * 16}]}, {"max_tokens": 14}),
    ]
    for wish, expected in wishes:
        assert case.call("POST", CHAT, chat(**wish)).status == 200
        passed = case.passed
        assert {name: passed[name] for name in ("max_tokens", "max_completion_tokens") if name in passed} == expected
        assert passed["model"] == "small"
    # A prompt is completed by 16 tokens by default, which is less.
    assert case.call("POST", "/v1/completions", {"model": "small", "prompt": "a"}).status == 200
    assert "max_tokens" not in case.passed
    assert case.chat("x " * 31).error["code"] == "prompt_too_long"


def test_only_listed_parameters_are_allowed() -> None:
    case = gateway({"validation": {"parameters": ["temperature"]}})
    allowed = chat(
        temperature=1, stream=True, stream_options={}, max_tokens=5, stop="x", tools=[], user="me", top_p=None
    )
    assert case.call("POST", CHAT, allowed).status == 200
    for name, value in (("top_p", 1), ("logprobs", True), ("unheard_of", 1), ("reasoning_effort", "low")):
        error = case.call("POST", CHAT, chat(**{name: value})).error
        assert (error["param"], error["code"]) == (name, "parameter_not_allowed")


def test_the_only_model_is_the_default() -> None:
    case = gateway()
    assert case.gateway.state is not None
    case.use(models={"big": case.gateway.state.models["big"]})
    assert case.call("POST", CHAT, {"messages": [USER]}).status == 200
    assert case.passed["model"] == "big"
    assert case.call("POST", CHAT, {"model": None, "messages": [USER]}).status == 200
    assert case.passed["model"] == "big"


def test_cleaning() -> None:
    case = gateway({"cleaning": {"characters": "\u200b-]", "normalization": "NFC"}})
    dirty = "a\x00\u202eb\x07\x1b\u200bc\ud800-\td\n\x9f"
    response = case.chat([{"type": "text", "text": dirty}, {"type": "text", "text": "e\u0301"}], user="me")
    assert response.status == 200
    assert response.headers["x-prompt-cleaned"] == "nul=1,bidi=1,control=3,characters=2,surrogates=1,normalized=1"
    parts = case.passed["messages"][0]["content"]
    assert [part["text"] for part in parts] == ["abc\td\n", "é"]
    clean = case.chat("plain\ttext")
    assert "x-prompt-cleaned" not in clean.headers
    for path, body, expected in (
        ("/v1/completions", {"prompt": ["a\x00", "b"]}, ["a", "b"]),
        ("/v1/embeddings", {"input": "a\x00"}, "a"),
        ("/tokenize", {"prompt": "\u2066a"}, "a"),
    ):
        assert case.call("POST", path, {"model": "small", **body}).status == 200
        assert next(iter(case.passed[name] for name in body)) == expected
    assert gateway({"cleaning": {"remove": []}}).chat("a\x00").status == 200
    limited = gateway({"cleaning": {"remove": ["bidi"]}, "validation": {"promptCharacters": {"min": 1}}})
    assert limited.chat("\u202e").error["code"] == "prompt_too_short"
    assert limited.chat("\x00").status == 200
    assert limited.passed["messages"][0]["content"] == "\x00"
