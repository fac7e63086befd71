from __future__ import annotations

import dataclasses
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.cluster import cgroups, lock, processes
from e2e.cluster.errors import RigError
from e2e.cluster.processes import Process


@pytest.fixture(autouse=True)
def no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of these tests stay in the control groups that they are in."""
    monkeypatch.setattr(cgroups, "hierarchies", list)


def kill(process: Process) -> None:
    subprocess.run(["kill", "-9", str(process.pid)], check=True)


def until_dead(process: Process) -> None:
    deadline = time.monotonic() + 5
    while process.alive:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_is_alive_until_it_ends(tmp_path: Path) -> None:
    process = processes.start("sleeper", ["sleep", "30"], tmp_path / "log")
    assert process.alive
    kill(process)
    # It is a zombie now: nobody has waited for it.
    until_dead(process)


def test_a_later_process_of_the_same_number_is_another_one(tmp_path: Path) -> None:
    process = processes.start("sleeper", ["sleep", "30"], tmp_path / "log")
    earlier = dataclasses.replace(process, start=process.start - 1)
    assert process.alive
    assert not earlier.alive
    kill(process)


def test_what_a_process_says_is_in_its_log_and_its_environment_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.org")
    log = tmp_path / "logs" / "env.log"
    process = processes.start("env", ["sh", "-c", "env; sleep 0.3"], log, env={"ONE": "1"})
    until_dead(process)
    said = log.read_text().splitlines()
    assert "ONE=1" in said
    assert not [line for line in said if "PROXY" in line]


def test_waiting_ends_when_a_needed_process_has_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = processes.start("etcd", ["sh", "-c", "echo address in use >&2; sleep 0.3; exit 1"], log)
    until_dead(process)
    with pytest.raises(RigError, match=r"(?s)etcd ended while the cluster waited for it\b.*address in use"):
        processes.wait(lambda: False, "it", 30, [process])


def test_waiting_has_an_end_and_a_hint() -> None:
    with pytest.raises(RigError, match=r"waited 0 s for the moon in vain") as raised:
        processes.wait(lambda: False, "the moon", 0.2, [], "look up")
    assert raised.value.hint == "look up"


def test_a_server_that_cannot_be_asked_yet_is_asked_again() -> None:
    asked: list[int] = []

    def ready() -> bool:
        asked.append(1)
        if len(asked) < 3:
            raise ConnectionRefusedError
        return True

    processes.wait(ready, "the server", 5, [])
    assert len(asked) == 3


def test_two_changes_at_once_are_refused_with_the_first_ones_number(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "\0rayllm-ctl-e2e-test"
    monkeypatch.setattr(lock, "_NAME", name)
    program = f"""
from e2e.cluster import lock
lock._NAME = {name!r}
with lock.exclusive("up"):
    print("held", flush=True)
    input()
"""
    holder = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(RigError, match=rf"`down` is refused: process {holder.pid}\b"), lock.exclusive("down"):
        pass
    holder.kill()
    holder.wait()
    with lock.exclusive("down"):
        pass
