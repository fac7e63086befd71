"""Programs built by Go from pinned modules, each module once per version and recipe."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from e2e.cluster import cache, modules
from e2e.cluster.modules import Module
from e2e.cluster.progress import Progress, repeating
from e2e.cluster.shell import run
from e2e.cluster.state import Options

_KIND: Final = "build"
_GO_HINT: Final = (
    "is there a way to the Go module proxy (GOPROXY), and room on the disk? The build continues where it stopped"
)
# No debugger will see these programs: without DWARF the compiler takes a sixth less time. Large packages take a fifth
# less again where it collects garbage seldom; never would save no more, and takes more memory.
_FLAGS: Final = ("-mod=mod", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false")
_ENVIRONMENT: Final = {"CGO_ENABLED": "0", "GOGC": "400"}


def needed(options: Options) -> list[Module]:
    """The modules that a cluster of `options` is built from, those that take longest first."""
    optional = [(modules.KWOK, bool(options.simulate)), (modules.KUBE_ROUTER, options.network_policies)]
    return [modules.KUBERNETES, modules.KUBERAY, *(module for module, wanted in optional if wanted)]


def missing(options: Options) -> list[Module]:
    """Those of them that are still to be built."""
    return [module for module in needed(options) if not cache.entry(_KIND, module.key).is_dir()]


def digest(options: Options) -> str:
    """A short name for the programs of a cluster of `options`."""
    keys = [module.key for module in needed(options)]
    return hashlib.sha256(" ".join(keys).encode()).hexdigest()[:12]


def ensure(module: Module, progress: Progress) -> Path:
    """The directory with the programs of `module` (and its kept folders), built first if it is not in the cache."""
    return cache.ensure(_KIND, module.key, lambda out: _build(module, out, progress))


def program(module: Module, name: str) -> Path:
    """The path of a program that has been built."""
    return cache.entry(_KIND, module.key) / name


def _build(module: Module, out: Path, progress: Progress) -> None:
    start = time.monotonic()
    progress(f"building {module.name} {module.version} (first time only)")
    work = out / ".module"
    work.mkdir()
    source = _download(module.path, module.version, work)
    companions = [_download(path, version, work) for path, version in module.companions.items()]
    texts = [(companion / "go.mod").read_text() for companion in companions]
    (work / "go.mod").write_text(modules.wrapper(module, (source / "go.mod").read_text(), texts))
    # The modules' own checksums of what they require; Go adds and verifies the rest.
    sums = {line for each in (source, *companions) for line in (each / "go.sum").read_text().splitlines(keepends=True)}
    (work / "go.sum").write_text("".join(sorted(sums)))
    for name in module.own_packages:
        shutil.copytree(modules.PROGRAMS / name, work / name)
    programs = work / "programs"
    with repeating(progress, f"still building {module.name}"):
        _go(["build", *_FLAGS, "-ldflags", module.ldflags, "-o", f"{programs}/", *module.packages.values()], work)
    for name, package in module.packages.items():
        (programs / _go_name(package)).rename(out / name)
    for name, target in module.links.items():
        (out / name).symlink_to(target)
    for folder in module.folders:
        shutil.copytree(source / folder, out / folder, copy_function=shutil.copyfile)
        for path in [out / folder, *(out / folder).rglob("*")]:
            # The module cache is read-only, and its modes would make the entry hard to remove.
            path.chmod(0o755 if path.is_dir() else 0o644)
    shutil.rmtree(work)
    progress(f"built {module.name} {module.version} in {time.monotonic() - start:.0f} s")


def _download(path: str, version: str, work: Path) -> Path:
    """The source of a module in Go's module cache."""
    answer = json.loads(_go(["mod", "download", "-json", f"{path}@v{version}"], work))
    return Path(answer["Dir"])


def _go_name(package: str) -> str:
    """The file name that Go gives to a package's program: its last element, before a major version suffix."""
    name, _, last = package.rpartition("/")
    return name.rpartition("/")[2] if last.startswith("v") and last[1:].isdigit() else last


def _go(arguments: Sequence[str | Path], cwd: Path) -> str:
    # Tests that need a program of their own build it while others run.
    return run(["nice", "-n", "10", "go", *arguments], cwd=cwd, env={**os.environ, **_ENVIRONMENT}, hint=_GO_HINT)
