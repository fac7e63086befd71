"""The fake API server without connections: what takes the place of urllib3's pool calls it in the client's thread.

A request costs a tenth of one over loopback. What is about connections (TLS, time limits, ports that are forwarded,
answers in pieces) is tested with `fakehttp.serving`.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import queue
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import pytest
import urllib3

from rayllm_ctl.cluster.api import transport
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakehttp import request

URL = "http://127.0.0.1:1"
"""Where nothing listens: a request that is not answered in this process fails."""


class _Pool:
    """As much of a urllib3.PoolManager as a Cluster uses."""

    def __init__(self, api: FakeAPI) -> None:
        self._api = api

    def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: urllib3.Timeout,
        **_options: bool,
    ) -> urllib3.HTTPResponse:
        answer = self._api.respond(request(method, url.removeprefix(URL), dict(headers), body or b""))
        if isinstance(answer, queue.Queue):
            events = _Events(self._api, answer, timeout.read_timeout)
            return urllib3.HTTPResponse(
                events, status=200, preload_content=False, connection=cast(Any, events), sock_shutdown=events.shutdown
            )
        code, content = answer
        if code == 0:
            left = http.client.RemoteDisconnected("Remote end closed connection without response")
            raise urllib3.exceptions.ProtocolError("Connection aborted.", left)
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        sent = content.get("headers", {}) if isinstance(content, dict) else {}
        return urllib3.HTTPResponse(io.BytesIO(data), headers=sent, status=code, preload_content=False)


class _Events(io.BufferedIOBase):
    """The body of a watch, and the connection that it comes over."""

    def __init__(self, api: FakeAPI, events: queue.Queue[Any], patience: float | None) -> None:
        self._api, self._events, self._patience = api, events, patience

    def read1(self, size: int = -1) -> bytes:
        try:
            event = self._events.get(timeout=self._patience)
        except queue.Empty:
            raise TimeoutError from None
        if event is None:
            raise ConnectionResetError
        return event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"

    def shutdown(self, _how: int) -> None:
        self._events.put(None)

    def close(self) -> None:
        self._api.unwatch(self._events)
        super().close()


@contextmanager
def answering(patch: pytest.MonkeyPatch) -> Iterator[FakeAPI]:
    """A FakeAPI at `URL` for the clients in this process."""
    api, made = FakeAPI(url=URL), transport._pool
    patch.setattr(
        transport, "_pool", lambda configuration: _Pool(api) if configuration.host == URL else made(configuration)
    )
    with contextlib.closing(api):
        yield api
