"""The text of `status`."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

import pytest

from rayllm_ctl.console.observe.status import service_status, service_table
from rayllm_ctl.console.observe.tree import tree_lines
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.observed.health import Cause, Health, State, StatusNode
from rayllm_ctl.model.text.hint import Hint
from tests.conftest import Golden
from tests.console.sample import HEAD, PULLING, READY, STUCK, Screen, health, plain, pod


@dataclass(frozen=True)
class Row:
    name: str
    namespace: str
    health: Health
    kind: str = "RayService"


@pytest.mark.parametrize(("name", "shown"), [("stuck", STUCK), ("ready", READY), ("starting", PULLING)])
def test_a_service(golden: Golden, name: str, shown: Health) -> None:
    golden.check(f"status-{name}.txt", service_status("qwen3-32b", "llm", shown, plain()))


def test_colours_change_nothing_but_the_colours() -> None:
    coloured = service_status("qwen3-32b", "llm", STUCK, Printer.on(Screen(), "always", {}))
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[\d*m", "", coloured) == service_status("qwen3-32b", "llm", STUCK, plain())


def test_a_remark_is_no_cause() -> None:
    note = Cause("StillStarting", "rayservice/x", "on its way", ("20 s so far",), (Hint("rayllm-ctl watch x"),))
    text = service_status("x", "llm", dataclasses.replace(PULLING, causes=(note,)), plain())
    assert "cause" not in text
    assert "hint      rayllm-ctl watch x" in text


def test_a_service_that_is_not_there() -> None:
    missing = Health(State.NOT_FOUND, "there is no service x in namespace llm; did you mean y?")
    assert service_status("x", "llm", missing, plain()) == f"x  NotFound  {missing.message}\n"


def test_what_could_not_be_read_is_said() -> None:
    unread = dataclasses.replace(
        READY, replicas_verified=False, notes=("Serve state could not be read: not permitted to get services/proxy",)
    )
    text = service_status("x", "llm", unread, plain())
    assert "note      Serve state could not be read: not permitted" in text
    assert "replicas unknown" in text


def test_each_cluster_of_an_upgrade_has_its_own_part_of_the_tree() -> None:
    def cluster(name: str, role: str, *workers: str) -> StatusNode:
        nodes = tuple(StatusNode("worker", worker, "Running", cluster=name) for worker in workers)
        return StatusNode("cluster", name, role, children=nodes, cluster=name)

    shown = dataclasses.replace(READY, tree=(cluster("x-a", "Active", "w1", "w2"), cluster("x-b", "Pending", "w3")))
    assert tree_lines(shown, plain()) == [
        "├─ cluster x-a       Active",
        "│  ├─ worker 1 of 2  Running",
        "│  └─ worker 2 of 2  Running",
        "└─ cluster x-b       Pending",
        "   └─ worker 1 of 1  Running",
    ]


def test_the_table(golden: Golden) -> None:
    rows = [Row("a", "llm", READY), Row("a-longer-name", "llm", STUCK)]
    golden.check("table.txt", service_table(rows, plain()))
    golden.check("table-wide.txt", service_table(rows, plain(), wide=True))


def test_no_services() -> None:
    assert service_table([], plain()) == "no services\n"


def test_many_workers_alike_are_one_line() -> None:
    parts = [pod("head", HEAD, "Running", "on cpu-1")]
    parts += [pod("worker", f"w{n:02}", "Running", f"on gpu-{n}") for n in range(40)]
    parts += [pod("worker", "w99", "Pending", "waits for a node")]
    lines = tree_lines(health(60, *parts), plain())
    assert [line for line in lines if "×40" in line and "Running" in line]
    assert [line for line in lines if "worker 41 of 41" in line and "waits for a node" in line]
    assert len(lines) == 4
