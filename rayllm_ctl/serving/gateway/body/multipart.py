"""Forms with files (multipart/form-data): the fields of transcriptions are checked, the body is passed on as it is.

The application behind reads the same bytes again. So that both find the same fields, the parser is that of FastAPI
(Starlette's, on python-multipart), and what a parser has to choose from is rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from rayllm_ctl.serving.gateway.body.endpoints import TRANSCRIPTIONS
from rayllm_ctl.serving.gateway.body.fields import Field, boolean, check_fields, integer, number, one_of, string, wrong
from rayllm_ctl.serving.gateway.errors import Rejected, invalid
from rayllm_ctl.serving.gateway.requests import Message
from rayllm_ctl.serving.gateway.steps import Rejection

_MOST_PARTS = 64


def _file(value: Any, path: str) -> None:
    if value is not True:
        raise wrong("a file", path)


_FIELDS: dict[str, Field] = {
    "model": string(512, least=1),
    "language": string(32),
    "prompt": string(),
    "timestamp_granularities[]": one_of("word", "segment"),
    "response_format": one_of("json", "text", "srt", "verbose_json", "vtt"),
    "temperature": number(0, 2),
    "top_p": number(most=1, above=0),
    "top_k": integer(-1),
    "min_p": number(0, 1),
    "seed": integer(),
    "frequency_penalty": number(-2, 2),
    "presence_penalty": number(-2, 2),
    "repetition_penalty": number(above=0),
    "max_completion_tokens": integer(1, sampling=False),
    "stream": boolean(),
    "stream_include_usage": boolean(),
    "file": Field(_file, {"type": "string", "contentMediaType": "application/octet-stream"}),
}

ENDPOINT = replace(TRANSCRIPTIONS, fields=_FIELDS, required=("file",), prompts=("prompt",))


async def parse(content_type: bytes, body: bytes) -> dict[str, Any]:
    """The fields of a transcription, with the types that they stand for; files are True. Raises Rejected."""
    _check_complete(content_type, body)
    fields: dict[str, Any] = {}
    for name, content in await _parts(content_type, body):
        if name in fields and not name.endswith("[]"):
            raise invalid(f"The form has the field {name} more than once", name, "duplicate_key")
        fields[name] = _typed(name, content) if isinstance(content, str) else True
    if fields.get("file") is not True:
        raise invalid("file: required", "file", "missing_required_parameter")
    check_fields(fields, ENDPOINT.fields, ())
    return fields


def _check_complete(content_type: bytes, body: bytes) -> None:
    """The parser says nothing of a form that ends too early, and leaves out its last part."""
    kind, parameters = parse_options_header(content_type)
    boundary = parameters.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise _unsupported("with a boundary")
    if parameters.get(b"charset", b"utf-8").lower() != b"utf-8":
        raise _unsupported("in UTF-8")
    if b"--%b--" % boundary not in body:
        raise _malformed()


async def _parts(content_type: bytes, body: bytes) -> list[tuple[str, Any]]:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    request = Request({"type": "http", "headers": [(b"content-type", content_type)]}, receive)
    try:
        form = await request.form(max_files=_MOST_PARTS, max_fields=_MOST_PARTS)
    except (MultiPartException, FormParserError):
        raise _malformed() from None
    try:
        return list(form.multi_items())
    finally:
        await form.close()


def _typed(name: str, text: str) -> Any:
    """Forms have text only: a number or boolean is what its text says."""
    schema = _FIELDS[name].schema if name in _FIELDS else {}
    kinds: dict[str, Callable[[str], Any]] = {"number": float, "integer": int, "boolean": _boolean}
    kind = kinds.get(schema.get("type", ""))
    if kind is None or len(text) > 64:
        return text
    try:
        return kind(text)
    except ValueError:
        return text


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise ValueError
    return text.lower() in ("true", "1")


def _unsupported(how: str) -> Rejected:
    return Rejected(Rejection(415, f"The content type must be multipart/form-data {how}", "unsupported_type"))


def _malformed() -> Rejected:
    return invalid("The body is not a valid form", code="invalid_form")
