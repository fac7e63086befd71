"""Failures of the API server or of the connection to it, as errors that a user can act on.

Messages come from a Status' message and its causes, never from headers or request bodies: tokens and the data of
Secrets have no way into them.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping
from typing import Any

from rayllm_ctl.errors import ClusterError, UserError
from rayllm_ctl.model.text.problems import quoted

MESSAGE_LIMIT = 1500
"""Maximum characters of a server's message: admission webhooks may return long texts."""

_RIGHTS = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?:.* in the namespace "(?P<namespace>[^"]+)")?'
)
_MALFORMED = re.compile(r"failed to (?:create typed patch object|convert new object) \([^)]*\)[^:]*: ", re.DOTALL)
"""How errors of a server-side apply about a manifest begin. Kubernetes 1.36 sends these with code 500."""

_CONFLICT = "FieldManagerConflict"

_USER = re.compile(r'User "([^"]+)"')

INSTALL_KUBERAY = (
    "helm install kuberay-operator kuberay-operator --repo https://ray-project.github.io/kuberay-helm/ "
    "-n kuberay-system --create-namespace"
)
"""The command that installs KubeRay, from its documentation."""


class ApiError(UserError):
    """The API server answered with a failure.

    status: HTTP code; reason: reason of the Status; causes: its details; server_message: its unchanged message; about:
    the plural of the kind that it is about, empty if the path itself is unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str = "",
        causes: tuple[Mapping[str, Any], ...] = (),
        about: str = "",
        server_message: str = "",
        hint: str | tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.reason = reason
        self.causes = causes
        self.about = about
        self.server_message = server_message


class NotFoundError(ApiError):
    """404: no such object, namespace or kind."""


class GoneError(ApiError):
    """410: the resourceVersion is too old to watch or page from."""


class ForbiddenError(ApiError, ClusterError):
    """403 of the authorizer: the user lacks the right. right: verb and resource, as in "list nodes"."""

    right = ""


class UnauthorizedError(ApiError, ClusterError):
    """401: the credentials are rejected."""


class ServerFailingError(ApiError, ClusterError):
    """429 and 5xx: the API server is overloaded, starting or broken; a retry may help."""


class UnreachableError(ClusterError):
    """No answer from the API server: refused, no such host, time-out, TLS.

    silent: the request was sent and there was no response in time, perhaps because of a proxied service.
    """

    silent = False


def api_error(status: int, body: bytes, *, doing: str, secret: bool = False) -> ApiError:
    """The error for an HTTP failure.

    doing: what was attempted, for the message ("get RayService llm/qwen"). secret: the request was about a Secret, so
    the server's message, which may quote values, is not shown.
    """
    answer = read_status(body)
    text = "the server's message is not shown, as it may quote the Secret" if secret else _text(answer, body)
    reason = str(answer.get("reason") or "")
    raw_details = answer.get("details")
    details: Mapping[str, Any] = raw_details if isinstance(raw_details, Mapping) else {}
    raw_causes = details.get("causes")
    causes = tuple(c for c in raw_causes if isinstance(c, Mapping)) if isinstance(raw_causes, list) else ()
    if secret:
        causes = tuple(c if c.get("reason") == _CONFLICT else {"field": c.get("field")} for c in causes)
    about = str(details.get("kind") or "")
    if status == 401:
        return UnauthorizedError(f"the API server rejected the credentials ({doing})", status=401, reason=reason)
    if status == 403:
        return _forbidden(_text(answer, body), text, reason, causes, doing)
    if status == 404:
        return NotFoundError(f"{doing}: {text}", status=404, reason=reason, about=about, server_message=text)
    if status == 410 or reason == "Expired":
        return GoneError(f"{doing}: {text}", status=410, reason=reason)
    malformed = _MALFORMED.match(str(answer.get("message")))
    if malformed:
        problem = text if secret else text[malformed.end() :].removeprefix(".")
        return ApiError(f"{doing}: {problem}", status=400, reason="BadRequest")
    if status == 429 or status >= 500:
        return ServerFailingError(
            f"the API server cannot {doing} now: {text}", status=status, reason=reason, causes=causes,
            server_message=text,
            hint="try again in a moment; kubectl get --raw '/readyz?verbose' shows what is not ready",
        )  # fmt: skip
    return ApiError(f"{doing}: {text}", status=status, reason=reason, causes=causes, server_message=text)


def _forbidden(said: str, shown: str, reason: str, causes: tuple[Mapping[str, Any], ...], doing: str) -> ApiError:
    """The error of a 403. said: the server's message, which for the authorizer contains a right and no values. shown:
    the message, or a placeholder if it may quote a Secret."""
    rights = _RIGHTS.search(said)
    if not rights:
        # Admission (quota, Pod Security, a webhook, a terminating namespace) also returns 403: no right would help.
        return ApiError(f"{doing} was rejected: {shown}", status=403, reason=reason, causes=causes)
    verb, namespace = rights["verb"], rights["namespace"]
    plural, _, subresource = rights["resource"].partition("/")
    scope = f"in namespace {namespace}" if namespace else "at the cluster scope"
    resource = f"{plural}.{rights['group']}" if rights["group"] else plural
    check = ["kubectl auth can-i", verb, resource]
    if subresource:
        check.append(f"--subresource={subresource}")
    check.append(f"-n {namespace}" if namespace else "-A")
    user = _USER.search(said)
    who = f"user {quoted(user[1])}" if user else "this user"
    target = f"{resource}/{subresource}" if subresource else resource
    error = ForbiddenError(
        f"{who} is not permitted to {verb} {target} {scope}", status=403, reason=reason, causes=causes,
        hint=(" ".join(check), "ask an administrator of the cluster for a Role with this right"),
    )  # fmt: skip
    error.right = f"{verb} {target}"
    return error


def short_reason(error: UserError) -> str:
    """Why something is missing, for a note."""
    return f"not permitted to {error.right}" if isinstance(error, ForbiddenError) else error.message


def read_status(body: bytes) -> Mapping[str, Any]:
    """The Status object in a response body; empty if there is none."""
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, Mapping) and answer.get("kind") == "Status" else {}


def _text(answer: Mapping[str, Any], body: bytes) -> str:
    text = str(answer.get("message") or "") or body[:MESSAGE_LIMIT].decode("utf-8", "replace").strip()
    if text.startswith("<"):
        text = "an HTML page (a proxy or another server answers in its place)"
    return shortened(text) or "no reason given"


def shortened(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """`text` in at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def unreachable(error: Exception, server: str, context: str) -> UnreachableError:
    """The error for a connection that failed or broke. `error`: the exception of urllib3 or the socket."""
    from urllib3 import exceptions as http

    look = f"kubectl {f'--context {context} ' if context else ''}cluster-info"
    connectivity_hint = "is the cluster running, and the VPN connected?"
    hint: tuple[str, ...]
    if isinstance(error, http.SSLError):
        return _tls(error, server, context)
    if isinstance(error, http.ProxyError):
        reason, hint = "the HTTP proxy rejected the request", ("check HTTPS_PROXY, NO_PROXY and proxy-url",)
    elif isinstance(error, http.NameResolutionError):
        reason, hint = "its name does not resolve", (connectivity_hint, look)
    elif isinstance(error, http.NewConnectionError):
        cause = str(error).rpartition(": ")[2].removeprefix("[Errno ").partition("] ")
        reason, hint = f"{(cause[2] or cause[0]).lower()}", (connectivity_hint, look)
    elif isinstance(error, http.ConnectTimeoutError):
        reason, hint = "no connection within the time limit", (connectivity_hint, look)
    elif isinstance(error, http.ReadTimeoutError):
        reason, hint = "no answer within the time limit", (look, "a slow cluster may need a larger --request-timeout")
    elif isinstance(error, http.LocationValueError):
        return UnreachableError(
            f"{quoted(server)} is not the address of an API server", hint="kubectl config view --minify"
        )
    else:
        reason, hint = (
            f"the connection broke ({shortened(str(error.args[0] if error.args else error), 200)})",
            (connectivity_hint, look),
        )
    failure = UnreachableError(f"the API server {server} cannot be reached: {reason}", hint=hint)
    failure.silent = isinstance(error, http.ReadTimeoutError)
    return failure


def _tls(error: Exception, server: str, context: str) -> UnreachableError:
    view = f"kubectl config view --minify{f' --context {context}' if context else ''}"
    cause = next((arg for arg in error.args if isinstance(arg, ssl.SSLError)), error)
    text = str(getattr(cause, "verify_message", "") or cause)
    hint: tuple[str, ...]
    if isinstance(cause, ssl.SSLCertVerificationError):
        why = f"its certificate is not trusted: {text}"
        hint = (f"compare server, certificate-authority-data and tls-server-name: {view}",)
    elif "WRONG_VERSION_NUMBER" in text or "HTTP_REQUEST" in text:
        why, hint = "the server does not use TLS at this address", (f"is the server's address http, not https? {view}",)
    elif "PEM" in text or "KEY_VALUES_MISMATCH" in text or "NO_START_LINE" in text:
        why, hint = "the client certificate or key of the kubeconfig cannot be read", (view,)
    else:
        why, hint = f"TLS failed: {shortened(text, 200)}", (view,)
    return UnreachableError(f"the API server {server} cannot be reached: {why}", hint=hint)
