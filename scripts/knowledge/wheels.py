"""Wheels of the package index, each pinned by its digest, with their Python sources kept outside of the checkout.

`wheels.lock` beside this file has a line for every wheel that the committed data was read from. A wheel that it does
not list is downloaded, and its digest added: the next one who runs this gets the same file or an error.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

from e2e.cluster import cache

LOCK = Path(__file__).with_name("wheels.lock")

_KIND = "pinned-sources"
_PYTHON = "3.12"
"""The Python of Ray's public images."""

_PLATFORMS = (*(f"manylinux_2_{minor}" for minor in range(39, 4, -1)), "manylinux2014", "manylinux2010", "manylinux1")


class WheelMissing(Exception):
    """A wheel can be had neither from the cache nor from the package index, or it is not the one that is pinned."""


def pinned() -> dict[tuple[str, str], str]:
    """Digests by package and version."""
    lines = LOCK.read_text(encoding="utf-8").splitlines() if LOCK.is_file() else ()
    found = (re.fullmatch(r"([\w.-]+)==(\S+) --hash=sha256:([0-9a-f]{64})", line) for line in lines)
    return {(match[1], match[2]): match[3] for match in found if match}


def package_sources(package: str, version: str) -> Path:
    """The folder of the Python files and the metadata of one version, from its wheel. Raises WheelMissing."""
    digest = pinned().get((package, version))
    if digest is not None:
        return cache.ensure(
            _KIND, f"{package}-{version}-{digest[:16]}", lambda folder: _unpack(package, version, folder)
        )
    with tempfile.TemporaryDirectory() as scratch:
        wheel = _download(package, version, Path(scratch))
        digest = _digest(wheel)
        _pin(package, version, digest)
        return cache.ensure(_KIND, f"{package}-{version}-{digest[:16]}", lambda folder: _extract(wheel, folder))


def requirements(package: str, version: str) -> list[str]:
    """What a wheel requires, with the conditions of its extras. Raises WheelMissing."""
    (metadata,) = package_sources(package, version).glob("*.dist-info/METADATA")
    return HeaderParser().parsestr(metadata.read_text(encoding="utf-8")).get_all("Requires-Dist") or []


def _unpack(package: str, version: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        wheel = _download(package, version, Path(scratch))
        if _digest(wheel) != pinned()[package, version]:
            raise WheelMissing(f"{wheel.name} is not the file that {LOCK.name} pins")
        _extract(wheel, folder)


def _extract(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith((".py", ".dist-info/METADATA"))]
        archive.extractall(folder, names)


def _download(package: str, version: str, folder: Path) -> Path:
    chosen = ["--python-version", _PYTHON, "--only-binary=:all:", "--no-deps"]
    for platform in _PLATFORMS:
        chosen += ["--platform", f"{platform}_x86_64"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    ended = subprocess.run(
        [*command, *chosen, "--dest", str(folder), f"{package}=={version}"], capture_output=True, text=True, check=False
    )
    if ended.returncode:
        reason = next(iter(reversed(ended.stderr.strip().splitlines())), f"pip ended with {ended.returncode}")
        raise WheelMissing(f"the wheel of {package} {version} cannot be downloaded, and is not in the cache: {reason}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _pin(package: str, version: str, digest: str) -> None:
    lines = set(LOCK.read_text(encoding="utf-8").splitlines()) if LOCK.is_file() else set()
    lines.add(f"{package}=={version} --hash=sha256:{digest}")
    LOCK.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")
