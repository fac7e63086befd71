"""The program of a load test in a Job."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

from rayllm_ctl.loadtest import __main__ as program
from rayllm_ctl.loadtest import session
from rayllm_ctl.loadtest.settings import Load, Settings, Target
from tests.clock import Clock
from tests.loadtest.server import KnownServer, behaviour


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


WITHOUT_UVLOOP = """
import runpy, sys
sys.modules["uvloop"] = None
runpy.run_module("rayllm_ctl.loadtest", run_name="__main__", alter_sys=True)
"""


def test_the_load_is_sent_without_uvloop_too(tmp_path: Path) -> None:
    """It is a package of an extra, and images of a user may lack it."""
    file = tmp_path / "settings.json"
    with KnownServer() as server:
        settings = Settings(Target(server.url, (behaviour(tokens=3),)), (Load(concurrency=2, requests=6),))
        file.write_text(json.dumps(settings.to_json()))
        command = [sys.executable, "-c", WITHOUT_UVLOOP, str(file)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    ((kind, (found,)),) = json.loads(ended.stdout.splitlines()[-1].removeprefix(program.MARK)).items()
    assert kind == "results"
    assert found["requests"]["succeeded"] == len(server.bodies) == 6


def test_uvloop_is_used_where_it_is_installed() -> None:
    assert session.new_event_loop is uvloop.new_event_loop
