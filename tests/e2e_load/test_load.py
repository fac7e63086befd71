"""The load driver against a server that stops answering for a while."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from e2e.load import Load


class Model(ThreadingHTTPServer):
    """Answers as a model does, after `delay` seconds with `status`."""

    daemon_threads = True
    status = 200
    delay = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = self.server.status if self.path == "/v1/chat/completions" and asked["model"] == "tiny" else 404
        time.sleep(self.server.delay)
        body = b'{"choices": []}' if status == 200 else b"no\n  replica"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def model() -> Iterator[Model]:
    server = Model(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_an_outage_is_counted_and_timed(model: Model) -> None:
    with Load(model.url, "tiny", clients=2, pause=0.01) as load:
        time.sleep(0.2)
        assert load.answered > 2
        assert not load.failed
        model.status = 503
        time.sleep(0.7)
        assert load.silent() > 0.5
        model.status = 200
        time.sleep(0.7)
    begin, seconds = load.gap()
    assert 0.1 < begin < 0.6
    assert 0.5 < seconds < 1.6
    assert {one.error for one in load.failed} == {"HTTP 503: no replica"}
    assert f"{len(load.failed)} failed" in load.figures()


def test_slow_answers_are_counted(model: Model) -> None:
    model.delay = 0.1
    with Load(model.url, "tiny", clients=1) as load:
        time.sleep(0.35)
    assert load.slow(0.05) == load.slow(0)
    assert len(load.slow(0)) == load.answered > 1
    assert not load.slow(10)


def test_a_request_without_an_answer_fails_after_its_time(model: Model) -> None:
    model.delay = 2
    with Load(model.url, "tiny", clients=1, timeout=0.2) as load:
        time.sleep(0.4)
    assert load.answered == 0
    assert "timed out" in load.failed[0].error


def test_it_stops_by_itself(model: Model) -> None:
    with Load(model.url, "tiny", clients=2, pause=0.01, limit=0.1) as load:
        time.sleep(0.3)
        sent = len(load.requests)
        time.sleep(0.2)
        assert len(load.requests) == sent


def test_a_server_that_is_not_there() -> None:
    with Load("http://127.0.0.1:9", "tiny", clients=1) as load:
        time.sleep(0.1)
    assert "Connection refused" in load.failed[0].error
    assert load.gap() == (0.0, load.now)
