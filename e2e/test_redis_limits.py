"""Rate limits over a real Redis: exact over several processes, and what happens when it is not there.

These tests need no cluster. Two processes stand for two replicas of the ingress.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.cluster import host
from e2e.images import redis

pytestmark = pytest.mark.xdist_group("redis_limits")

CLIENT = Path(__file__).parent / "gateway" / "limits_client.py"
PASSWORD = "p4ssw0rd-of-the-test"
SECOND = 1_000_000


class Server:
    """redis-server on a free port, without persistence: after a restart it is empty."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.program = redis.server_link(directory)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [self.program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--requirepass", PASSWORD],
            cwd=self.directory, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.01)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    host.install_packages(print)
    started = Server(tmp_path)
    try:
        yield started
    finally:
        started.kill()


@dataclass(frozen=True)
class Record:
    start: float
    seconds: float
    key: str
    address: str
    tokens: int
    happened: str
    time: int | None


class Processes:
    """Processes of the clients; between `begin` and `end` they ask one request after the other."""

    def __init__(self, server: Server, limits: dict[str, object], *, count: int, **plan: object) -> None:
        url = f"redis://127.0.0.1:{server.port}/0"
        text = json.dumps({"limits": {"redis": {"url": url}, **limits}, **plan})
        self.of_process: list[list[Record]] = [[] for _ in range(count)]
        self.running = [
            subprocess.Popen(
                [sys.executable, str(CLIENT), text],
                env={**os.environ, "RAYLLM_REDIS_PASSWORD": PASSWORD},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for _ in range(count)
        ]  # fmt: skip
        self.readers = [
            threading.Thread(target=self._read, args=pair) for pair in zip(self.running, self.of_process, strict=True)
        ]

    def begin(self) -> None:
        """Let the clients begin together, when the last process is ready."""
        for process in self.running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for reader in self.readers:
            reader.start()
        self._say()

    def _say(self) -> None:
        for process in self.running:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()

    @staticmethod
    def _read(process: subprocess.Popen[str], records: list[Record]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            records.append(Record(*json.loads(line)))

    def records(self) -> list[Record]:
        """Those of all processes so far."""
        return [record for records in self.of_process for record in records.copy()]

    def happened(self, begin: float, end: float = math.inf) -> Counter[str]:
        """What happened to the requests that began and ended in that time, in seconds since the epoch."""
        return Counter(
            record.happened
            for record in self.records()
            if begin <= record.start and record.start + record.seconds <= end
        )

    def wait(self, what: str, condition: Callable[[], bool]) -> float:
        """Wait until it holds; the time then."""
        limit = time.monotonic() + 150
        while not condition():
            assert time.monotonic() < limit, f"not within 150 s: {what}"
            time.sleep(0.1)
        return time.time()

    def end(self) -> list[Record]:
        """Let the clients end; the records of all processes."""
        self._say()
        for process, reader in zip(self.running, self.readers, strict=True):
            reader.join(60)
            assert process.stderr is not None
            errors = process.stderr.read()
            assert process.wait(60) == 0, errors
            assert PASSWORD not in errors
        return self.records()

    def kill(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()


@contextmanager
def begun(server: Server, limits: dict[str, object], *, count: int, **plan: object) -> Iterator[Processes]:
    processes = Processes(server, limits, count=count, **plan)
    try:
        processes.begin()
        yield processes
    finally:
        processes.kill()


def assert_never_more(entries: list[tuple[int, int]], limit: int, seconds: int) -> None:
    """No stretch of time of that length holds more than the limit, wherever it begins."""
    entries.sort()
    first, held = 0, 0
    for at, cost in entries:
        held += cost
        while entries[first][0] < at - seconds * SECOND:
            held -= entries[first][1]
            first += 1
        assert held <= limit


def assert_exact(records: list[Record], limits: dict[tuple[str, str], tuple[int, int]]) -> None:
    """Every window of every key and address holds, by Redis's clock."""
    entries: dict[tuple[str, str, str], list[tuple[int, int]]] = defaultdict(list)
    for record in records:
        if record.time is not None:
            for (scope, unit), _ in limits.items():
                cost = 1 if unit == "requests" else record.tokens
                entries[scope, unit, getattr(record, scope)].append((record.time, cost))
    for (scope, unit, _), found in entries.items():
        assert_never_more(found, *limits[scope, unit])


def test_two_processes_never_admit_one_too_many_in_any_window(server: Server) -> None:
    limits: dict[str, object] = {
        "perKey": {"requests": "40/second", "tokens": "2000/2 seconds"},
        "perAddress": {"requests": "90/second"},
        "onRedisFailure": "deny",
    }
    keys, addresses = ["alice", "bob", "carol"], ["a", "b"]
    with begun(server, limits, count=2, clients=250, pause=0.01, keys=keys, addresses=addresses) as processes:

        def used() -> bool:
            """Three keys use what several windows leave them, and both processes have their part."""
            admitted = [record.tokens for record in processes.records() if record.happened == "admitted"]
            parts = [{record.happened for record in records.copy()} for records in processes.of_process]
            return sum(admitted) > 3 * 3 * 1950 and all({"admitted", "limited"} <= part for part in parts)

        processes.wait("requests are admitted", used)
        records = processes.end()
    for of_process in processes.of_process:
        assert {"admitted", "limited"} <= {record.happened for record in of_process}, "both had their part"
    admitted = [record for record in records if record.happened == "admitted"]
    assert sum(record.tokens for record in admitted) > 3 * 1950, "three keys use what their first windows leave them"
    assert_exact(
        records,
        {("key", "requests"): (40, 1), ("key", "tokens"): (2000, 2), ("address", "requests"): (90, 1)},
    )


@pytest.mark.slow
@pytest.mark.parametrize("outage", ["killed", "frozen"])
@pytest.mark.parametrize("failure", ["allow", "deny"])
def test_redis_fails_and_comes_back_under_load(server: Server, failure: str, outage: str) -> None:
    """That no request waits for a Redis that is lost is tested in tests/serving/gateway/limits/test_redis_store.py."""
    limits: dict[str, object] = {"perKey": {"requests": "100/second"}, "onRedisFailure": failure}
    during = "allowed" if failure == "allow" else "denied"
    with begun(server, limits, count=2, clients=20, pause=0.02, keys=["alice"], addresses=["a"]) as processes:

        def used(since: float) -> bool:
            happened = processes.happened(since)
            return happened["admitted"] > 120 and happened["limited"] > 120

        processes.wait("requests are admitted and limited", lambda: used(0))
        if outage == "killed":
            server.kill()
        else:
            server.process.send_signal(signal.SIGSTOP)
        lost = time.time()
        back = processes.wait(f"requests are {during}", lambda: processes.happened(lost)[during] > 1000)
        if outage == "killed":
            server.start()
        else:
            server.process.send_signal(signal.SIGCONT)
        there = time.time()
        processes.wait("it is used again without a restart", lambda: used(there))
        records = processes.end()
    assert set(processes.happened(lost, back)) == {during}
    since_restart = [record for record in records if outage == "frozen" or record.start >= lost]
    assert_exact(since_restart, {("key", "requests"): (100, 1)})
