from __future__ import annotations

import json
import ssl

import pytest
from urllib3 import exceptions as http

from rayllm_ctl.cluster.api.errors import (
    ApiError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    ServerFailingError,
    api_error,
    unreachable,
)
from rayllm_ctl.errors import ClusterError
from tests.cluster.fakeapi import status

CANNOT = (
    'rayservices.ray.io is forbidden: User "alice" cannot list resource "rayservices" in API group "ray.io" '
    'in the namespace "llm"'
)


def error(code: int, message: str, reason: str = "", **details: object) -> ApiError:
    return api_error(code, json.dumps(status(code, message, reason, **details)[1]).encode(), doing="list pods")


def test_a_missing_right_names_verb_resource_namespace_and_how_to_check() -> None:
    found = error(403, CANNOT, "Forbidden")
    assert isinstance(found, ForbiddenError)
    assert found.exit_code == 5
    assert found.message == 'user "alice" is not permitted to list rayservices.ray.io in namespace llm'
    assert found.hints[0] == "kubectl auth can-i list rayservices.ray.io -n llm"


def test_a_missing_right_on_a_subresource() -> None:
    text = (
        'services "x" is forbidden: User "a" cannot get resource "services/proxy" in API group "" in the namespace "n"'
    )
    found = error(403, text)
    assert found.message == 'user "a" is not permitted to get services/proxy in namespace n'
    assert found.hints[0] == "kubectl auth can-i get services --subresource=proxy -n n"


def test_a_missing_right_in_the_whole_cluster() -> None:
    found = error(403, 'nodes is forbidden: User "a" cannot list resource "nodes" in API group "" at the cluster scope')
    assert found.message == 'user "a" is not permitted to list nodes at the cluster scope'
    assert found.hints[0] == "kubectl auth can-i list nodes -A"


def test_admission_is_no_missing_right() -> None:
    found = error(403, 'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1')
    assert not isinstance(found, ClusterError)
    assert found.exit_code == 1
    assert "exceeded quota" in found.message


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (404, "NotFound", NotFoundError),
        (410, "Gone", GoneError),
        (410, "Expired", GoneError),
        (429, "TooManyRequests", ServerFailingError),
        (500, "InternalError", ServerFailingError),
        (503, "ServiceUnavailable", ServerFailingError),
        (504, "Timeout", ServerFailingError),
        (409, "Conflict", ApiError),
        (422, "Invalid", ApiError),
    ],
)
def test_kind_of_error_by_status(code: int, reason: str, kind: type[ApiError]) -> None:
    found = error(code, "said the server", reason)
    assert type(found) is kind
    assert found.status == code
    assert "said the server" in found.message


def test_bodies_that_are_no_status() -> None:
    assert "404 page not found" in api_error(404, b"404 page not found\n", doing="x").message
    assert "an HTML page" in api_error(502, b"<html><body>Bad gateway", doing="x").message
    assert "no reason given" in api_error(500, b"", doing="x").message


def test_endless_messages_are_cut() -> None:
    assert len(error(400, "x" * 100_000).message) < 2000


@pytest.mark.parametrize(
    "message",
    [
        "failed to create typed patch object (/s; v1, Kind=Secret): .data.token: expected string, got hunter2",
        "failed to convert new object (/s; /v1, Kind=Secret) to proper version: illegal base64 data hunter2",
        "boom hunter2",
    ],
)
def test_of_a_secret_the_servers_words_are_withheld(message: str) -> None:
    body = json.dumps(status(500, message)[1]).encode()
    found = api_error(500, body, doing="apply Secret llm/s", secret=True)
    assert "hunter2" not in found.message + "".join(found.hints)
    assert "apply Secret llm/s" in found.message


def test_the_right_to_a_secret_that_lacks_is_named() -> None:
    said = 'secrets "s" is forbidden: User "bob" cannot get resource "secrets" in API group "" in the namespace "llm"'
    found = api_error(403, json.dumps(status(403, said)[1]).encode(), doing="get Secret llm/s", secret=True)
    assert isinstance(found, ForbiddenError)
    assert found.right == "get secrets"
    denied = json.dumps(status(403, 'admission webhook "w" denied the request: hunter2')[1]).encode()
    assert "hunter2" not in api_error(403, denied, doing="apply Secret llm/s", secret=True).message


def test_a_malformed_manifest_is_not_taken_for_a_failing_server() -> None:
    found = error(
        500, "failed to create typed patch object (/t; ray.io/v1, Kind=RayService): .spec.a: expected boolean"
    )
    assert (type(found), found.status) == (ApiError, 400)
    assert found.message == "list pods: spec.a: expected boolean"


def connection_error(text: str) -> http.NewConnectionError:
    return http.NewConnectionError(None, f"Failed to establish a new connection: {text}")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        (connection_error("[Errno 111] Connection refused"), "connection refused"),
        (http.NameResolutionError("k8s.example", None, OSError()), "its name does not resolve"),  # type: ignore[arg-type]
        (http.ConnectTimeoutError(), "no connection within the time limit"),
        (http.ReadTimeoutError(None, None, ""), "no answer within the time limit"),  # type: ignore[arg-type]
        (http.ProtocolError("Connection aborted.", ConnectionResetError()), "the connection broke"),
        (http.ProxyError("no", OSError()), "HTTP proxy"),
        (http.SSLError(ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")), "does not use TLS"),
        (http.SSLError(ssl.SSLError(9, "[SSL] PEM lib (_ssl.c:3900)")), "client certificate or key"),
        (http.SSLError(ssl.SSLError(1, "[SSL: TLSV13_ALERT] something")), "TLS failed"),
        (http.LocationParseError("x"), "is not the address of an API server"),
    ],
)
def test_why_a_server_cannot_be_reached(cause: Exception, why: str) -> None:
    found = unreachable(cause, "https://k8s.example", "prod")
    assert why in found.message
    assert "k8s.example" in found.message
    assert found.exit_code == 5
    assert found.hints


def test_an_untrusted_certificate_says_what_to_compare() -> None:
    cause = ssl.SSLCertVerificationError(1, "certificate verify failed")
    cause.verify_message = "Hostname mismatch, certificate is not valid for 'k8s.example'."
    found = unreachable(http.SSLError(cause), "https://k8s.example", "prod")
    assert "Hostname mismatch" in found.message
    assert "kubectl config view --minify --context prod" in found.hints[0]
