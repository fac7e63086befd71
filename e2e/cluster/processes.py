"""Processes that outlive the command that starts them, told apart from later ones that get the same number."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster import cgroups, interrupt
from e2e.cluster.errors import RigError
from e2e.cluster.layout import SYSTEM_CGROUP
from e2e.cluster.shell import last_lines

# A clean environment: no proxy, no credentials and no locale of the caller reach the cluster.
_ENVIRONMENT: Final = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}


@dataclass(frozen=True)
class Process:
    """A process that was started: `start` is its start time in clock ticks since boot (field 22 of /proc/PID/stat)."""

    name: str
    pid: int
    start: int
    log: str

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return _start_time(self.pid) == self.start


def start(
    name: str,
    argv: Sequence[str],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    group: str = SYSTEM_CGROUP,
) -> Process:
    """Start `argv` as a session of its own inside the control group, its output appended to `log`.

    `env` is added to a minimal environment. RigError if the process cannot even enter its group.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    script = f'{cgroups.join_script(group)}\nexec "$@"'
    with log.open("ab") as output:
        child = subprocess.Popen(
            ["/bin/sh", "-ec", script, "sh", *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**_ENVIRONMENT, **(env or {})},
            cwd=cwd or "/",
            start_new_session=True,
        )
    started = _start_time(child.pid)
    if started is None:
        raise RigError(f"{name} ended at once:\n{tail(log)}")
    return Process(name, child.pid, started, str(log))


def wait(ready: Callable[[], bool], what: str, seconds: float, needed: Sequence[Process], hint: str = "") -> None:
    """Wait until `ready()`; RigError after `seconds` (with `hint`), or as soon as a `needed` process has ended.

    A `ready` that raises OSError, as a server that cannot be asked makes it, counts as not ready. KeyboardInterrupt
    if an interrupt is noted meanwhile.
    """
    deadline = time.monotonic() + seconds
    while not _holds(ready):
        interrupt.check()
        for process in needed:
            if not process.alive:
                raise RigError(f"{process.name} ended while the cluster waited for {what}:\n{tail(Path(process.log))}")
        if time.monotonic() > deadline:
            raise RigError(f"waited {seconds:.0f} s for {what} in vain", hint)
        time.sleep(0.1)


def _holds(ready: Callable[[], bool]) -> bool:
    try:
        return ready()
    except OSError:
        # A server that was asked does not answer (yet, or any more: its process tells).
        return False


def tail(log: Path) -> str:
    """The last lines of a log."""
    return last_lines(log.read_text(errors="replace")) if log.exists() else "(no log)"


def _start_time(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat; None if the process is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, field 2, may itself hold blanks and parentheses.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
