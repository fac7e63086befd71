"""What this cluster changes on the machine, written down before it is done, so that any end can be cleared up."""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from e2e.cluster.processes import Process

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Options:
    """What `up` was asked for: how many real nodes, shapes of simulated ones, the GPUs that the last real one has, and
    whether NetworkPolicies are enforced."""

    nodes: int = 2
    simulate: tuple[str, ...] = ()
    claim_gpus: str = ""
    network_policies: bool = False

    def flags(self) -> str:
        """The options as they are typed."""
        words = [f"--nodes {self.nodes}", *(f"--simulate {shape}" for shape in self.simulate)]
        if self.claim_gpus:
            words.append(f"--claim-gpus {self.claim_gpus}")
        return " ".join([*words, "--network-policies"] if self.network_policies else words)

    def include(self, others: Options) -> bool:
        """Whether a cluster of these options has all that one of the others has."""
        return (
            self.nodes >= others.nodes
            and not Counter(others.simulate) - Counter(self.simulate)
            and others.claim_gpus in ("", self.claim_gpus)
            and self.network_policies >= others.network_policies
        )


@dataclass
class State:
    """The record of one cluster. `sysctls`, `directories` and `controllers` say what to put back at its end."""

    options: Options
    build: str
    boot: str = field(default_factory=lambda: boot_id())
    ready: bool = False
    sysctls: dict[str, str] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)
    controllers: list[str] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)

    @property
    def this_boot(self) -> bool:
        """Whether the machine has not been started again since: else no process and no setting of it can be left."""
        return self.boot == boot_id()

    def dead(self) -> list[str]:
        """The names of the processes that should run and do not."""
        return [process.name for process in self.processes if not (self.this_boot and process.alive)]


class Journal:
    """A State and its file. Each change is on disk when the call returns; threads may share one."""

    def __init__(self, path: Path, state: State) -> None:
        self.state = state
        self._path = path
        self._lock = threading.Lock()
        self.save()

    def add(self, process: Process) -> Process:
        """Record a process that was started, and return it."""
        with self._lock:
            self.state.processes.append(process)
        self.save()
        return process

    def save(self) -> None:
        """Write the record, all of it or nothing."""
        with self._lock:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial = self._path.with_suffix(".partial")
            partial.write_text(json.dumps(asdict(self.state), indent=1))
            partial.replace(self._path)


def load(path: Path) -> State | None:
    """The record at `path`, or None if there is none that can be read: then what is left is found without it."""
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        options = data.pop("options")
        processes = [Process(**entry) for entry in data.pop("processes")]
        return State(
            options=Options(**{**options, "simulate": tuple(options["simulate"])}),
            processes=processes,
            **data,
        )
    except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError):
        # A record of an older layout counts as none: everything but sysctls is found by name as well.
        return None


def boot_id() -> str:
    """The kernel's identifier of this boot."""
    return _BOOT_ID.read_text().strip()
