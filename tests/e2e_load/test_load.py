"""The load driver against a server that stops answering for a while."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from e2e import load as module
from e2e.load import Load
from tests.clock import Clock

SECONDS = 0.1
"""How long an answer takes."""


class Model(ThreadingHTTPServer):
    """Answers as a model does. status: of the answer to a request, by its number."""

    daemon_threads = True

    def __init__(self, clock: Clock) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self._clock, self._lock = clock, threading.Lock()
        self.asked = 0

    def count(self) -> int:
        """The number of a request that has come; its answer takes its time."""
        with self._lock:
            self.asked += 1
            self._clock.sleep(SECONDS)
            return self.asked

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is what one test is about."""

    def status(self, _number: int) -> int:
        return 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = self.path == "/v1/chat/completions" and asked["model"] == "tiny"
        status = self.server.status(self.server.count()) if known else 404
        body = b'{"choices": []}' if status == 200 else b"no\n  replica"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the load, which continues while the model answers."""
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    monkeypatch.setattr(module, "FAILURE_PAUSE_SECONDS", 0.0)
    return made


@pytest.fixture
def model(clock: Clock) -> Iterator[Model]:
    server = Model(clock)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_an_outage_is_counted_and_timed(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten requests after the fifth."""
    over, goes_on = threading.Event(), threading.Event()

    def status(number: int) -> int:
        if number == 16:
            over.set()
            goes_on.wait(30)
        return 503 if 5 < number <= 15 else 200

    monkeypatch.setattr(model, "status", status)
    with Load(model.url, "tiny", clients=1) as load:
        assert over.wait(30)
        assert (load.answered, len(load.failed), load.begun) == (5, 10, 16)
        goes_on.set()
        eventually(lambda: load.answered > 7)
    assert load.gap() == pytest.approx((5 * SECONDS, 11 * SECONDS))
    assert {one.error for one in load.failed} == {"HTTP 503: no replica"}
    assert "answered, 10 failed; longest time without an answer 1.1 s, from 0.5 s" in load.figures()


def test_a_request_without_an_answer_fails_after_its_time(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(model, "status", lambda _: 200 if ended.wait(30) else 500)
    with Load(model.url, "tiny", clients=1, timeout=0.1) as load:
        eventually(lambda: load.failed)
    ended.set()
    assert load.answered == 0
    assert "timed out" in load.failed[0].error


def test_it_stops_by_itself(model: Model) -> None:
    with Load(model.url, "tiny", clients=2, limit=4.5 * SECONDS) as load:
        eventually(lambda: not any(client.is_alive() for client in load._threads))
    assert load.answered == len(load.requests) == model.asked
    assert 5 <= len(load.requests) <= 6


def test_a_server_that_is_not_there() -> None:
    with Load("http://127.0.0.1:9", "tiny", clients=1) as load:
        eventually(lambda: load.failed)
    assert "Connection refused" in load.failed[0].error
    assert load.gap() == (0.0, load.now)
