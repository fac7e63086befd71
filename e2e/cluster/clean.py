"""Take a cluster away, however it ended: what it made on this machine goes, what it changed is put back."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from e2e.cluster import cgroups, network, state, sysctls
from e2e.cluster.errors import RigError
from e2e.cluster.layout import CGROUP, IMPORT_CGROUP, Run

_GROUPS: Final = (CGROUP, IMPORT_CGROUP)


def anything_left(run: Run) -> bool:
    """Whether anything of a cluster is on this machine."""
    return run.directory.exists() or any(map(cgroups.exists, _GROUPS)) or bool(network.links())


def clear(run: Run) -> None:
    """Remove the cluster and wait until it is gone; RigError names what does not go. Doing it again does no harm."""
    record = state.load(run.state)
    for group in _GROUPS:
        cgroups.kill_all(group)
    network.remove()
    for group in _GROUPS:
        cgroups.remove(group)
    if record is not None:
        if record.this_boot:
            sysctls.restore(record.sysctls)
            cgroups.restore_root(record.controllers)
        for directory in reversed(record.directories):
            _remove_if_empty(Path(directory))
    _remove_files(run.directory)


def missing_directories(paths: Iterable[str]) -> list[str]:
    """The directories of `paths`, and their parents, that do not exist, outermost first."""
    return [str(part) for path in map(Path, paths) for part in (*reversed(path.parents), path) if not part.exists()]


def _remove_if_empty(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError:
        # Someone else uses it by now, or it went already.
        return


def _remove_files(directory: Path) -> None:
    # Nodes mount in namespaces of their own; a mount seen from here means that something else is going on, and deleting
    # through it could destroy what is not ours.
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    inside = [target for target in mounted if Path(target).is_relative_to(directory)]
    if inside:
        raise RigError(f"mounted below {directory}: {', '.join(inside)}", f"umount {' '.join(inside)}")
    if directory.exists():
        shutil.rmtree(directory)
