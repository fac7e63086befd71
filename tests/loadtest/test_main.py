"""What a load test in a Job does before its first request."""

from __future__ import annotations

import socket

import pytest

from rayllm_ctl.loadtest import __main__ as program
from tests.clock import Clock


def test_it_waits_until_the_server_takes_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(5)
        pauses: list[float] = []

        class Listening(Clock):
            def sleep(self, seconds: float) -> None:
                pauses.append(seconds)
                if len(pauses) == 3:
                    server.listen()

        monkeypatch.setattr(program, "time", Listening())
        program.wait_for_connection(f"http://127.0.0.1:{server.getsockname()[1]}/v1")
        assert pauses == [0.2] * 3
        server.accept()[0].close()


def test_a_server_that_takes_none_is_left_to_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    begin = clock.now
    monkeypatch.setattr(program, "time", clock)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        program.wait_for_connection(f"http://127.0.0.1:{server.getsockname()[1]}/v1", seconds=0.5)
    assert clock.now - begin == pytest.approx(0.5)
