"""What the handlers of dashboard and proxy share: reading a request, finding the asked pod, sending an answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from e2e.simulate.clusters import Clusters


@dataclass(frozen=True)
class Reply:
    """An answer. `events` are sent as they come, as server-sent events, in place of `data`."""

    status: int
    kind: str
    data: bytes = b""
    events: Iterable[str] | None = None


def json_reply(content: Any, status: int = 200) -> Reply:
    """An answer in JSON."""
    return Reply(status, "application/json", json.dumps(content).encode())


def text_reply(content: str, status: int = 200) -> Reply:
    """An answer in plain text."""
    return Reply(status, "text/plain; charset=utf-8", content.encode())


def stream_reply(events: Iterable[str]) -> Reply:
    """An answer of server-sent events."""
    return Reply(200, "text/event-stream; charset=utf-8", events=events)


class Server(ThreadingHTTPServer):
    """Serves all addresses of one port; `clusters` is what its handlers answer from."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], handler: type[Handler], clusters: Clusters) -> None:
        super().__init__(address, handler)
        self.clusters = clusters


class Handler(BaseHTTPRequestHandler):
    """One connection. The address of this end of it says which pod was asked."""

    protocol_version = "HTTP/1.1"
    timeout = 20  # An idle connection is a thread: the operator of a thousand services keeps many.
    server: Server

    def reply(self, path: str, query: dict[str, str], body: bytes) -> Reply:
        """The answer to `self.command` on a path. ValueError, KeyError and TypeError mean a wrong body."""
        raise NotImplementedError

    def handle_request(self) -> None:
        """Read the request, let the subclass answer it, and send the answer."""
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        try:
            reply = self.reply(parts.path, query, body)
        except (ValueError, KeyError, TypeError) as error:
            reply = text_reply(f"{type(error).__name__}: {error}", 400)
        self._send(reply)

    do_GET = do_PUT = do_POST = do_DELETE = handle_request

    @property
    def asked(self) -> str:
        """The address that the client connected to."""
        return str(self.connection.getsockname()[0])

    def log_message(self, format: str, *arguments: Any) -> None:
        """One line per request would be thousands a minute."""

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.kind)
        if reply.events is None:
            self.send_header("Content-Length", str(len(reply.data)))
            self.end_headers()
            self.wfile.write(reply.data)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in reply.events:
            data = event.encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")
