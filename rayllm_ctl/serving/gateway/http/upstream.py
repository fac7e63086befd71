"""Errors of the application: what of them may reach a client."""

from __future__ import annotations

import json
import re
from typing import Any

from rayllm_ctl.serving.gateway.errors import server_error
from rayllm_ctl.serving.gateway.steps import Rejection

_SUSPICIOUS = re.compile(
    r"Traceback|File \"|line \d+, in |(?:^|[\s\"'(\[=:,`])/[\w.~-]+/|[A-Za-z]:\\|\.py\b|site-packages|\bray::"
    r"|0x[0-9a-f]{6}"
)
"""What tracebacks, file paths, and representations of Python objects look like."""

# OpenAiIngress puts three messages into one (ray/llm/_internal/serve/utils/server_utils.py 2.60).
_RAY = re.compile(r"Message: (.*?)(?: \(Request ID: [^)]*\))?, Internal exception: .*", re.DOTALL)

UNAVAILABLE = {
    "model_not_ready": "The model is not ready",
    "queue_full": "Too many requests are waiting",
    "replica_lost": "The replica that processed the request was lost",
    "out_of_memory": "The model ran out of memory for the request",
}
"""Why the ingress cannot have a request processed now, by code."""

_PLAIN = {
    404: ("The path does not exist", "not_found"),
    405: ("The method is not allowed for this path", "method_not_allowed"),
}


def client_error(status: int, body: bytes, request_id: str) -> Rejection:
    """A 4xx answer of the application in the form of OpenAI's errors, with its message if that is harmless."""
    plain = f"The request was rejected by the model server (request id {request_id})"
    message, code = _PLAIN.get(status, (plain, "invalid_request"))
    try:
        value = json.loads(body)
    except ValueError:
        return Rejection(status, message, code)
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return Rejection(status, message, code)
    given, param = harmless(error.get("message")), error.get("param")
    named = isinstance(error.get("code"), str) and error["code"].isidentifier()
    return Rejection(
        status,
        given or plain,
        error["code"] if named else code,
        # Ray reports the rejected value where the name of its field belongs.
        param if isinstance(param, str) and error.get("code") != "invalid_parameter" else None,
    )


def unavailable(body: bytes) -> Rejection | None:
    """A 503 of the ingress that says why; None if it is of somebody else."""
    try:
        return _unavailable(json.loads(body))
    except ValueError:
        return None


def _unavailable(value: Any) -> Rejection | None:
    try:
        error = value["error"]
        message = UNAVAILABLE.get(error["code"])
    except (TypeError, LookupError):
        return None
    return Rejection(503, message, error["code"], error.get("param")) if message else None


def harmless(message: object) -> str | None:
    """The message of an error if it tells nothing about the server."""
    if not isinstance(message, str):
        return None
    if match := _RAY.fullmatch(message):
        message = match[1]
    message = message.strip()
    return message if message and len(message) <= 2000 and not _SUSPICIOUS.search(message) else None


def stream_error(value: Any, request_id: str) -> Rejection:
    """The error of an event: one of the ingress, of the client if it says so and is harmless, or of the server."""
    if known := _unavailable(value):
        return known
    error = value.get("error", value) if isinstance(value, dict) else None
    if isinstance(error, dict) and error.get("type") == "invalid_request_error" and isinstance(error.get("code"), str):
        # Of the ingress itself, which writes the form of OpenAI's errors.
        return client_error(400, json.dumps(value).encode(), request_id)
    status = error.get("code") if isinstance(error, dict) else None
    if isinstance(error, dict) and isinstance(status, int) and 400 <= status < 500:
        message = harmless(error.get("message"))
        if message:
            return Rejection(status, message, "invalid_request")
    return server_error(500, request_id)
