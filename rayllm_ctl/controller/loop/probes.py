"""/healthz, /readyz and /metrics over HTTP, for the kubelet and Prometheus."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from rayllm_ctl.controller.loop.log import LOG, error_text
from rayllm_ctl.controller.loop.metrics import CONTENT_TYPE
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass

Address = tuple[str, int]
"""Host, empty for all addresses of this machine, and port; 0 is any free one."""

SLOW_CLIENT_SECONDS = 10.0
"""How long a client may take to send its request."""

CLOSE_SECONDS = 0.5
"""How long closing takes at most: how often the server looks whether it is to end."""


@dataclass(frozen=True)
class ProbeAnswers:
    """What is served. unhealthy and unready: why, None if nothing is wrong; metrics: the page for Prometheus."""

    unhealthy: Callable[[], str | None]
    unready: Callable[[], str | None]
    metrics: Callable[[], str]


class Probes:
    """An HTTP server in threads of its own. Use as a context manager: leaving it closes the port."""

    def __init__(self, address: Address, answers: ProbeAnswers) -> None:
        """Listen on `address`. UserError if that is not possible."""
        handler = type("Handler", (_Handler,), {"answers": answers})
        host, port = address
        try:
            self._server = _Server(host, port, handler)
        except OSError as error:
            shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise UserError(
                f"cannot listen on {shown}: {error.strerror or error}", hint="--listen ADDRESS:PORT"
            ) from error
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Probes:
        threading.Thread(target=self._server.serve_forever, args=(CLOSE_SECONDS,), name="probes", daemon=True).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, handler: type[_Handler]) -> None:
        # Without a host both families, as in Go: the kubelet of an IPv6 cluster knows no IPv4 address of the pod.
        self._both = not host and socket.has_dualstack_ipv6()
        if self._both or ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        if self._both:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Not HTTPServer's, which looks its own name up in the DNS.
        TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Not where a client went away."""
        error = sys.exception()
        if isinstance(error, Exception) and not isinstance(error, OSError):
            LOG.error("a probe cannot be answered: %s", error_text(error))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = SLOW_CLIENT_SECONDS
    answers: ProbeAnswers

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._send(200, self.answers.metrics(), CONTENT_TYPE)
        elif path in ("/healthz", "/readyz"):
            wrong = self.answers.unhealthy() if path == "/healthz" else self.answers.unready()
            self._send(503 if wrong else 200, f"{wrong or 'ok'}\n")
        else:
            self._send(404, "not found\n")

    do_HEAD = do_GET

    def _send(self, code: int, text: str, content_type: str = "text/plain; charset=utf-8") -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Probes come every few seconds."""
