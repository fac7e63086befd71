from __future__ import annotations

from pathlib import Path

import pytest

from e2e.cluster import cgroups

HYBRID = """\
/dev/vda / ext4 rw 0 0
cgroup {root}/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup {root}/cpuset cgroup rw,relatime,cpuset 0 0
cgroup2 {root}/unified cgroup2 rw,relatime 0 0
"""


@pytest.fixture
def hybrid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with two hierarchies of version 1 and a unified one that has only the pids controller."""
    for name in ("cpu,cpuacct", "cpuset", "unified"):
        (tmp_path / name).mkdir()
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset" / "cpuset.mems").write_text("0\n")
    (tmp_path / "unified" / "cgroup.controllers").write_text("pids\n")
    (tmp_path / "unified" / "cgroup.subtree_control").write_text("")
    found = cgroups.hierarchies(HYBRID.format(root=tmp_path))
    monkeypatch.setattr(cgroups, "hierarchies", lambda: found)
    return tmp_path


def test_hierarchies_of_both_versions_are_found(hybrid: Path) -> None:
    found = cgroups.hierarchies()
    assert [(h.path.name, h.unified) for h in found] == [("cpu,cpuacct", False), ("cpuset", False), ("unified", True)]
    assert {"cpu", "cpuacct"} <= found[0].controllers
    assert found[2].controllers == {"pids"}


def test_what_the_kubelet_needs_and_no_hierarchy_has_is_named(hybrid: Path) -> None:
    assert cgroups.missing_controllers(cgroups.hierarchies()) == ["memory"]


def test_a_group_exists_everywhere_and_its_cpuset_is_usable_at_every_level(hybrid: Path) -> None:
    assert not cgroups.exists("ours")
    cgroups.create("ours/n1")
    for name in ("cpu,cpuacct", "cpuset", "unified"):
        assert (hybrid / name / "ours" / "n1").is_dir()
    for level in ("ours", "ours/n1"):
        assert (hybrid / "cpuset" / level / "cpuset.cpus").read_text() == "0-1\n"
        assert (hybrid / "cpuset" / level / "cpuset.mems").read_text() == "0\n"
    assert cgroups.exists("ours")


def test_the_unified_hierarchy_passes_its_controllers_on(hybrid: Path) -> None:
    cgroups.create("ours/n1")
    assert (hybrid / "unified" / "cgroup.subtree_control").read_text() == "+pids"
    assert (hybrid / "unified" / "ours" / "cgroup.subtree_control").read_text() == "+pids"


def test_only_controllers_that_were_not_passed_on_before_are_taken_back(hybrid: Path) -> None:
    control = hybrid / "unified" / "cgroup.subtree_control"
    control.write_text("memory pids\n")
    cgroups.restore_root(["memory"])
    assert control.read_text() == "-pids"


def test_the_cluster_weighs_more_than_a_single_process_where_groups_compete_with_processes(hybrid: Path) -> None:
    cgroups.create("ours")
    cgroups.raise_weight("ours", unified=False)
    assert int((hybrid / "cpu,cpuacct" / "ours" / "cpu.shares").read_text()) > 1024
    assert not (hybrid / "cpuset" / "ours" / "cpu.shares").exists()
    assert not (hybrid / "unified" / "ours" / "cpu.shares").exists()


def test_a_group_weighs_more_than_groups_beside_it_in_either_version(hybrid: Path) -> None:
    cgroups.create("ours/system")
    weight = hybrid / "unified" / "ours" / "system" / "cpu.weight"
    weight.write_text("100\n")
    cgroups.raise_weight("ours/system", unified=True)
    assert int(weight.read_text()) > 100
    assert int((hybrid / "cpu,cpuacct" / "ours" / "system" / "cpu.shares").read_text()) > 1024


def test_a_unified_hierarchy_without_the_controller_is_left_alone(hybrid: Path) -> None:
    cgroups.create("ours")
    cgroups.raise_weight("ours", unified=True)
    assert not (hybrid / "unified" / "ours" / "cpu.weight").exists()


def test_processes_are_found_in_every_hierarchy_and_below(hybrid: Path) -> None:
    cgroups.create("ours/n1")
    (hybrid / "cpu,cpuacct" / "ours" / "cgroup.procs").write_text("11\n0\n")
    (hybrid / "cpuset" / "ours" / "n1" / "cgroup.procs").write_text("12\n13\n")
    assert cgroups.processes("ours") == {11, 12, 13}
    assert cgroups.processes("others") == set()


def test_a_process_joins_every_hierarchy(hybrid: Path) -> None:
    script = cgroups.join_script("ours")
    assert [line.split("'")[1] for line in script.splitlines()] == [
        f"{hybrid}/{name}/ours/cgroup.procs" for name in ("cpu,cpuacct", "cpuset", "unified")
    ]
