"""Bodies that two parsers read: the gateway's, and FastAPI's behind it, which decides which model answers.

Whatever is sent, the application sees no other model than the one that the gateway admitted the request for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from fastapi import FastAPI, Form, Request, UploadFile
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from rayllm_ctl.serving.gateway.application import MODEL, check_model
from rayllm_ctl.serving.gateway.errors import Rejected
from tests.serving.gateway.upstream import Case, Keys, Response, gateway

CHAT, FORM, OTHER = "/v1/chat/completions", "/v1/audio/transcriptions", "/v1/other"
READER = {"authorization": "Bearer k-reader"}
FILE = b'--XX\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nabc\r\n'
Seen = list[tuple[str | None, str | None]]
"""Of each request that arrived: the model that the application read, and the one that it was admitted for."""


class Chat(BaseModel):
    """As vLLM's requests are."""

    model_config = ConfigDict(extra="allow")
    model: str | None = None
    messages: list[dict[str, Any]]


class Transcription(BaseModel):
    """As that of Ray's ingress."""

    file: UploadFile
    model: str | None = None


def behind() -> tuple[Case, Seen]:
    """A gateway in front of endpoints that read a body as those of Ray's ingress do, and of some that read more."""
    app, seen = FastAPI(), Seen()

    def note(request: Request, model: str | None) -> dict[str, str | None]:
        seen.append((model, request.scope.get(MODEL)))
        return {"model": model}

    async def chat(body: Chat, request: Request) -> dict[str, str | None]:
        return note(request, body.model)

    async def transcriptions(body: Annotated[Transcription, Form()], request: Request) -> dict[str, str | None]:
        return note(request, body.model)

    async def form(request: Request, model: Annotated[str | None, Form()] = None) -> dict[str, str | None]:
        return note(request, model)

    async def other(body: dict[str, Any], request: Request) -> dict[str, str | None]:
        return note(request, body.get("model"))

    async def query(request: Request, model: str | None = None) -> dict[str, str | None]:
        return note(request, model)

    app.post(CHAT)(chat)
    app.post(FORM)(transcriptions)
    app.post(f"{OTHER}/form")(form)
    app.post(f"{OTHER}/json")(other)
    for method in (app.get, app.post):
        method(f"{OTHER}/query")(query)
    case = gateway(keys=Keys())
    case.gateway.app = app
    return case, seen


CASE, SEEN = behind()


def send(path: str, body: bytes, kind: str | None, query: str = "", method: str = "POST") -> Response:
    """The response to a request with a key for the model `small` alone."""
    SEEN.clear()
    headers = {**READER, "content-type": kind}
    return asyncio.run(CASE.send(method, path, body, headers, query=query.encode()))


def agrees(response: Response, *, named: bool = True) -> None:
    """named: the gateway itself names the model where the request does not."""
    for read, admitted in SEEN:
        assert read == (admitted if named else read)
        assert read in (("small",) if named else ("small", None)), response.body
    assert response.status < 500, response.body


def part(headers: Sequence[str], value: str) -> bytes:
    return "\r\n".join(["--XX", *headers, "", value, ""]).encode("utf-8", "surrogateescape")


def form(*parts: bytes) -> bytes:
    return FILE + b"".join(parts) + b"--XX--\r\n"


SMALL = part(['Content-Disposition: form-data; name="model"'], "small")
TYPE = "multipart/form-data; boundary=XX"


