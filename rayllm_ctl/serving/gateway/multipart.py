"""Forms with files (multipart/form-data): the fields of transcriptions are checked, the body is passed on as it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rayllm_ctl.serving.gateway.endpoints import TRANSCRIPTIONS
from rayllm_ctl.serving.gateway.errors import Rejected, invalid
from rayllm_ctl.serving.gateway.fields import Field, boolean, check_fields, integer, number, one_of, string, wrong
from rayllm_ctl.serving.gateway.steps import Rejection

_BOUNDARY = re.compile(
    r'multipart/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))\s*(?:;.*)?', re.I
)
_NAME = re.compile(rb'form-data\s*;(?:.*;)?\s*name="([^"\r\n]{0,200})"', re.I)
_FILE = re.compile(rb";\s*filename\*?=", re.I)
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


def parse(content_type: str, body: bytes) -> dict[str, Any]:
    """The fields of a transcription, with the types that they stand for; files are True. Raises Rejected."""
    match = _BOUNDARY.fullmatch(content_type)
    if not match:
        raise Rejected(
            Rejection(415, "The content type must be multipart/form-data with a boundary", "unsupported_type")
        )
    fields: dict[str, Any] = {}
    for name, content in _parts(body, b"--" + (match[1] or match[2]).encode("latin-1")):
        if name in fields and not name.endswith("[]"):
            raise invalid(f"The form has the field {name} more than once", name, "duplicate_key")
        fields[name] = content if content is True else _typed(name, content)
    if fields.get("file") is not True:
        raise invalid("file: required", "file", "missing_required_parameter")
    check_fields(fields, ENDPOINT.fields, ())
    return fields


def _parts(body: bytes, delimiter: bytes) -> list[tuple[str, Any]]:
    parts: list[tuple[str, Any]] = []
    if not body.startswith(delimiter):
        raise _malformed()
    place = len(delimiter)
    while not body.startswith(b"--", place):
        if not body.startswith(b"\r\n", place) or len(parts) == _MOST_PARTS:
            raise _malformed()
        # Where a part has no headers its blank line begins with the line break of the delimiter.
        head = body.find(b"\r\n\r\n", place)
        end = body.find(b"\r\n" + delimiter, place + 2)
        if head < 0 or end < head:
            raise _malformed()
        headers = body[place:head]
        name = _NAME.search(headers)
        if not name:
            raise _malformed()
        try:
            text = name[1].decode()
            parts.append((text, True if _FILE.search(headers) else body[head + 4 : end].decode()))
        except UnicodeDecodeError:
            raise invalid("The form is not valid UTF-8", code="invalid_form") from None
        place = end + 2 + len(delimiter)
    return parts


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


def _malformed() -> Rejected:
    return invalid("The body is not a valid form", code="invalid_form")
