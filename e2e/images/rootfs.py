"""A Debian root file system to build an image on, and a way to run programs in it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.cluster.errors import RigError
from e2e.cluster.shell import communicate, last_lines, run
from e2e.images.oci import DEFAULT_PATH

# The release whose Python is 3.11: what is installed into the image is pinned for that version.
SUITE = "bookworm"
PYTHON = "3.11"
GLIBC = (2, 36)

# wget: KubeRay's readiness probes run it. procps: Ray's scripts call ps. libnuma1: vLLM's CPU kernels link it.
PACKAGES = ("python3", "wget", "procps", "ca-certificates", "libnuma1")

# Not needed at run time, or of the machine that built it: the container runtime fills /dev and /etc/resolv.conf.
_EMPTIED = (
    "dev",
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache/apt",
    "var/cache/debconf",
    "var/lib/apt/lists",
    "var/log",
)
_REMOVED = ("etc/hostname", "etc/resolv.conf", "etc/machine-id", "var/cache/ldconfig/aux-cache")


def bootstrap(root: Path) -> None:
    """Make a minimal Debian at `root` (absent or empty) with PACKAGES. Needs root, debootstrap and gpgv.

    Raises RigError with debootstrap's last lines where it fails.
    """
    options = ["--variant=minbase", "--force-check-gpg", f"--include={','.join(PACKAGES)}"]
    run(
        ["debootstrap", *options, SUITE, str(root), *_mirror()],
        hint="is Debian's archive reachable, and the package debian-archive-keyring installed?",
    )
    for name in _EMPTIED:
        directory = root / name
        shutil.rmtree(directory)
        directory.mkdir()
    for name in _REMOVED:
        (root / name).unlink(missing_ok=True)


def run_inside(root: Path, command: Sequence[str], *, mnt: Path | None = None) -> str:
    """Run `command` in the root file system and return what it printed; RigError with the last lines if it fails.

    `mnt` is a directory of the machine that is seen as /mnt.
    """
    process = start_inside(root, command, mnt=mnt)
    output, _ = communicate(process)
    if process.returncode != 0:
        said = last_lines(output)
        raise RigError(
            f"`{' '.join(command[:4])}` in the image's file system failed with {process.returncode}:\n{said}"
        )
    return output


def start_inside(
    root: Path, command: Sequence[str], *, mnt: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start `command` in the root file system, as `run_inside` does.

    It has the machine's devices, but processes and mounts of its own, no network but a loopback, and an empty /tmp that
    is also its home. When the returned process ends, everything that it started is killed. Standard output and error
    come through one pipe.
    """
    # A mount namespace of its own: whatever happens, no mount is left on the machine.
    steps = ['mount --rbind /dev "$0/dev"', 'mount --rbind /sys "$0/sys"', 'mount -t proc proc "$0/proc"']
    steps += ['mount -t tmpfs tmpfs "$0/tmp"', "ip link set lo up"]
    if mnt:
        steps.append(f'mount --bind {shlex.quote(str(mnt))} "$0/mnt"')
    script = "; ".join([*steps, 'exec chroot "$0" "$@"'])
    namespaces = ["--mount", "--pid", "--net", "--propagation", "private"]
    return subprocess.Popen(
        ["unshare", "--fork", "--kill-child", *namespaces, "sh", "-euc", script, str(root), *command],
        env={"PATH": DEFAULT_PATH, "HOME": "/tmp", **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _mirror() -> list[str]:
    """The archive that apt uses on this machine, if it serves our suite; else debootstrap's own default."""
    if shutil.which("apt-get"):
        wanted = ["--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian", f"Codename: {SUITE}"]
        found = subprocess.run(["apt-get", "indextargets", *wanted], capture_output=True, text=True, check=False)
        if found.stdout.strip():
            return [found.stdout.split()[0]]
    return []