def test_what_is_sound_arrives() -> None:
    sound = [
        (CHAT, b'{"model": "small", "messages": [{"role": "user", "content": "a"}]}', "application/json", ""),
        (CHAT, b'{"model": "small", "messages": [{"role": "user", "content": "a"}]}', None, ""),
        (FORM, form(SMALL), TYPE, ""),
        (f"{OTHER}/json", b'{"model": "small"}', "application/json", ""),
        (f"{OTHER}/query", b'{"model": "small"}', "application/json", "model=small"),
    ]
    for path, body, kind, query in sound:
        assert send(path, body, kind, query).status == 200, path
        assert SEEN == [("small", "small")]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (TYPE, form(SMALL, part(['X-A: form-data; name="z"', 'Content-Disposition: form-data; name="model"'], "big"))),
        (TYPE, form(SMALL, part(['Content-Disposition: form-data; name="model"'], "big"))),
        (TYPE, form(SMALL, part(['Content-Disposition: form-data; name="z"; name="model"'], "big"))),
        (TYPE, form(SMALL, part(["Content-Disposition: form-data; name=model"], "big"))),
        (f"{TYPE}; charset=utf-7", form(SMALL, part(['Content-Disposition: form-data; name="+AG0-odel"'], "big"))),
        (f"multipart/form-data; boundary=YY; {TYPE.partition('; ')[2]}", form(SMALL).replace(b"small", b"big")),
    ],
)
def test_a_form_cannot_name_another_model_behind_the_gateway(kind: str, body: bytes) -> None:
    response = send(FORM, body, kind)
    assert (response.status, SEEN) in [(status, []) for status in (400, 403, 415)]


def test_an_application_that_is_not_known_gets_no_other_model() -> None:
    body, json_type = b'{"model": "small"}', "application/json"
    assert send(f"{OTHER}/query", body, json_type, "model=big").status == 400
    assert send(f"{OTHER}/query", body, json_type, "mod%65l=big").status == 400
    assert send(f"{OTHER}/query", b"", None, "model=big", "GET").status == 403
    assert send(f"{OTHER}/query", b"", None, "model=small&model=big", "GET").status == 400
    assert send(f"{OTHER}/query", b"", None, "", "GET").status == 200
    assert send(f"{OTHER}/form", b"model=big", "application/x-www-form-urlencoded").status == 403
    assert send(f"{OTHER}/form", b"model=big", json_type).status == 403
    assert send(FORM, b"model=small", "application/x-www-form-urlencoded").status == 415


def test_the_application_checks_the_model_that_it_read() -> None:
    check_model({MODEL: "small"}, "small")
    check_model({}, "big")  # without a gateway, or on a path that it does not know
    with pytest.raises(Rejected) as caught:
        check_model({MODEL: "small"}, "big")
    assert (caught.value.rejection.status, caught.value.rejection.param) == (400, "model")


NAMES = st.sampled_from(["model", "Model", "mod\\u0065l", "model ", "model\\u0000", "\\ud800", "x"])
MODELS = st.sampled_from(
    ['"small"', '"big"', '"b\\u0069g"', "null", '["big"]', '"small\\u0000"', "1", "NaN", '"\\udc00"']
)
SPACE = st.sampled_from(["", " ", "\n", "\t", "\r", "\x0b", "\xa0", "/**/", "\ufeff"])
ENCODINGS = st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"])
JSON_TYPES = st.sampled_from(
    [None, "application/json", "Application/JSON ; charset=utf-8", "application/json; charset=utf-16", "text/json"]
)
MESSAGES = '"messages": [{"role": "user", "content": "a"}]'


@settings(max_examples=250, deadline=None)
@given(st.lists(st.tuples(SPACE, NAMES, SPACE, MODELS), max_size=3), SPACE, ENCODINGS, JSON_TYPES, st.booleans())
def test_json(
    members: list[tuple[str, str, str, str]], space: str, encoding: str, kind: str | None, first: bool
) -> None:
    given_members = [f'{before}"{name}"{after}:{value}' for before, name, after, value in members]
    both = [MESSAGES, *given_members] if first else [*given_members, MESSAGES]
    body = f"{space}{{{','.join(both)}}}{space}".encode(encoding, "replace")
    for path in (CHAT, f"{OTHER}/json"):
        agrees(send(path, body, kind))


