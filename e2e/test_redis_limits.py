"""Rate limits over a real Redis: exact over several processes, and what happens when it is not there.

These tests need no cluster. Two processes stand for two replicas of the ingress.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from e2e.cluster import host
from e2e.images import redis

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
    """Processes of the clients, which begin together."""

    def __init__(
        self, server: Server, limits: dict[str, object], *, count: int, seconds: float, **plan: object
    ) -> None:
        url = f"redis://127.0.0.1:{server.port}/0"
        # Python starts, and so do the clients' modules, on a machine that other tests keep busy.
        self.start = time.time() + 6
        text = json.dumps(
            {"limits": {"redis": {"url": url}, **limits}, "start": self.start, "end": self.start + seconds, **plan}
        )
        self.running = [
            subprocess.Popen(
                [sys.executable, str(CLIENT), text],
                env={**os.environ, "RAYLLM_REDIS_PASSWORD": PASSWORD},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for _ in range(count)
        ]  # fmt: skip

    def sleep(self, seconds: float) -> float:
        """Sleep until `seconds` after the start; the time then."""
        time.sleep(max(0.0, self.start + seconds - time.time()))
        return time.time()

    def records(self) -> list[list[Record]]:
        """Of each process."""
        answers = [process.communicate(timeout=120) for process in self.running]
        assert [process.returncode for process in self.running] == [0] * len(self.running), answers
        assert all(PASSWORD not in errors for _, errors in answers)
        return [[Record(*json.loads(line)) for line in output.splitlines()] for output, _ in answers]


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
    processes = Processes(
        server,
        {
            "perKey": {"requests": "40/second", "tokens": "2000/2 seconds"},
            "perAddress": {"requests": "90/second"},
            "onRedisFailure": "deny",
        },
        count=2, seconds=6, clients=250, pause=0.01, keys=["alice", "bob", "carol"], addresses=["a", "b"],
    )  # fmt: skip
    of_processes = processes.records()
    records = [record for of_process in of_processes for record in of_process]
    limits = {
        ("key", "requests"): (40, 1), ("key", "tokens"): (2000, 2), ("address", "requests"): (90, 1),
    }  # fmt: skip
    assert_exact(records, limits)
    for of_process in of_processes:
        assert {"admitted", "limited"} <= {record.happened for record in of_process}, "both had their part"
    admitted = [record for record in records if record.happened == "admitted"]
    assert sum(record.tokens for record in admitted) > 3 * 1950, "three keys use what their first windows leave them"
    latencies = sorted(record.seconds for record in records)
    print(
        f"500 clients: {Counter(record.happened for record in records)}, "
        f"p50 {median(latencies) * 1000:.1f} ms, p99 {latencies[int(len(latencies) * 0.99)] * 1000:.1f} ms"
    )


@pytest.mark.parametrize("outage", ["killed", "frozen"])
@pytest.mark.parametrize("failure", ["allow", "deny"])
def test_redis_fails_and_comes_back_under_load(server: Server, failure: str, outage: str) -> None:
    processes = Processes(
        server,
        {"perKey": {"requests": "100/second"}, "onRedisFailure": failure},
        count=2, seconds=10, clients=20, pause=0.02, keys=["alice"], addresses=["a"],
    )  # fmt: skip
    before = processes.sleep(1.5)
    if outage == "killed":
        server.kill()
    else:
        server.process.send_signal(signal.SIGSTOP)
    lost = time.time()
    back = processes.sleep(3.5)
    if outage == "killed":
        server.start()
    else:
        server.process.send_signal(signal.SIGCONT)
    there = time.time()
    records = [record for of_process in processes.records() for record in of_process]

    def happened(begin: float, end: float) -> set[str]:
        return {record.happened for record in records if begin <= record.start and record.start + record.seconds <= end}

    # On a machine that is busy, Redis itself may have been late now and then.
    assert {"admitted", "limited"} <= happened(0, before)
    during = "allowed" if failure == "allow" else "denied"
    assert happened(lost, back) == {during}
    assert {"admitted", "limited"} <= happened(there + 1, time.time()), "it is used again without a restart"
    since_restart = [record for record in records if outage == "frozen" or record.start >= lost]
    assert_exact(since_restart, {("key", "requests"): (100, 1)})
    outside = sorted(record.seconds for record in records if lost <= record.start < back)
    usual = median(record.seconds for record in records if record.start + record.seconds <= before)
    slow = sum(seconds > 0.03 for seconds in outside)
    print(
        f"{outage}, {failure}: {len(outside)} requests during the outage, p50 {median(outside) * 1000:.2f} ms, "
        f"{slow} above 30 ms, longest {outside[-1] * 1000:.0f} ms"
    )
    # Those that were on their way, and of a frozen Redis those of the quarter of a second until it is noticed.
    assert slow < len(outside) / 10
    assert median(outside) < 3 * usual, "without Redis a request takes no longer than with it"
