"""The Python packages of the serving image: exactly those of the lock file, made small, and compiled."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster.progress import Progress
from e2e.cluster.shell import run
from e2e.images import rootfs
from e2e.images.cuda_stubs import replace_cuda

LOCK = Path(__file__).with_name("requirements.lock")

# Debian's Python looks here for what its packages did not bring.
SITE_PACKAGES = Path("usr/local/lib/python" + rootfs.PYTHON, "dist-packages")

# C++ headers, Ray's Java and the launchers of console scripts (they name the Python that installed them).
_DROPPED = ("bin", "share", "torch/include", "ray/jars", "pyarrow/include")

# Built with debugging symbols: 400 MB less without.
_STRIPPED = ("vllm/*.so", "torch/lib/libtorch_cpu.so", "ray/_raylet.so")

# Imported seldom or never by a server, and large; Python still runs them from source.
_NOT_COMPILED = r"/(transformers/models|ray/rllib|torch/testing|sympy/physics|pygments/lexers)/"

# Images have no file times, so the compiled files must not depend on them (PEP 552, unchecked hash).
COMPILE = (
    *("python3", "-m", "compileall", "-qq", "-j", "0", "-f", "--invalidation-mode", "unchecked-hash"),
    *("-x", _NOT_COMPILED),
)


def install(root: Path, progress: Progress) -> None:
    """Install the locked packages into the root file system at `root`; their Python files are not compiled.

    Runs pip of this Python for the image's Python and C library, so that the machine's own versions do not matter.
    Downloads go through pip's cache. Needs gcc and binutils. Raises RigError where a step fails.
    """
    site = root / SITE_PACKAGES
    site.mkdir(parents=True, exist_ok=True)
    progress("serving image: installing Python packages (Ray, vLLM, torch)")
    # pip unpacks gigabytes before it moves them into place: on the file system of the target, not in /tmp.
    with tempfile.TemporaryDirectory(dir=root.parent) as scratch:
        hint = "is the package index reachable, and pip part of this Python?"
        run(pip_command(site), env={**os.environ, "TMPDIR": scratch}, hint=hint)
    progress("serving image: leaving out CUDA")
    replace_cuda(site / "torch" / "lib")
    _shrink(site)


def pip_command(site: Path) -> list[str]:
    """The pip command that installs exactly the lock file into `site`, checking every digest."""
    return [
        *(
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--root-user-action=ignore",
        ),
        *("--no-deps", "--require-hashes", "--no-compile", "--target", str(site), *target_options()),
        *("--requirement", str(LOCK)),
    ]


def target_options() -> list[str]:
    """pip's options that select wheels for the image's Python and C library on x86-64, whatever Python runs pip."""
    major, newest = rootfs.GLIBC
    legacy = ["manylinux2014", "manylinux2010", "manylinux1"]
    platforms = [f"manylinux_{major}_{minor}" for minor in range(newest, 4, -1)] + legacy
    return [
        *("--only-binary=:all:", "--python-version", rootfs.PYTHON, "--implementation", "cp"),
        *(word for abi in ("cp" + rootfs.PYTHON.replace(".", ""), "abi3", "none") for word in ("--abi", abi)),
        *(word for platform in platforms for word in ("--platform", f"{platform}_x86_64")),
    ]


def compile_files(root: Path, layer: Path | None = None) -> None:
    """Compile the image's Python files ahead: it takes a third of the time to import vLLM.

    layer: compile the packages of a layer above `root` instead.
    """
    if layer is None:
        directories = ["/usr/lib/python" + rootfs.PYTHON, "/usr/lib/python3", f"/{SITE_PACKAGES}"]
        rootfs.run_inside(root, [*COMPILE, *directories])
    else:
        rootfs.run_inside(root, [*COMPILE, "-s", "/mnt", "-p", "/", f"/mnt/{SITE_PACKAGES}"], mnt=layer)


def _shrink(site: Path) -> None:
    for name in _DROPPED:
        shutil.rmtree(site / name)
    for directory in _test_directories(site):
        shutil.rmtree(directory)
    run(["strip", "--strip-unneeded", *(path for pattern in _STRIPPED for path in sorted(site.glob(pattern)))])


def _test_directories(site: Path) -> Iterator[Path]:
    """The packages' own tests, outermost directories only."""
    for path in sorted(site.rglob("tests")):
        if path.is_dir() and "tests" not in path.relative_to(site).parts[:-1]:
            yield path