WORDS = [
    "model",
    "z",
    "file",
    '"model"',
    '"z"',
    '"mod\\el"',
    '"a\\"; name=\\"model"',
    "mo del",
    '"model',
    "model\\",
    "",
]
DISPOSITION = st.builds(
    lambda kind, parameters: "; ".join([kind, *parameters]),
    st.sampled_from(["form-data", "attachment", "", "FORM-DATA"]),
    st.lists(
        st.builds(
            lambda key, value, glue: f"{key}{glue}{value}",
            st.sampled_from(["name", "Name", "name*", "filename", "filename*", "x"]),
            st.sampled_from(WORDS),
            st.sampled_from(["=", " =", "= ", "=="]),
        ),
        max_size=3,
    ),
)
READY = [
    'Content-Disposition: form-data; name="model"',
    'content-disposition: form-data; name="z"',
    'X-A: form-data; name="z"',
    'X-A: form-data; name="model"',
    'Content-Disposition: form-data; name="+AG0-odel"',
    "Content-Type: text/plain; charset=utf-7",
]
HEADER = st.sampled_from(READY) | st.builds(
    lambda name, glue, value: f"{name}{glue}{value}",
    st.sampled_from(["Content-Disposition", "content-disposition", "X-A", "Content-Type", " Content-Disposition"]),
    st.sampled_from([": ", ":", ":\t", " : "]),
    DISPOSITION,
)
PART = st.builds(
    part,
    st.lists(HEADER, max_size=3),
    st.sampled_from(["small", "big", "", "bi\udcff", "b\r\nig", "big\r\n--XX--", "b+AGk-g", "--XX"]),
)
FORM_TYPES = st.sampled_from(
    [
        TYPE,
        TYPE,
        TYPE,
        'multipart/form-data; boundary="XX"',
        "Multipart/Form-Data;boundary=XX",
        "multipart/form-data; boundary=YY; boundary=XX",
        "multipart/form-data; boundary=XX; boundary=YY",
        "multipart/form-data; boundary*=utf-8''XX; boundary=YY",
        'multipart/form-data; x="; boundary=YY"; boundary=XX',
        f"{TYPE}; charset=utf-7",
        f"{TYPE}; charset=utf-8",
        f"{TYPE}, {TYPE}",
        "multipart/form-data",
    ]
)


@settings(max_examples=600, deadline=None)
@given(
    st.sampled_from([[FILE, SMALL], [FILE, SMALL], [FILE, SMALL], [FILE], [SMALL], []]),
    st.lists(PART, max_size=2),
    FORM_TYPES,
    st.sampled_from([b"", b"", b"", b"\r\n", b"preamble\r\n", b"--YY\r\n"]),
    st.sampled_from([b"--XX--\r\n", b"--XX--\r\n", b"--XX--", b"", b"--XX\r\n", b"--XX--\r\n" + SMALL]),
)
def test_forms(sound: list[bytes], parts: list[bytes], kind: str, before: bytes, after: bytes) -> None:
    agrees(send(FORM, before + b"".join([*sound, *parts]) + after, kind))


PAIRS = st.lists(
    st.builds(
        lambda name, glue, value: f"{name}{glue}{value}",
        st.sampled_from(["model", "mod%65l", "model%00", "MODEL", "x", "", "+model"]),
        st.sampled_from(["=", "", "%3D"]),
        st.sampled_from(["small", "big", "b%69g", "%FF", "", "small%00"]),
    ),
    max_size=3,
)
GLUE = st.sampled_from(["&", ";", "&&"])


@settings(max_examples=250, deadline=None)
@given(PAIRS, GLUE, st.sampled_from(["GET", "POST"]))
def test_queries(pairs: list[str], glue: str, method: str) -> None:
    body = b'{"model": "small"}' if method == "POST" else b""
    agrees(send(f"{OTHER}/query", body, "application/json", glue.join(pairs), method), named=False)
    # A path that the gateway knows takes its model from the body alone.
    chat = json.dumps({"model": "small", "messages": [{"role": "user", "content": "a"}]}).encode()
    assert send(CHAT, chat, "application/json", glue.join(pairs)).status == 200
    agrees(Response(200))


@settings(max_examples=150, deadline=None)
@given(PAIRS, GLUE, st.sampled_from(["application/x-www-form-urlencoded", "application/json", TYPE]))
def test_urlencoded_forms(pairs: list[str], glue: str, kind: str) -> None:
    for path in (FORM, f"{OTHER}/form", CHAT):
        agrees(send(path, glue.join(pairs).encode(), kind))
