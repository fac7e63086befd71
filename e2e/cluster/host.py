"""What the machine must have, checked before anything is changed on it, and the Debian packages that are missing."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from e2e.cluster import cache, cgroups, layout
from e2e.cluster.errors import RigError
from e2e.cluster.progress import Progress
from e2e.cluster.shell import run
from e2e.images import redis, serving

# Program that is needed -> Debian and Ubuntu package that has it.
PACKAGES: Final = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "iptables": "iptables",
    "ipset": "ipset",
    "ip": "iproute2",
    "conntrack": "conntrack",
    "socat": "socat",
    "ethtool": "ethtool",
    "openssl": "openssl",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    **redis.NEEDS,
    **serving.NEEDS,
}
_CNI_PACKAGE: Final = "containernetworking-plugins"
_CNI_DIRECTORIES: Final = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
_CNI_PLUGINS: Final = ("bridge", "host-local", "loopback", "portmap")
# What sudo and a plain user's shell leave out of PATH.
_MORE_PATH: Final = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin"

_GIB: Final = 1024**3
_OLDEST_GO: Final = (1, 21)  # The first that fetches the newer toolchain which a module asks for.
_MEMORY_GIB: Final = 4  # Two nodes and the control plane take 1.4; the rest is for the first pods.
_DISK_GIB_COLD: Final = 30  # Go's caches 9.5, the serving image in its three forms, and room to make them.
_DISK_GIB_WARM: Final = 5


def check(*, cold: bool) -> None:
    """Raise RigError with all that is missing on this machine; `cold` if binaries and images are still to be made."""
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:{_MORE_PATH}"
    problems = [*_system_problems(), *_resource_problems(cold=cold)]
    if cold:
        problems += _go_problems()
    if problems:
        raise RigError("this machine lacks what the cluster needs:\n" + "\n".join(f"  - {line}" for line in problems))


def check_addresses() -> None:
    """Raise RigError if a network of the cluster is already in use on this machine."""
    ours = [
        ipaddress.ip_network(text)
        for text in (layout.NODE_RANGE, layout.POD_RANGE, layout.SERVICE_RANGE, layout.SIMULATED_POD_RANGE)
    ]
    for route in json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"]) or "[]"):
        if route["dst"] == "default" or route.get("dev") == layout.BRIDGE:
            continue
        taken = ipaddress.ip_network(route["dst"], strict=False)
        if taken.prefixlen and any(taken.overlaps(network) for network in ours):
            raise RigError(
                f"the route {taken} of device {route.get('dev', '?')} overlaps with the cluster's networks "
                f"({', '.join(map(str, ours))})",
                "stop what uses it (a VPN, another cluster), then try again",
            )


def install_packages(progress: Progress) -> None:
    """Install the Debian packages whose programs are missing; RigError where there is no apt-get or it fails."""
    missing = missing_packages()
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise RigError(
            f"missing: {', '.join(missing)} (names of Debian packages), and there is no apt-get to install them",
            "use Debian or Ubuntu, or install what these packages hold",
        )
    progress(f"installing {' '.join(missing)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "-q", "update"], env=env, hint="are apt's sources and the network in order?")
    run(["apt-get", "-qy", "--no-install-recommends", "install", *missing], env=env)
    still = missing_packages()
    if still:
        raise RigError(f"after the installation these packages' programs are still missing: {', '.join(still)}")


def missing_packages() -> list[str]:
    """The packages whose programs are not found, sorted."""
    missing = {package for program, package in PACKAGES.items() if not shutil.which(program)}
    if cni_directory() is None:
        missing.add(_CNI_PACKAGE)
    return sorted(missing)


def cni_directory() -> Path | None:
    """Where the CNI plugins are, or None."""
    for directory in _CNI_DIRECTORIES:
        if all((directory / plugin).exists() for plugin in _CNI_PLUGINS):
            return directory
    return None


def _system_problems() -> list[str]:
    if sys.platform != "linux":
        return ["Linux (Debian or Ubuntu)"]
    if os.geteuid() != 0:
        return ["root: run it with sudo, or in a shell of root"]
    problems = []
    if "overlay" not in Path("/proc/filesystems").read_text() and _fails(["modprobe", "overlay"]):
        problems.append("overlayfs in the kernel (modprobe overlay failed)")
    if not Path("/proc/sys/net/bridge").exists() and _fails(["modprobe", "br_netfilter"]):
        problems.append("br_netfilter in the kernel (modprobe br_netfilter failed)")
    if missing := cgroups.missing_controllers(cgroups.hierarchies()):
        problems.append(f"control group controllers {', '.join(missing)} (none mounted under /sys/fs/cgroup)")
    if shutil.which("unshare") and _fails(["unshare", "--mount", "--net", "--pid", "--fork", "true"]):
        problems.append("the right to make namespaces (in a container: run it privileged)")
    return problems


def _resource_problems(*, cold: bool) -> list[str]:
    problems = []
    directory = cache.root()
    directory.mkdir(parents=True, exist_ok=True)
    disk = _DISK_GIB_COLD if cold else _DISK_GIB_WARM
    free = shutil.disk_usage(directory).free
    if free < disk * _GIB:
        problems.append(
            f"{disk} GiB of disk in {directory} ({free / _GIB:.1f} are free; XDG_CACHE_HOME names another place)"
        )
    if _file_system(directory) == "overlay":
        problems.append(f"a cache on a plain file system: {directory} is on overlayfs, set XDG_CACHE_HOME")
    if len(str(layout.current_run().directory)) > layout.LONGEST_RUN_PATH:
        problems.append(f"a shorter path than {directory} (sockets below it would exceed 107 characters)")
    if any(directory.is_relative_to(hidden) for hidden in ("/run", "/var/log", "/var/lib/kubelet", "/var/lib/cni")):
        problems.append(f"a cache elsewhere than {directory}: nodes mount their own directories there")
    memory = _memory_available()
    if memory < _MEMORY_GIB * _GIB:
        problems.append(f"{_MEMORY_GIB} GiB of memory ({memory / _GIB:.1f} are available)")
    return problems


def _go_problems() -> list[str]:
    wanted = "Go 1.21 or newer to build Kubernetes (https://go.dev/dl, then put go/bin on PATH"
    try:
        said = run(["go", "version"])
    except RigError:
        return [f"{wanted}; `go` was not found)"]
    version = go_version(said)
    if version < _OLDEST_GO:
        return [f"{wanted}; this is {'.'.join(map(str, version))})"]
    return []


def go_version(said: str) -> tuple[int, int]:
    """Major and minor from the output of `go version`; (0, 0) if it is not understood."""
    match = re.search(r"\bgo(\d+)\.(\d+)", said)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _memory_available() -> int:
    match = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def _file_system(path: Path) -> str:
    return run(["findmnt", "-no", "FSTYPE", "-T", path]).strip()


def _fails(argv: list[str]) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, check=False).returncode != 0
    except FileNotFoundError:
        return True
