"""The HTTP side of the fake API server, on loopback, and a kubeconfig for it."""

from __future__ import annotations

import contextlib
import gzip
import json
import queue
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.cluster.fakeapi import FakeAPI, Request


def request(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
    """The request for `target`, a path with its query; of parameters that come more than once the first."""
    parts = urlsplit(target)
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    return Request(method, parts.path, query, headers, body)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    api: FakeAPI

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name: ", ".join(self.headers.get_all(name, [])) for name in self.headers}
        answer = self.api.respond(request(self.command, self.path, headers, body))
        if isinstance(answer, queue.Queue):
            self._stream(answer)
            return
        code, content = answer
        if callable(content):
            self.close_connection = True
            content(self.connection)
            return
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        if code == 0:
            self._cut()
            return
        self.send_response(code)
        if len(data) > 128 * 1024 and "gzip" in self.headers.get("Accept-Encoding", ""):
            data = gzip.compress(data)
            self.send_header("Content-Encoding", "gzip")
        for name, value in (content.get("headers", {}) if isinstance(content, dict) else {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_DELETE = _any

    def _stream(self, events: queue.Queue[Any]) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        # A server notices that a client has gone without having anything to send to it.
        threading.Thread(target=self._end_when_gone, args=(events,), daemon=True).start()
        try:
            while (event := events.get()) is not None:
                line = event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                if not line:
                    return
        except OSError:
            pass
        finally:
            self.api.unwatch(events)
        self._cut()

    def _end_when_gone(self, events: queue.Queue[Any]) -> None:
        """Ends the stream as soon as the client closes its side; a watch sends nothing after its request."""
        with contextlib.suppress(OSError, ValueError):
            if not self.connection.recv(1, socket.MSG_PEEK):
                events.put(None)

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is what some tests are about."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@contextmanager
def serving() -> Iterator[FakeAPI]:
    """A FakeAPI that answers on loopback until the block ends."""
    api = FakeAPI()
    handler = type("Handler", (_Handler,), {"api": api})
    server = _Server(("127.0.0.1", 0), handler)
    api.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True)
    thread.start()
    try:
        with contextlib.closing(api):
            yield api
    finally:
        server.shutdown()
        server.server_close()


def kubeconfig(path: Path, server: str, **user: Any) -> Path:
    """Write a kubeconfig with one context, `test`, whose namespace is llm."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "alice", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "alice", "namespace": "llm"}}],
    }
    path.write_text(json.dumps(content))
    return path
