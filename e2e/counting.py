"""A proxy in front of the API server that notes every request, to count what a command asks, or to kill it at one."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from e2e.harness import Bench, Object, served_api

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Counting(ThreadingHTTPServer):
    """Passes requests on to `upstream`. `requests`: method and path with query of each, as in `GET /api/v1/pods`.
    `answered`: the bytes of all answers, as they are on the wire but for their headers.

    before, after: called with such a request before it is passed on, and before its answer is. instead: called first,
    may give the code and the body of an answer, and then nothing is passed on.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(upstream).netloc
        self.requests: list[str] = []
        self.answered = 0
        self.before: Callable[[str], None] = lambda _request: None
        self.after: Callable[[str], None] = lambda _request: None
        self.instead: Callable[[str], tuple[int, Object] | None] = lambda _request: None


class _Handler(BaseHTTPRequestHandler):
    server: Counting

    def handle_request(self) -> None:
        request = f"{self.command} {self.path}"
        self.server.requests.append(request)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if (given := self.server.instead(request)) is not None:
            self._answer(*given)
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in {*_HOP_BY_HOP, "host"}}
        connection = http.client.HTTPConnection(self.server.upstream, timeout=600)
        try:
            self.server.before(request)
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            self.server.after(request)
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            self.end_headers()  # HTTP/1.0: the end of the connection ends the answer, a watch's too.
            while data := answer.read1():
                self.server.answered += len(data)
                self.wfile.write(data)
        except (OSError, http.client.HTTPException):
            return  # One end of a watch has gone.
        finally:
            connection.close()

    def _answer(self, code: int, body: Object) -> None:
        text = json.dumps(body).encode()
        with suppress(OSError):
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request

    def log_message(self, format: str, *arguments: object) -> None:
        """`requests` has it all."""


@contextmanager
def counted(bench: Bench, folder: Path) -> Iterator[tuple[Bench, list[str]]]:
    """The same bench with its commands going through a counting proxy, and the list of what they asked."""
    with counting(bench, folder) as (made, proxy):
        yield made, proxy.requests


@contextmanager
def counting(bench: Bench, folder: Path) -> Iterator[tuple[Bench, Counting]]:
    """The same bench with its commands going through a counting proxy, and that."""
    with served_api(bench.target) as url:
        proxy = Counting(url)
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        config = yaml.safe_load(bench.target.kubeconfig.read_text())
        for entry in config["clusters"]:
            entry["cluster"] = {"server": f"http://127.0.0.1:{proxy.server_address[1]}"}
        config["users"] = [{"name": user["name"], "user": {}} for user in config["users"]]
        path = folder / "counting-config"
        path.write_text(yaml.safe_dump(config))
        made = Bench(replace(bench.target, kubeconfig=path), bench.namespace)
        try:
            yield made, proxy
        finally:
            for process in made.processes:
                process.kill()
                process.wait()
            proxy.shutdown()
            proxy.server_close()
