"""Settings of the whole machine that a kubelet changes, or that several nodes on it need."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

# What the kubelet writes at its start (setupKernelTunables in pkg/kubelet/cm/container_manager_linux.go).
_CHANGED_BY_KUBELET: Final = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
# Each container runtime, kubelet and watching program takes some: Debian's 128 instances are few for several nodes.
_RAISED: Final = {"fs/inotify/max_user_instances": 1024, "fs/inotify/max_user_watches": 524288}


def current() -> dict[str, str]:
    """All the settings that a cluster changes, as they are now."""
    return {name: _file(name).read_text().strip() for name in (*_CHANGED_BY_KUBELET, *_RAISED) if _file(name).exists()}


def raise_limits() -> None:
    """Raise what several nodes need more of; higher values stay."""
    for name, least in _RAISED.items():
        if int(_file(name).read_text()) < least:
            _file(name).write_text(str(least))


def restore(values: Mapping[str, str]) -> None:
    """Put back what `current` had read."""
    for name, value in values.items():
        if _file(name).read_text().strip() != value:
            _file(name).write_text(value)


def _file(name: str) -> Path:
    return Path("/proc/sys") / name
