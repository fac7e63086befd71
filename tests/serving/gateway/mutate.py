"""Damaged requests, made from sound ones. The gateway answers them with 2xx or 4xx and tells nothing about itself."""

from __future__ import annotations

import copy
import json
import random
import re
from typing import Any

from rayllm_ctl.serving.gateway.requests import Receive, Scope, Send
from tests.serving.gateway.upstream import TRACEBACK, Case, Keys, Limits, Queue, Response, answer, gateway

SETTINGS: dict[str, Any] = {
    "validation": {
        "maxBodyBytes": 20_000,
        "maxMessages": 8,
        "promptCharacters": {"max": 4000},
        "promptTokens": {"min": 1, "max": 60},
        "outputTokens": {"max": 16},
    },
    "cleaning": {"characters": "\u200b", "normalization": "NFC"},
    "limits": {"perKey": {"tokens": "1000/minute"}},
    "queue": {"maxPending": 10},
}

_FUNCTION = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
_CALL = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bonn"}'}}
_SAMPLING = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "seed": 7, "n": 1, "logit_bias": {"5": -1}, "stop": ["x"]}
SOUND: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "stream": True, **_SAMPLING}),
    (
        "/v1/chat/completions",
        {
            "messages": [
                {"role": "system", "content": [{"type": "text", "text": "be kind"}]},
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]},
                {"role": "assistant", "tool_calls": [_CALL]},
                {"role": "tool", "tool_call_id": "c", "content": "rain"},
            ],
            "tools": [{"type": "function", "function": _FUNCTION}],
            "tool_choice": {"type": "function", "function": {"name": "weather"}},
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}},
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 5,
            "max_completion_tokens": 50,
            "chat_template_kwargs": {"thinking": True},
        },
    ),
    ("/v1/completions", {"prompt": ["one", "two"], "max_tokens": 9, "logprobs": 2, "echo": False}),
    ("/v1/completions", {"prompt": [[1, 2], [3]], "min_tokens": 1, "stop_token_ids": [5], "bad_words": ["x"]}),
    ("/v1/embeddings", {"input": ["a", "b"], "encoding_format": "float", "dimensions": 5}),
    ("/v1/score", {"text_1": "a", "text_2": ["b", "c"]}),
    ("/tokenize", {"prompt": "one two", "add_special_tokens": True}),
    ("/detokenize", {"tokens": [1, 2, 3]}),
    ("/v1/responses", {"input": "a"}),
]

_ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308, 1e-320,
    "", " ", "0.5", "true", "null", "NaN", "a" * 5000, "\x00", "\ud800", "\udfff\ud800", "\U0001f600", "\u202e\u200b",
    "/etc/passwd", "../../x.py", "{{ 7 * 7 }}", "{% raise %}", "x" * 200, "Traceback (most recent call last)",
    [], {}, [[]], [{}], [None], {"": None}, {"a": []}, [1, "a"], ["a", 1], {"type": "text"}, {"role": "user"},
    list(range(300)), [[1], "a"], {"url": 5}, [True], "small", "big",
]  # fmt: skip

_BYTES = [
    b"", b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"-",
    b"NaN", b"Infinity", b"1e999", b"9" * 400, b"\\ud800", b"\\u0000", b"\\x", b"\n", b"\t", b"//", b"\xc3",
    b"0", b"+1", b"[" * 3000, b'{"a":' * 3000, b'"model":"small",',
]  # fmt: skip

LEAK = re.compile(rb'Traceback|File \\?"|\.py\b|site-packages|/(?:usr|home|opt|etc|tmp|root|work|models)/')


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found.append((value, key))
        found += _places(item)
    return found


def damaged(rng: random.Random) -> tuple[str, bytes]:
    """The path and body of a request."""
    path, sound = rng.choice(SOUND)
    body: Any = {"model": rng.choice(("big", "small", "small-sql")), **copy.deepcopy(sound)}
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        places = _places(body)
        if not places:
            break
        holder, key = rng.choice(places)
        change = rng.randrange(6)
        if change <= 2:
            holder[key] = copy.deepcopy(rng.choice(_ODD))
        elif change == 3:
            del holder[key]
        elif change == 4:
            holder[key] = [copy.deepcopy(holder[key]) for _ in range(rng.choice((1, 2, 40)))]
        elif isinstance(holder, dict):
            other, item = rng.choice(SOUND)[1], rng.choice(_ODD)
            holder[rng.choice((*other, "", "x", "\ud800"))] = copy.deepcopy(item)
    if rng.random() < 0.02:
        body = copy.deepcopy(rng.choice(_ODD))
    data = json.dumps(body, ensure_ascii=rng.random() < 0.5).encode(errors="surrogatepass")
    for _ in range(rng.choice((0, 0, 0, 0, 1, 3))):
        place, length = rng.randrange(len(data) + 1), rng.choice((0, 0, 1, 1, 5, 50))
        inserted = rng.choice(_BYTES) if rng.random() < 0.8 else data[rng.randrange(len(data) + 1) :][:20]
        data = data[:place] + inserted + data[place + length :]
    return path, data


class Picky:
    """An application that rejects some requests the way that servers do: with a traceback."""

    def __init__(self, case: Case) -> None:
        self._case = case

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        upstream = self._case.upstream
        upstream.bodies.clear()
        upstream.scopes.clear()
        message = await receive()
        body: bytes = message["body"]
        if len(body) % 7 == 0:
            await answer(
                send, 400 + len(body) % 27, {"error": {"message": TRACEBACK + body.decode(errors="replace")[:200]}}
            )
            return

        async def again() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        await upstream(scope, again, send)


def picky() -> Case:
    """A gateway with every step, in front of such an application."""
    case = gateway(SETTINGS, keys=Keys(), limits=Limits(most=10**9), queue=Queue())
    case.gateway.app = Picky(case)
    return case


async def outcome(case: Case, rng: random.Random) -> tuple[int, bytes, Response]:
    """Send one damaged request. Raises AssertionError for an answer that must not be."""
    path, body = damaged(rng)
    headers = {"authorization": "Bearer k-admin", "content-length": str(len(body))}
    response = await case.send("POST", path, body, headers)
    assert 200 <= response.status < 300 or 400 <= response.status < 500, response
    leak = LEAK.search(response.body)
    assert leak is None, response
    if response.status >= 400:
        assert response.error["message"]
        assert response.headers["x-request-id"]
    return response.status, body, response
