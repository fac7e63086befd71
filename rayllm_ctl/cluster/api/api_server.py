"""Requests to one API server, as one user.

The official client reads the configuration and makes the connections (transport.py). Its typed models are not used, as
importing them takes half a second; nor is its dynamic client, which starts with discovery requests and watches without
a time limit.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from rayllm_ctl import __version__
from rayllm_ctl.cluster.api.credentials import ended
from rayllm_ctl.cluster.api.errors import UnauthorizedError, UnreachableError, api_error, unreachable
from rayllm_ctl.cluster.api.go_json import go_json
from rayllm_ctl.errors import ClusterError, UserError
from rayllm_ctl.model.text.problems import quoted

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

    from rayllm_ctl.cluster.api.transport import Transport

Query = Sequence[tuple[str, str]]
Headers = Sequence[tuple[str, str]]
"""Query parameters in order."""

CONNECT_TIMEOUT = 10.0
"""Seconds to establish a connection, including TLS: enough for any distance."""

_BUSY_TRIES = 3
"""How often a request is sent that the API server's flow control rejects (429 with Retry-After)."""

_BUSY_WAIT = 5.0
"""Maximum seconds between two such tries."""

requests = logging.getLogger("rayllm_ctl.requests")
"""A line for each request, for --verbose."""


class ApiServer:
    """Sends requests. Thread-safe. `namespace` is the context's default. Raises as Cluster does."""

    def __init__(
        self,
        transport: Transport,
        *,
        context: str,
        user: str,
        namespace: str,
        request_timeout: float,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._transport = transport
        self._headers = tuple(headers)
        self.context = context
        self.user = user
        self.namespace = namespace
        self.request_timeout = request_timeout
        self.server = transport.server

    def headers(self) -> Headers:
        """The headers of every request: the user's credentials, and whom the user acts as."""
        authorization = self._transport.authorization()
        return (*self._headers, *((("Authorization", authorization),) if authorization else ()))

    def connection(self) -> Any:
        """A connection of its own to the API server; see Transport.connection."""
        return self._transport.connection()

    def request_json(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        query: Query = (),
        body: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        secret: bool = False,
        headers: Headers = (),
        accept: str = "application/json",
    ) -> dict[str, Any]:
        """Any request whose answer is a JSON object. doing: what is attempted, for messages. timeout: seconds.

        headers: for a server behind the API server's proxy.
        """
        data = None if body is None else go_json(body).encode()
        _, answer = self._exchange(
            method, path, query=query, body=data, doing=doing, timeout=timeout, secret=secret, headers=headers,
            accept=accept,
        )  # fmt: skip
        return self._decoded(answer, doing)

    def request_text(
        self, path: str, *, doing: str, query: Query = (), timeout: float | None = None, headers: Headers = ()
    ) -> str:
        """GET of a text that is not JSON, such as a log."""
        _, answer = self._exchange(
            "GET", path, query=query, doing=doing, timeout=timeout, accept="*/*", headers=headers
        )
        return answer.decode("utf-8", "replace")

    @contextmanager
    def open(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        read_timeout: float | None = None,
        gzip: bool = False,
        headers: Headers = (),
    ) -> Iterator[BaseHTTPResponse]:
        """A response of any status, whose body the caller reads. read_timeout: seconds between two pieces of it.

        gzip: let the server compress, as it does with lists above 128 KiB; not for streams.

        UnreachableError also when the connection breaks while the body is read inside the `with` block.
        """
        import urllib3

        sent = urllib3.HTTPHeaderDict((*self.headers(), *headers))
        sent.update({"Accept": accept, "User-Agent": f"rayllm-ctl/{__version__}"})
        if gzip:
            sent["Accept-Encoding"] = "gzip"
        if body is not None:
            sent["Content-Type"] = content_type
        url = self.server + path + (f"?{urlencode(query)}" if query else "")
        start = time.monotonic()
        try:
            response = self._transport.pool.request(
                method, url, body=body, headers=sent, preload_content=False, retries=False, redirect=False,
                timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT, read=read_timeout),
            )  # fmt: skip
        except (urllib3.exceptions.HTTPError, OSError) as error:
            requests.debug("%s %s failed: %s", method, url, type(error).__name__)
            raise unreachable(error, self.server, self.context) from error
        requests.debug("%s %s %d in %.0f ms", method, url, response.status, 1000 * (time.monotonic() - start))
        try:
            yield response
        except urllib3.exceptions.HTTPError as error:
            raise unreachable(error, self.server, self.context) from error
        finally:
            # A body that was read to its end has returned its connection; any other connection cannot be reused.
            response.close()

    def failure(self, status: int, body: bytes, doing: str, *, secret: bool = False) -> UserError:
        """The error for a failed response of the API server, with details on the credentials."""
        error = api_error(status, body, doing=doing, secret=secret)
        if not isinstance(error, UnauthorizedError):
            return error
        why = ended(self._transport.certificate, self._transport.authorization())
        who = f"user {quoted(self.user)}" + (f" (context {quoted(self.context)})" if self.context else "")
        return UnauthorizedError(
            f"the API server {self.server} rejected the credentials of {who}" + (f": {why}" if why else ""),
            status=401, reason=error.reason,
            hint=("log in again, or renew the kubeconfig", f"kubectl --context {self.context} auth whoami")
            if self.context
            else "the service account's token is no longer valid: restart the pod",
        )  # fmt: skip

    def _exchange(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = None,
        secret: bool = False,
        headers: Headers = (),
    ) -> tuple[int, bytes]:
        limit = timeout if timeout is not None else self.request_timeout or None
        tries = 0
        while True:
            tries += 1
            try:
                with self.open(
                    method, path, query=query, body=body, content_type=content_type, accept=accept, read_timeout=limit,
                    gzip=True, headers=headers,
                ) as response:  # fmt: skip
                    answer, status = response.read(), response.status
                    wait = response.headers.get("Retry-After", "")
            except UnreachableError as error:
                # The server may close an idle connection just as it is reused; reading twice does no harm.
                if method == "GET" and tries == 1 and _stale(error):
                    continue
                raise
            if 200 <= status < 300:
                return status, answer
            if status != 429 or not wait.isdigit() or tries == _BUSY_TRIES:
                raise self.failure(status, answer, doing, secret=secret)
            time.sleep(min(float(wait), _BUSY_WAIT))

    def _decoded(self, answer: bytes, doing: str) -> dict[str, Any]:
        try:
            decoded = json.loads(answer)
        except ValueError:
            decoded = None
        if not isinstance(decoded, dict):
            raise ClusterError(
                f"the API server {self.server} did not answer with JSON ({doing})",
                hint=f"is this the address of an API server? kubectl config view --minify --context {self.context}",
            )
        return decoded


def lines(response: BaseHTTPResponse) -> Iterator[bytes]:
    """The lines of a body as they arrive, without empty ones; an incomplete last line is dropped."""
    buffer = b""
    while piece := response.read1(65536):
        *whole, buffer = (buffer + piece).split(b"\n")
        yield from (line for line in whole if line.strip())


def _stale(error: UnreachableError) -> bool:
    from urllib3.exceptions import ProtocolError

    return isinstance(error.__cause__, (ProtocolError, ConnectionError))
