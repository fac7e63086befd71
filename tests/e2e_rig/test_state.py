from __future__ import annotations

import os
from pathlib import Path

import pytest

from e2e.cluster import clean, layout, state
from e2e.cluster.layout import Run
from e2e.cluster.processes import Process
from e2e.cluster.state import Journal, Options, State

OPTIONS = Options(3, ("H100-80GB:8x2", "L4:1x4"), "H100-80GB:8", network_policies=True)


def this_process() -> Process:
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return Process("python", os.getpid(), int(fields[19]), "/log")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "run" / "state.json"
    journal = Journal(path, State(options=OPTIONS, build="b", sysctls={"kernel/panic": "1"}, directories=["/x"]))
    journal.add(this_process())
    read = state.load(path)
    assert read == journal.state
    assert read is not None
    assert read.dead() == []


def test_a_process_that_is_gone_is_named(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "s.json", State(options=OPTIONS, build="b"))
    journal.add(this_process())
    journal.add(Process("etcd", 2**22 + 1, 1, "/log"))
    assert journal.state.dead() == ["etcd"]


def test_after_a_restart_of_the_machine_nothing_lives(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "s.json", State(options=OPTIONS, build="b", boot="another"))
    journal.add(this_process())
    assert journal.state.dead() == ["python"]


@pytest.mark.parametrize("text", ["", "{", "{}", '{"options": {"nodes": 2}}', '{"later": "layout"}'])
def test_a_record_that_cannot_be_read_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.json").write_text(text)
    assert state.load(tmp_path / "s.json") is None
    assert state.load(tmp_path / "absent.json") is None


def test_options_are_told_as_they_are_typed() -> None:
    words = "--nodes 3 --simulate H100-80GB:8x2 --simulate L4:1x4 --claim-gpus H100-80GB:8 --network-policies"
    assert OPTIONS.flags() == words
    assert Options().flags() == "--nodes 2"


@pytest.mark.parametrize(
    ("asked", "included"),
    [
        (OPTIONS, True),
        (Options(), True),
        (Options(1, ("L4:1x4",)), True),
        (Options(4), False),
        (Options(simulate=("L4:1x4", "L4:1x4")), False),
        (Options(claim_gpus="L4:1"), False),
    ],
)
def test_options_include_those_that_ask_for_less(asked: Options, included: bool) -> None:
    assert OPTIONS.include(asked) == included


def test_options_without_policies_do_not_include_those_with_them() -> None:
    assert not Options().include(Options(network_policies=True))


def test_missing_directories_are_named_outermost_first(tmp_path: Path) -> None:
    wanted = [str(tmp_path), str(tmp_path / "a" / "b")]
    assert clean.missing_directories(wanted) == [str(tmp_path / "a"), str(tmp_path / "a" / "b")]


def test_addresses_of_nodes_differ_and_lie_in_the_ranges_of_the_cluster() -> None:
    nodes = [Run(Path("/run")).node(number) for number in range(1, layout.MAX_NODES + 1)]
    assert len({node.address for node in nodes} | {layout.HOST_ADDRESS}) == layout.MAX_NODES + 1
    assert len({node.pod_range for node in nodes}) == layout.MAX_NODES
    # The kernel cuts longer names off.
    assert all(len(node.link) <= 15 for node in nodes)
