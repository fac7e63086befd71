"""Redirects, and where the token goes with them."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

import httpx2
import pytest

from rayllm_ctl.catalog.sources.http import Answer, FetchError, get


def follow(start: str, redirects: Mapping[str, str], seen: list[tuple[str, str | None]]) -> Answer:
    """The answer to `start`, where each address of `redirects` sends to the next; `seen` gets the tokens."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append((str(request.url), request.headers.get("Authorization")))
        target = redirects.get(str(request.url))
        if target is None:
            return httpx2.Response(200, content=iter([b"{}"]))
        return httpx2.Response(302, headers={"Location": target})

    session = httpx2.Client(transport=httpx2.MockTransport(handle))
    return get(session, start, {"Authorization": "Bearer t"}, 100, deadline=time.monotonic() + 60, timeout=60)


@pytest.mark.parametrize(
    ("target", "token"),
    [
        ("https://hub.example/other", "Bearer t"),
        ("/other", "Bearer t"),
        ("https://hub.example:8443/other", None),
        ("https://cdn.example/other", None),
        ("https://hub.example.org/other", None),
    ],
)
def test_the_token_stays_with_its_host(target: str, token: str | None) -> None:
    seen: list[tuple[str, str | None]] = []
    assert follow("https://hub.example/a", {"https://hub.example/a": target}, seen).body == b"{}"
    assert [sent for _, sent in seen] == ["Bearer t", token]


def test_the_token_does_not_come_back_with_a_redirect() -> None:
    redirects = {"https://hub.example/a": "https://cdn.example/b", "https://cdn.example/b": "https://hub.example/c"}
    seen: list[tuple[str, str | None]] = []
    follow("https://hub.example/a", redirects, seen)
    assert seen[1:] == [("https://cdn.example/b", None), ("https://hub.example/c", None)]


@pytest.mark.parametrize("target", ["http://hub.example/a", "http://cdn.example/a", "ftp://hub.example/a"])
def test_a_redirect_away_from_https_is_not_followed(target: str) -> None:
    seen: list[tuple[str, str | None]] = []
    with pytest.raises(FetchError, match=f"redirected from https to {target.partition(':')[0]}"):
        follow("https://hub.example/a", {"https://hub.example/a": target}, seen)
    assert len(seen) == 1


def test_a_redirect_to_https_is_followed() -> None:
    seen: list[tuple[str, str | None]] = []
    follow("http://hub.example/a", {"http://hub.example/a": "https://hub.example/a"}, seen)
    assert [url for url, _ in seen] == ["http://hub.example/a", "https://hub.example/a"]


def test_a_redirect_to_what_is_no_address_is_an_error() -> None:
    with pytest.raises(FetchError, match="redirected to an invalid address"):
        follow("https://hub.example/a", {"https://hub.example/a": "https://hub.example:port/"}, [])


def test_requests_are_logged_without_queries_and_passwords(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "rayllm_ctl.requests")
    seen: list[tuple[str, str | None]] = []
    follow("https://user:pw@hub.example/a", {"https://user:pw@hub.example/a": "https://cdn.example/b?sig=secret"}, seen)
    lines = [message.rpartition(" in ")[0] for message in caplog.messages]
    assert lines == ["GET https://hub.example/a 302", "GET https://cdn.example/b 200"]


def test_a_request_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "rayllm_ctl.requests")

    def handle(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no route", request=request)

    session = httpx2.Client(transport=httpx2.MockTransport(handle))
    with pytest.raises(FetchError, match="cannot be reached"):
        get(session, "https://hub.example:8443/a", {}, 100, deadline=time.monotonic() + 60, timeout=60)
    assert caplog.messages == ["GET https://hub.example:8443/a failed: ConnectError"]
