"""Commands killed before and after each of their writes: the next one finishes what they left. On simulated nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.counting import Counting, counting
from e2e.harness import LLAMA, Bench

pytestmark = pytest.mark.xdist_group("simulated")

NAME = "cut"
_WRITE = re.compile(r"(POST|PUT|PATCH|DELETE) ")
_ASKS = re.compile(r"dryRun=|selfsubject|/proxy/")
"""Writes to nothing: dry runs, questions about rights, requests to services."""


@dataclass
class Cut:
    """What one command came to. killed: at which write; None: it ended by itself, with `code`."""

    killed: str | None
    code: int
    err: str


def cut(bench: Bench, proxy: Counting, number: int, when: str, *args: str) -> Cut:
    """Run rayllm-ctl and kill it before or after its write `number`: before the API server hears, or it does itself."""
    process = bench.start(*args)
    writes: list[str] = []
    killed: list[str] = []

    def at(request: str) -> None:
        if not _WRITE.match(request) or _ASKS.search(request):
            return
        writes.append(request)
        if len(writes) == number:
            killed.append(request.partition("?")[0])
            process.kill()
            process.wait(10)
            if when == "before":
                raise OSError("killed")

    proxy.before, proxy.after = (at, _pass) if when == "before" else (_pass, at)
    _, err = process.communicate(timeout=240)
    proxy.before = proxy.after = _pass
    return Cut(killed[0] if killed else None, process.returncode, err)


def _pass(_request: str) -> None:
    """Leave it."""


# Killed after one write, a command leaves what it would leave when it is killed before the next.
@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_what_a_killed_command_left_is_finished_by_the_same_command(
    simulated: Bench, tmp_path: Path, when: str
) -> None:
    where = (NAME, "-n", simulated.namespace)
    deploy = [*LLAMA, "--name", NAME, "--tp", "4", "-n", simulated.namespace]
    commands = {
        "deploy": deploy,
        "surge": [*deploy, "--max-num-seqs", "7"],
        "rollback": ["rollback", *where, "--to", "1"],
        "delete": ["delete", *where],
    }
    with counting(simulated, tmp_path) as (bench, proxy):
        for name, args in commands.items():
            killed = kills(simulated, bench, proxy, when, args)
            print(f"{name}, killed {when}: {', '.join(killed)}")
            assert killed, f"{name} wrote nothing"
            if name != "delete":
                settled(simulated, args if name != "rollback" else deploy)
    kinds = "rayservices,rayclusters,configmaps,secrets,controllerrevisions.apps,poddisruptionbudgets,pods"
    left = simulated.kubectl("get", kinds, "-n", simulated.namespace, "-o", "name").split()
    assert [one for one in left if NAME in one] == []


def kills(simulated: Bench, bench: Bench, proxy: Counting, when: str, args: list[str]) -> list[str]:
    """Run a command until it is not killed any more, each time one write later; the writes at which it was."""
    killed: list[str] = []
    for number in range(1, 15):
        done = cut(bench, proxy, number, when, *args)
        assert "Traceback" not in done.err, done.err
        if done.killed is None:
            gone = args[0] == "delete" and killed and "not found" in done.err
            same = args[0] == "rollback" and killed and "already" in done.err
            assert done.code == 0 or gone or same, f"exit {done.code}: {done.err}"
            return killed
        killed.append(done.killed)
        seen = simulated.run("status", NAME, "-n", simulated.namespace, code=None, timeout=30)
        assert seen.code in (0, 1), str(seen)
    raise AssertionError(f"still writing after {killed}")


def settled(simulated: Bench, args: list[str]) -> None:
    """The service is Ready and as the command has it, and its history ends with that."""
    simulated.run(*args)
    assert simulated.run("diff", *args[1:]).code == 0
    state = simulated.run("status", NAME, "-n", simulated.namespace, "-o", "json").json()
    assert state["state"] == "Ready", state
    live = simulated.get("rayservice", NAME)
    manifests = simulated.items("controllerrevisions.apps", f"rayllm.io/service={NAME}")
    last = max(manifests, key=lambda one: one["revision"])["data"]["manifests"]
    (kept,) = (one for one in last if one["kind"] == "RayService")
    assert kept["spec"]["serveConfigV2"] == live["spec"]["serveConfigV2"], "the history ends with what runs"
    (group,) = live["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert (group["minReplicas"], group["maxReplicas"]) == (1, 1)
    (cluster,) = simulated.items("rayclusters")
    (group,) = cluster["spec"]["workerGroupSpecs"]
    assert (group["minReplicas"], group["maxReplicas"]) == (1, 1)
