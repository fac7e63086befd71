"""Ray's dashboard at a local port: requests go through the API server, with the kubeconfig's credentials.

Every client that reaches the port has access with these credentials, and the dashboard can start jobs. So it listens
only on loopback, and rejects requests from web pages of other origins, by the headers Host and Origin.
"""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from rayllm_ctl.cluster.forward.local_port import unusable_port
from rayllm_ctl.cluster.ray.dashboard import Dashboard
from rayllm_ctl.errors import UserError

_READ_TIMEOUT = 120.0
"""Seconds between two pieces of an answer: profiles take a minute to be recorded."""

_PASSED_ON = ("Content-Type", "Content-Disposition", "Cache-Control", "ETag", "Last-Modified", "Location")
"""Headers of an answer that browsers use."""

_PIECE = 65536


class Forwarder(ThreadingHTTPServer):
    """Forwards requests to 127.0.0.1 to a dashboard. `port` 0: any that is free. UsageError if it is in use."""

    daemon_threads = True

    def __init__(self, dashboard: Dashboard, port: int) -> None:
        self.dashboard = dashboard
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise unusable_port(port, error) from error

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Forwarder

    def _forward(self) -> None:
        parts = urlsplit(self.path)
        own = {f"{name}:{self.server.server_port}" for name in ("127.0.0.1", "localhost")}
        if self.headers.get("Host") not in own or not self._from_itself(own):
            self.send_error(403, "requests of other origins are not forwarded")
            return
        # The API server adds the path of its proxy to links of HTML pages.
        path = unquote(parts.path).removeprefix(self.server.dashboard.root)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        try:
            with self.server.dashboard.open(
                self.command, path or "/", query=parse_qsl(parts.query, keep_blank_values=True), body=body,
                content_type=self.headers.get("Content-Type") or "application/json",
                accept=self.headers.get("Accept") or "*/*", read_timeout=_READ_TIMEOUT,
            ) as response:  # fmt: skip
                self.send_response(response.status)
                for name in _PASSED_ON:
                    if name in response.headers:
                        self.send_header(name, response.headers[name])
                self.send_header("Connection", "close")
                self.end_headers()
                for piece in response.stream(_PIECE, decode_content=True):
                    self.wfile.write(piece)
        except UserError as error:
            self.send_error(502, "the dashboard cannot be reached", error.message)
        except (BrokenPipeError, ConnectionResetError):
            return  # the browser closed the connection

    def _from_itself(self, own: set[str]) -> bool:
        origin = self.headers.get("Origin")
        return origin is None or origin.removeprefix("http://") in own

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _forward

    def log_message(self, *_: Any) -> None:
        """Do not log requests."""
