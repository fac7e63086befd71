"""What is slow to make is made once: directories keyed by kind and key, outside the checkout.

An entry is complete or absent: it is made in a temporary directory under a lock and renamed into place, so a process
that dies half-way leaves nothing that could be taken for a result.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def root() -> Path:
    """The cache directory: rayllm-ctl/e2e in `$XDG_CACHE_HOME`, or in `~/.cache` if that is unset or not absolute."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG base directory specification: a relative path is invalid and ignored.
    return (base if base.is_absolute() else Path.home() / ".cache") / "rayllm-ctl" / "e2e"


def entry(kind: str, key: str) -> Path:
    """Where the entry of `kind` with `key` lies, whether it exists or not.

    Raises ValueError for a kind or key that is not a plain file name (letters, digits, `.`, `_`, `+`, `-`).
    """
    for part in (kind, key):
        if not _SAFE.fullmatch(part):
            raise ValueError(f"not a plain file name: {part!r}")
    return root() / kind / key


def ensure(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """The complete entry of `kind` with `key`; if absent, `make(directory)` fills an empty directory that becomes it.

    Processes that want the same entry wait for the one that makes it. What `make` raises passes through, and the entry
    stays absent. `key` must contain all that the content depends on: versions, and a digest of the recipe's inputs.
    """
    target = entry(kind, key)
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target):
        if target.is_dir():
            return target
        _remove_abandoned(target.parent, holding=key)
        work = _work_directory(target)
        work.mkdir()
        try:
            make(work)
            work.rename(target)
        finally:
            if work.exists():
                shutil.rmtree(work)
    return target


def _work_directory(target: Path) -> Path:
    return target.with_name(f".{target.name}.making")


def _lock_file(target: Path) -> Path:
    return target.with_name(f".{target.name}.lock")


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    # The lock file stays: removing it would let a waiter and a newcomer hold "the" lock of two different files.
    with _lock_file(target).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_abandoned(directory: Path, holding: str) -> None:
    """Remove the work directories that no living process makes: those whose lock is ours or free."""
    for work in directory.glob(".*.making"):
        name = work.name.removeprefix(".").removesuffix(".making")
        if name == holding:
            shutil.rmtree(work)
            continue
        with _lock_file(directory / name).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(work)
