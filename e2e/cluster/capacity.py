"""What a real node says it has: more CPUs, and for a claimed GPU shape more memory, than this machine.

The scheduler places by requests alone, and pods shaped for GPU nodes ask for more CPUs than a small machine has, even
if they hardly use them here. The kubelet counts CPUs in /sys/devices/system and reads the memory from /proc/meminfo
(cadvisor's machine/info.go and utils/sysinfo/sysinfo.go), so a node shows it other files there, in its own mount
namespace. Pods are not deceived: runc mounts a fresh /proc and /sys for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

NODE_CPUS: Final = 16
_CPU: Final = Path("/sys/devices/system/cpu")
_NUMA: Final = Path("/sys/devices/system/node")
_MEMINFO: Final = Path("/proc/meminfo")


@dataclass(frozen=True)
class Claim:
    """What a node claims: CPUs, memory in bytes (None: the machine's own), labels, and extended resources by name."""

    cpus: int = NODE_CPUS
    memory: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    extended: Mapping[str, str] = field(default_factory=dict)


def disguise(claim: Claim, directory: Path) -> list[tuple[Path, Path]]:
    """Write the files that show `claim` to the kubelet below `directory`; the bind mounts (source, target) for them."""
    numa, cpu = directory / "numa", directory / "cpu"
    # Without NUMA nodes the CPUs are counted by their directories.
    numa.mkdir(parents=True)
    for number in range(claim.cpus):
        (cpu / f"cpu{number}").mkdir(parents=True)
    for file in _CPU.iterdir():
        if file.is_file() and file.stat().st_mode & 0o444:
            _copy(file, cpu / file.name)
    mounts = [(numa, _NUMA), (cpu, _CPU)]
    if claim.memory is not None:
        meminfo = directory / "meminfo"
        meminfo.write_text(with_total(_MEMINFO.read_text(), claim.memory))
        mounts.append((meminfo, _MEMINFO))
    return mounts


def with_total(meminfo: str, memory: int) -> str:
    """The text of /proc/meminfo with `memory` bytes in all, the amount in use unchanged."""
    more = memory // 1024 - _kib(meminfo, "MemTotal")
    for name in ("MemTotal", "MemFree", "MemAvailable"):
        value = _kib(meminfo, name) + more
        meminfo = re.sub(rf"^{name}:.*$", f"{name}: {value:>14} kB", meminfo, flags=re.MULTILINE)
    return meminfo


def _kib(meminfo: str, name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB$", meminfo, re.MULTILINE)
    if match is None:
        raise ValueError(f"no {name} in /proc/meminfo")
    return int(match[1])


def _copy(source: Path, target: Path) -> None:
    try:
        target.write_bytes(source.read_bytes())
    except OSError:
        # Some control files refuse to be read; nothing that counts CPUs needs them.
        return
