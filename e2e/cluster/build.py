"""Programs built by Go from pinned modules, each module once per version and recipe."""

from __future__ import annotations

import concurrent.futures
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

CLUSTER_MODULES: Final = (
    modules.KUBERNETES,
    modules.ETCD,
    modules.KUBERAY,
    modules.COREDNS,
    modules.KWOK,
    modules.KUBE_ROUTER,
)

_KIND: Final = "build"
_GO_HINT: Final = (
    "is there a way to the Go module proxy (GOPROXY), and room on the disk? The build goes on where it stopped"
)
# Two at a time: while one downloads or links, the other compiles. The compiler fills the cores by itself.
_AT_ONCE: Final = 2
_PAUSE: Final = Path(__file__).parent / "pause" / "main.go"
_PAUSE_FLAGS: Final = ("-trimpath", "-ldflags=-s -w")


def complete() -> bool:
    """Whether all that the cluster needs is built."""
    return all(cache.entry(_KIND, module.key).is_dir() for module in CLUSTER_MODULES) and _pause_entry().is_dir()


def digest() -> str:
    """A short name for this set of programs."""
    keys = [*(module.key for module in CLUSTER_MODULES), _pause_entry().name]
    return hashlib.sha256(" ".join(keys).encode()).hexdigest()[:12]


def build_all(progress: Progress) -> None:
    """Build what is missing of the cluster's programs; RigError with the compiler's words if one fails."""
    if complete():
        return
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        jobs = [pool.submit(ensure, module, progress) for module in CLUSTER_MODULES]
        jobs.append(pool.submit(pause))
        try:
            for job in concurrent.futures.as_completed(jobs):
                job.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def ensure(module: Module, progress: Progress) -> Path:
    """The directory with the programs of `module` (and its kept folders), built first if it is not in the cache."""
    return cache.ensure(_KIND, module.key, lambda out: _build(module, out, progress))


def program(module: Module, name: str) -> Path:
    """The path of a program that has been built."""
    return cache.entry(_KIND, module.key) / name


def pause() -> Path:
    """The program that only waits, built if need be."""

    def make(out: Path) -> None:
        _go(["build", *_PAUSE_FLAGS, "-o", out / "pause", _PAUSE], out)

    return cache.ensure(_KIND, _pause_entry().name, make) / "pause"


def _pause_entry() -> Path:
    return cache.entry(_KIND, f"pause-{hashlib.sha256(_PAUSE.read_bytes()).hexdigest()[:8]}")


def _build(module: Module, out: Path, progress: Progress) -> None:
    start = time.monotonic()
    progress(f"building {module.name} {module.version} (first time only)")
    source = _download(module, out)
    work = out / ".module"
    work.mkdir()
    (work / "go.mod").write_text(modules.wrapper(module, (source / "go.mod").read_text()))
    # The module's own checksums of what it requires; Go adds and verifies the rest.
    shutil.copyfile(source / "go.sum", work / "go.sum")
    (work / "go.sum").chmod(0o644)
    programs = work / "programs"
    flags = ["-mod=mod", "-trimpath", "-ldflags", module.ldflags]
    with repeating(progress, f"still building {module.name}"):
        _go(["build", *flags, "-o", f"{programs}/", *module.packages.values()], work)
    for name, package in module.packages.items():
        (programs / _go_name(package)).rename(out / name)
    for folder in module.folders:
        shutil.copytree(source / folder, out / folder, copy_function=shutil.copyfile)
        for path in [out / folder, *(out / folder).rglob("*")]:
            # The module cache is read-only, and its modes would make the entry hard to remove.
            path.chmod(0o755 if path.is_dir() else 0o644)
    shutil.rmtree(work)
    progress(f"built {module.name} {module.version} in {time.monotonic() - start:.0f} s")


def _download(module: Module, work: Path) -> Path:
    """The source of the module in Go's module cache."""
    answer = json.loads(_go(["mod", "download", "-json", f"{module.path}@v{module.version}"], work))
    return Path(answer["Dir"])


def _go_name(package: str) -> str:
    """The file name that Go gives to a package's program: its last element, before a major version suffix."""
    name, _, last = package.rpartition("/")
    return name.rpartition("/")[2] if last.startswith("v") and last[1:].isdigit() else last


def _go(arguments: Sequence[str | Path], cwd: Path) -> str:
    # Tests that need a program of their own build it while others run.
    return run(["nice", "-n", "10", "go", *arguments], cwd=cwd, env={**os.environ, "CGO_ENABLED": "0"}, hint=_GO_HINT)
