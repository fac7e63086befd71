"""HTTP to a Service through the API server's service proxy: nothing but the API server has to be reachable."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from rayllm_ctl.cluster.api.api_server import lines
from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import (
    ForbiddenError,
    NotFoundError,
    UnauthorizedError,
    UnreachableError,
    api_error,
    read_status,
    shortened,
)
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube.api_kinds import kind
from rayllm_ctl.model.kube.kuberay import served_by


class ServiceError(UserError):
    """A service answered with a failure of its own. status: its HTTP code."""

    status = 0


STREAM_TIMEOUT = 600.0
"""Seconds to the first and between two pieces of a streamed answer: Ray Serve LLM's own limit of a request. A service
that was scaled to zero answers only after its start-up."""

_CLOSE = (("Connection", "close"),)
"""Prevents the API server from closing a request's body as soon as it answers. Go's server does that on persistent
connections (net/http 1.26, server.go, writeHeader), and if its proxy has forwarded the body but not yet read its end,
the response breaks off: with 16 clients on 2 cores and immediate answers, 23 of 6,000 without this header, and none of
6,000 with it."""

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def proxy_path(namespace: str, service: str, port: int | str, path: str) -> str:
    """The path of `path` at a Service's port (number or name) on the API server."""
    return f"{kind('Service').path(namespace, f'{service}:{port}')}/proxy{quote(path)}"


def request_json(
    cluster: Cluster, namespace: str, service: str, port: int | str, path: str, *, timeout: float | None = None
) -> dict[str, Any]:
    """GET `path` of a Service and return its JSON. timeout: seconds, the cluster's request time-out by default.

    Raises UserError: the Service does not exist or has no endpoints yet, or its error response.
    """
    limit = timeout if timeout is not None else cluster.request_timeout or None
    try:
        with cluster.open("GET", proxy_path(namespace, service, port, path), read_timeout=limit) as response:
            body = response.read()
            if response.status != 200:
                raise _error_for(cluster, response.status, body, namespace, service)
    except UnreachableError as error:
        if error.silent:
            raise _silent(namespace, service) from error
        raise
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise UserError(
            f"service {namespace}/{service} answered {path} with {_meaning(body.decode('utf-8', 'replace'))}",
            hint=_look(namespace, service),
        )
    return answer


@contextmanager
def open_stream(
    cluster: Cluster, namespace: str, service: str, port: int | str, path: str, json_body: Mapping[str, Any]
) -> Iterator[Iterator[str]]:
    """POST `json_body` to `path` of a Service and iterate over the lines of the answer as they arrive.

    Raises UserError as `request_json` does, and when the connection breaks in the middle.
    """
    data = json.dumps(json_body).encode()
    begun = False
    try:
        with cluster.open(
            "POST", proxy_path(namespace, service, port, path), body=data, accept="text/event-stream, application/json",
            read_timeout=STREAM_TIMEOUT, headers=_CLOSE,
        ) as response:  # fmt: skip
            if response.status != 200:
                raise _error_for(cluster, response.status, response.read(), namespace, service)
            begun = True
            yield (line.decode("utf-8", "replace") for line in lines(response))
    except UnreachableError as error:
        if not begun and error.silent:
            raise _silent(namespace, service) from error
        if not begun:
            raise
        raise UserError(
            f"the answer of service {namespace}/{service} ended prematurely", hint=_look(namespace, service)
        ) from error


def _silent(namespace: str, service: str) -> UserError:
    return UserError(f"service {namespace}/{service} did not answer in time", hint=_look(namespace, service))


def _error_for(cluster: Cluster, status: int, body: bytes, namespace: str, service: str) -> UserError:
    doing = f"reach service {namespace}/{service}"
    if status in (401, 403) and read_status(body):
        error = cluster.failure(status, body, doing)
        if isinstance(error, (ForbiddenError, UnauthorizedError)):
            return error
    text = body.decode("utf-8", "replace")
    message = str(read_status(body).get("message") or text)
    if status == 404 and read_status(body):
        return NotFoundError(
            f"there is no service {namespace}/{service} yet: KubeRay creates it when the application runs",
            status=404, hint=_look(namespace, service),
        )  # fmt: skip
    if status in (502, 503) and (read_status(body) or "trying to reach service" in text):
        return UserError(
            f"service {namespace}/{service} is not ready: {cleaned(message)}", hint=_look(namespace, service)
        )
    if read_status(body):
        return api_error(status, body, doing=doing)
    return service_error(status, text, namespace, service)


def service_error(status: int, text: str, namespace: str, service: str) -> ServiceError:
    """The error for an error response of a service itself."""
    error = ServiceError(
        f"service {namespace}/{service} answered {status}: {_meaning(text)}", hint=_look(namespace, service)
    )
    error.status = status
    return error


def _look(namespace: str, service: str) -> str:
    return f"rayllm-ctl status {served_by(service)} -n {namespace}"


def _meaning(text: str) -> str:
    """The message of an error body in OpenAI's or FastAPI's format, else the text."""
    try:
        answer = json.loads(text)
    except ValueError:
        return cleaned(text) or "nothing"
    for key in ("error", "detail", "message"):
        if isinstance(answer, dict) and key in answer:
            answer = answer[key]
    message = answer if isinstance(answer, str) else json.dumps(answer)
    # Ray Serve LLM wraps the error: "Message: …, Internal exception: <class and the message again>".
    return cleaned(message.removeprefix("Message: ").partition(", Internal exception: ")[0])


def cleaned(text: str) -> str:
    """A service's text for a user: without colour codes, only the exception of a traceback, at most 500 characters."""
    text = _ANSI.sub("", text).strip()
    before, marker, trace = text.partition("Traceback (most recent call last)")
    if marker:
        exceptions = [line for line in trace.splitlines() if line.strip() and not line.startswith((" ", "\t"))]
        text = f"{before.strip()} {exceptions[-1] if exceptions else ''}".strip()
    if text.lower().startswith(("<!doctype", "<html")):
        return "an HTML page"
    return shortened(text, 500)
