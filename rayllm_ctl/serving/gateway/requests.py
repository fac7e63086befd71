"""Reading of requests: headers and the body."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from rayllm_ctl.serving.gateway.errors import Rejected
from rayllm_ctl.serving.gateway.settings import Validation
from rayllm_ctl.serving.gateway.steps import Headers, Rejection

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_JSON = re.compile(r'application/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?', re.IGNORECASE)


class Disconnected(Exception):
    """The client went away before its request was complete."""


def only(headers: Headers, name: bytes) -> bytes | None:
    """The value of a header that is given once; None if there is none. Raises Rejected if there are several."""
    found = [value for key, value in headers if key == name]
    if len(found) > 1:
        raise Rejected(Rejection(400, f"The header {name.decode()} is given more than once", "invalid_header"))
    return found[0] if found else None


def check_headers(headers: Headers, settings: Validation) -> None:
    """What is wrong with a body before it is read: 415 for any encoding, 413 for one that is declared too large."""
    for name, value in headers:
        if name == b"content-encoding":
            raise Rejected(Rejection(415, "Content-Encoding is not supported", "unsupported_encoding"))
        if name == b"content-length" and (not value.isdigit() or int(value[:18]) > settings.max_body_bytes):
            raise _too_large(settings)


def is_json(headers: Headers) -> bool:
    """Whether the body is declared as JSON, or not declared at all."""
    declared = only(headers, b"content-type")
    return declared is None or _JSON.fullmatch(declared.decode("latin-1").strip()) is not None


async def read_body(receive: Receive, settings: Validation) -> bytes:
    """The whole body. Raises Rejected (408, 413) and Disconnected."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(settings.body_timeout):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Disconnected
                part = message.get("body", b"")
                size += len(part)
                if size > settings.max_body_bytes:
                    raise _too_large(settings)
                parts.append(part)
                if not message.get("more_body", False):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        message_text = f"The body did not arrive within {settings.body_timeout:g} seconds"
        headers = ((b"connection", b"close"),)
        raise Rejected(Rejection(408, message_text, "request_timeout", headers=headers)) from None


def _too_large(settings: Validation) -> Rejected:
    return Rejected(Rejection(413, f"The body has more than {settings.max_body_bytes} bytes", "body_too_large"))
