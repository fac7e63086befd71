"""Errors in the form of the OpenAI API. Nothing that a client sent is repeated in them, except names of known form."""

from __future__ import annotations

import json
import re

from rayllm_ctl.serving.gateway.steps import Rejection

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_PARAM = re.compile(r"[A-Za-z_][A-Za-z0-9_.\[\]-]{0,127}")


class Rejected(Exception):
    """A request is answered with an error."""

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(rejection.message)
        self.rejection = rejection


def invalid(message: str, param: str | None = None, code: str = "invalid_value") -> Rejected:
    """Status 400; `param` is the path of the field."""
    return Rejected(Rejection(400, message, code, param))


def error_value(rejection: Rejection) -> dict[str, object]:
    """The JSON value of an error."""
    kind = _TYPES.get(rejection.status) or ("server_error" if rejection.status >= 500 else "invalid_request_error")
    param = rejection.param if rejection.param and _PARAM.fullmatch(rejection.param) else None
    return {"error": {"message": rejection.message, "type": kind, "param": param, "code": rejection.code}}


def error_body(rejection: Rejection) -> bytes:
    """The body of a response."""
    return json.dumps(error_value(rejection), separators=(",", ":")).encode()


def server_error(status: int, request_id: str) -> Rejection:
    """What a client is told of an error of the server: nothing but the id under which the log has the cause."""
    return Rejection(status, f"The server failed to process the request (request id {request_id})", "server_error")
