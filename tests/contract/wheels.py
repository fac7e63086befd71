"""What published wheels define, without installing them.

Wheels are downloaded once, and their sources kept outside of the checkout; so is what was asked of them, since reading
the sources of all versions takes seconds.
"""

from __future__ import annotations

import hashlib
import inspect
import pickle
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from e2e.cluster import cache
from scripts.knowledge.wheels import pinned
from tests.contract.library import Fact, Library

_AT_ONCE = 4
_FACTS = "wheel-facts"
_RECIPE = 1
"""Part of the key: to be raised when other files are kept."""

_UNREAD = ("ray/rllib/", "ray/tune/", "ray/train/", "ray/thirdparty_files/", "ray/_private/runtime_env/agent/")
_MODELS, _AUTO = "transformers/models/", "transformers/models/auto/"
"""Each architecture has its files there; together they are nine tenths of the wheel."""


class WheelMissing(Exception):
    """A wheel can be had neither from the cache nor from the package index."""


def facts(package: str, versions: Iterable[str], paths: Iterable[str]) -> dict[str, dict[str, Fact]]:
    """What each version has of `paths`, by version and path. Raises WheelMissing."""
    wanted, asked = list(versions), sorted(set(paths))
    unread = [version for version in wanted if not cache.entry(_FACTS, _key(package, version, asked)).is_dir()]
    with ThreadPoolExecutor(_AT_ONCE) as downloads:
        list(downloads.map(lambda version: sources(package, version), unread))
    # One after the other: Python 3.11 cannot parse in several threads at once (python/cpython#106905).
    return {version: _facts(package, version, asked) for version in wanted}


def _facts(package: str, version: str, paths: list[str]) -> dict[str, Fact]:
    def make(folder: Path) -> None:
        library = Library(package, sources(package, version))
        (folder / "facts.pickle").write_bytes(pickle.dumps({path: library.fact(path) for path in paths}))
        library.close()

    entry = cache.ensure(_FACTS, _key(package, version, paths), make)
    found: dict[str, Fact] = pickle.loads((entry / "facts.pickle").read_bytes())
    return found


def _key(package: str, version: str, paths: list[str]) -> str:
    reader = Path(inspect.getfile(Library)).read_bytes()
    question = hashlib.sha256(reader + "\n".join(paths).encode()).hexdigest()[:16]
    return f"{package}-{version}-{_RECIPE}-{question}"


def sources(package: str, version: str) -> Path:
    """An archive of the sources of one version. Raises WheelMissing."""

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            _keepsources(_download(package, version, Path(scratch)), folder / "sources.zip")

    return cache.ensure("wheel-sources", f"{package}-{version}-{_RECIPE}", make) / "sources.zip"


def _download(package: str, version: str, folder: Path) -> Path:
    """The wheel for the platform and the Python of Ray's public images."""
    platform = ["--platform", "manylinux2014_x86_64", "--python-version", "3.12", "--only-binary=:all:", "--no-deps"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", *platform]
    ended = subprocess.run(
        [*command, "--dest", str(folder), f"{package}=={version}"], capture_output=True, text=True, check=False
    )
    if ended.returncode:
        reason = next(iter(reversed(ended.stderr.strip().splitlines())), f"pip ended with {ended.returncode}")
        raise WheelMissing(f"the wheel of {package} {version} cannot be downloaded, and is not in the cache: {reason}")
    (wheel,) = folder.glob("*.whl")
    digest = pinned().get((package, version))
    if digest is not None and hashlib.sha256(wheel.read_bytes()).hexdigest() != digest:
        raise WheelMissing(f"{wheel.name} is not the file that scripts/knowledge/wheels.lock pins")
    return wheel


def _keepsources(wheel: Path, archive: Path) -> None:
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as kept:
        for name in whole.namelist():
            if name.endswith((".py", ".pyi")) and _is_read(name):
                kept.writestr(name, whole.read(name))


def _is_read(name: str) -> bool:
    if name.startswith(_MODELS):
        return name.startswith(_AUTO) or name.count("/") == 2
    return not name.startswith(_UNREAD)
