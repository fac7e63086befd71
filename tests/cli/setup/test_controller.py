"""`controller`: what its flags come to, and the process against a fake API server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.controller.loop import run as process
from rayllm_ctl.controller.loop.election import LEASE_NAME
from rayllm_ctl.controller.loop.run import ControllerOptions
from rayllm_ctl.controller.types import Parts, Scope
from tests.cli.conftest import Run
from tests.cluster import fakekuberay
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakehttp import kubeconfig, serving


class Called:
    """Stands for the process: keeps what it was started with."""

    def __init__(self) -> None:
        self.options: ControllerOptions | None = None
        self.timeouts: list[float] = []

    def __call__(self, options: ControllerOptions, connect: Callable[[float | None], Cluster], _parts: Parts) -> int:
        self.options = options
        self.timeouts = [connect(seconds).request_timeout for seconds in (None, 4.0)]
        return 5


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Called:
    found = Called()
    monkeypatch.setattr(process, "run_controller", found)
    return found


def test_without_flags_it_watches_its_own_namespace_and_asks_no_hub(run: Run, called: Called) -> None:
    assert run("controller").code == 5
    assert called.options == ControllerOptions(Scope(("llm",), offline=True), 4, ("", 8080), "llm")
    assert called.timeouts == [30.0, 4.0]


def test_flags_say_what_it_watches_and_where_it_listens(run: Run, called: Called) -> None:
    run(
        "controller", "-n", "a", "--namespace", "b", "-n", "a", "--workers", "8", "--lease-namespace", "ops",
        "--listen", "[::1]:9000", "--hub",
    )  # fmt: skip
    assert called.options == ControllerOptions(Scope(("a", "b"), offline=False), 8, ("::1", 9000), "ops")


def test_all_namespaces_without_an_election(run: Run, called: Called) -> None:
    run("controller", "--all-namespaces", "--no-leader-election", "--listen", "127.0.0.1:0")
    assert called.options == ControllerOptions(Scope(()), 4, ("127.0.0.1", 0), None)


def test_the_environment_may_name_several_namespaces(run: Run, called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYLLM_NAMESPACE", "a b")
    run("controller")
    assert called.options is not None
    assert called.options.scope.namespaces == ("a", "b")


@pytest.mark.parametrize("text", ["8080", ":", ":http", ":70000", "::1:8080", "a:b:80", "[::1]8080"])
def test_an_address_without_a_port_is_rejected(run: Run, called: Called, text: str) -> None:
    found = run("controller", "--listen", text)
    assert (found.code, called.options) == (2, None)
    assert f'"{text}" is not [ADDRESS]:PORT, such as :8080' in found.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["-A", "-n", "a"], "--namespace and --all-namespaces exclude each other"),
        (["--no-leader-election", "--lease-namespace", "a"], "--lease-namespace is for the Lease"),
        (["--workers", "0"], "invalid value for --workers"),
    ],
)
def test_flags_that_contradict_are_rejected(run: Run, called: Called, flags: list[str], message: str) -> None:
    found = run("controller", *flags)
    assert (found.code, called.options) == (2, None)
    assert message in found.err


# The process itself, started as a pod starts it.


@pytest.fixture
def server() -> Iterator[FakeAPI]:
    with serving() as api:
        fakekuberay.operator(api)
        api.applied = lambda item: (
            fakekuberay.reconcile(api, item) if item["kind"] == "RayService" else None
        )  # fmt: skip
        yield api


class Lines:
    """The log of a process, read as it comes."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child
        self.read: list[dict[str, Any]] = []

    def until(self, text: str) -> dict[str, Any]:
        assert self._child.stderr is not None
        for line in self._child.stderr:
            self.read.append(json.loads(line))
            if text in self.read[-1]["message"]:
                return self.read[-1]
        raise AssertionError(f"{text!r} is not in the log: {self.read}")


@pytest.fixture
def child(server: FakeAPI, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    config = kubeconfig(tmp_path / "kubeconfig", server.url, token="s3cret-token")
    server.put(
        kind="LLMService",
        metadata={"name": "tiny"},
        spec={"model": {"id": "Qwen/Qwen3-0.6B"}, "accelerator": {"gpu": "L4"}, "planOnly": True},
    )
    flags = ["controller", "--kubeconfig", str(config), "--listen", "127.0.0.1:0", "--log-format", "json"]
    running = subprocess.Popen(
        [sys.executable, "-m", "rayllm_ctl", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    yield running
    running.kill()
    running.communicate()


def test_a_pod_of_the_controller_writes_the_status_and_ends_when_it_is_told_to(
    server: FakeAPI, child: subprocess.Popen[str]
) -> None:
    log = Lines(child)
    port = int(log.until("probes and metrics on port")["message"].rpartition(" ")[2])
    log.until("reconciles with 4 workers")
    assert server.stored("Lease", LEASE_NAME)["spec"]["holderIdentity"]
    end = time.monotonic() + 60
    while "conditions" not in server.stored("LLMService", "tiny").get("status", {}):
        assert time.monotonic() < end
        assert child.poll() is None
        time.sleep(0.01)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        page = answer.read().decode()
    assert 'rayllm_controller_objects{kind="LLMService"' in page
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (0, "")
    assert [json.loads(line)["message"] for line in err.splitlines()][-2:] == ["SIGTERM: ending", "ended"]
    assert server.stored("Lease", LEASE_NAME)["spec"]["holderIdentity"] == ""
    assert all(one["level"] == "info" for one in log.read)
    assert "s3cret" not in err + json.dumps(log.read)
