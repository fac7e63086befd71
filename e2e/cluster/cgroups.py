"""The cluster's own control groups, in every hierarchy of a version 1, version 2 or hybrid machine.

All processes of the cluster, and of its pods, live below one group. So what is left of a cluster that died is found
here even if nothing else was written down.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster.errors import RigError

_REQUIRED: Final = ("cpu", "cpuset", "memory", "pids")
_CPUSET_FILES: Final = ("cpuset.cpus", "cpuset.mems")
_KILL_SECONDS: Final = 20.0
_TIMES: Final = 8
_SHARES: Final = 1024  # what version 1 gives a process or a group
_WEIGHT: Final = 100  # what version 2 gives a group


@dataclass(frozen=True)
class Hierarchy:
    """A mounted hierarchy: version 1 with its `controllers`, or the unified one with those that its root offers."""

    path: Path
    unified: bool
    controllers: frozenset[str]


def hierarchies(mounts: str | None = None) -> list[Hierarchy]:
    """The hierarchies that `mounts` (the text of /proc/mounts, read if absent) lists."""
    found = []
    for line in (Path("/proc/mounts").read_text() if mounts is None else mounts).splitlines():
        _, target, kind, options = line.split()[:4]
        path = Path(target)
        if kind == "cgroup":
            found.append(Hierarchy(path, False, frozenset(options.split(","))))
        elif kind == "cgroup2":
            found.append(Hierarchy(path, True, frozenset(_read(path / "cgroup.controllers").split())))
    return found


def missing_controllers(found: list[Hierarchy]) -> list[str]:
    """The controllers that the kubelet needs and no hierarchy has."""
    present = frozenset().union(*(h.controllers for h in found))
    return [name for name in _REQUIRED if name not in present]


def create(group: str) -> None:
    """Make `group` (a path below the root) in every hierarchy, with all that processes in it and below it need."""
    for h in hierarchies():
        if h.unified:
            _create_unified(h, group)
        else:
            _create_v1(h, group)


def raise_weight(group: str, *, unified: bool) -> None:
    """Let `group` count as several when CPUs are short; in the unified hierarchy only if `unified`.

    Version 1 gives a group no more than a single process beside it, however many are in the group. In version 2 there
    are only groups beside it.
    """
    for h in hierarchies():
        if not h.unified and "cpu" in h.controllers:
            (h.path / group / "cpu.shares").write_text(str(_TIMES * _SHARES))
        elif h.unified and unified and (h.path / group / "cpu.weight").exists():
            (h.path / group / "cpu.weight").write_text(str(_TIMES * _WEIGHT))


def enabled_at_root() -> list[str]:
    """The controllers that the unified hierarchy's root passes to its children now, and so does not because of us."""
    return [name for h in hierarchies() if h.unified for name in _read(h.path / "cgroup.subtree_control").split()]


def restore_root(enabled: list[str]) -> None:
    """Take back the controllers that `create` has passed on beyond `enabled`, unless others use them by now."""
    for h in hierarchies():
        if h.unified:
            for name in set(_read(h.path / "cgroup.subtree_control").split()) - set(enabled):
                _try_write(h.path / "cgroup.subtree_control", f"-{name}")


def join_script(group: str) -> str:
    """Shell commands by which a shell moves itself into `group` of every hierarchy."""
    return "\n".join(f"echo 0 > '{h.path / group}/cgroup.procs'" for h in hierarchies())


def processes(group: str) -> set[int]:
    """The processes in `group` and below it, in any hierarchy."""
    found: set[int] = set()
    for h in hierarchies():
        for directory, _, _ in os.walk(h.path / group):
            found.update(int(pid) for pid in _read(Path(directory) / "cgroup.procs").split())
    # 0 stands for a process that has no number in this PID namespace: not ours to end.
    return found - {0}


def kill_all(group: str) -> None:
    """End every process in `group` and wait until none is left; RigError names those that do not go."""
    deadline = time.monotonic() + _KILL_SECONDS
    while left := processes(group):
        if time.monotonic() > deadline:
            raise RigError(
                f"processes that do not end: {sorted(left)}", "look at them with ps -fp, then run `down` again"
            )
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def remove(group: str) -> None:
    """Remove `group` and all below it from every hierarchy; RigError if it stays in use."""
    deadline = time.monotonic() + _KILL_SECONDS
    for h in hierarchies():
        while (h.path / group).is_dir():
            busy = _remove_tree(h.path / group)
            if busy and time.monotonic() > deadline:
                raise RigError(f"control group {busy} is still in use", "run `down` again in a moment")
            if busy:
                time.sleep(0.1)


def exists(group: str) -> bool:
    """Whether any hierarchy has `group`."""
    return any((h.path / group).is_dir() for h in hierarchies())


def _create_v1(h: Hierarchy, group: str) -> None:
    path = h.path
    for part in Path(group).parts:
        parent, path = path, path / part
        path.mkdir(exist_ok=True)
        if "cpuset" in h.controllers:
            # A new cpuset is empty, and no process can enter it before it has CPUs and memory nodes.
            for name in _CPUSET_FILES:
                (path / name).write_text((parent / name).read_text())


def _create_unified(h: Hierarchy, group: str) -> None:
    path = h.path
    for part in Path(group).parts:
        for name in h.controllers:
            # Some cannot be passed on (cpu with real-time tasks, for one); the kubelet says if it needs them.
            _try_write(path / "cgroup.subtree_control", f"+{name}")
        path = path / part
        path.mkdir(exist_ok=True)


def _remove_tree(path: Path) -> Path | None:
    """Remove the groups from the leaves up; the one that is busy, if any."""
    for directory, _, _ in os.walk(path, topdown=False):
        try:
            Path(directory).rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return Path(directory)
    return None


def _read(path: Path) -> str:
    """The text of a control file; nothing if the group went away meanwhile."""
    try:
        return path.read_text()
    except (FileNotFoundError, OSError):
        return ""


def _try_write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError:
        return
