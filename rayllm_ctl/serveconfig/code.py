"""A folder of Python files as the data of a ConfigMap, which the pods mount on the Python path."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass

MAX_BYTES = 1024 * 1024
"""Kubernetes' limit of the data of a ConfigMap (ValidateConfigMap of k8s.io/kubernetes)."""

MOUNT_PATH = "/opt/rayllm/code"

_SKIPPED = frozenset({"__pycache__", "node_modules", "venv"})
_INSTEAD = (
    "an image with the code: --image REGISTRY/IMAGE:TAG",
    "runtime_env.working_dir in the file: a remote archive, such as https://HOST/code.zip",
)


@dataclass(frozen=True)
class Code:
    """Files by the keys of a ConfigMap. paths: key -> path below the folder. digest: of all of it, for the name."""

    data: Mapping[str, str]
    paths: Mapping[str, str]
    digest: str


def read_code(*folders: Path) -> Code:
    """The files of `folders` as one: not hidden ones, not caches. UsageError if a ConfigMap cannot hold them."""
    files: dict[str, Path] = {}
    for folder in folders:
        for name, path in _files(folder).items():
            if name in files and files[name] != path:
                raise UsageError(
                    f"{files[name]} and {path} would be the same file in the pods", hint="rename one of them"
                )
            files[name] = path
    size = sum(path.stat().st_size for path in files.values())
    if size > MAX_BYTES:
        where = " and ".join(map(str, folders))
        raise UsageError(
            f"{where} is too large for a ConfigMap: {len(files)} files, {size:,} bytes of at most {MAX_BYTES:,}",
            hint=_INSTEAD,
        )
    texts = {name: _text(path) for name, path in files.items()}
    keys = _keys(texts)
    digest = hashlib.sha256("".join(f"{name}\0{texts[name]}\0" for name in sorted(texts)).encode()).hexdigest()
    return Code({keys[name]: text for name, text in texts.items()}, {key: name for name, key in keys.items()}, digest)


def _files(folder: Path) -> dict[str, Path]:
    try:
        is_directory = folder.is_dir()
    except OSError as error:  # a name that is too long
        raise UsageError(f"{str(folder)[:80]}... cannot be read: {error.strerror}") from None
    if not is_directory:
        raise UsageError(
            f"{folder} is not a directory", hint="--code DIR    # with the Python files of the applications"
        )
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if _wanted(path, folder)}
    if not any(name.endswith(".py") for name in files):
        raise UsageError(f"{folder} contains no Python file", hint=_INSTEAD)
    return files


def _wanted(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    return path.is_file() and not any(part.startswith(".") or part in _SKIPPED for part in parts)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError) as error:
        reason = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else f"cannot be read: {error.strerror}"
        raise UsageError(f"{path} {reason}", hint=_INSTEAD) from None


def _keys(names: Mapping[str, str]) -> dict[str, str]:
    """A key for each path: letters, digits, `-`, `_` and `.` are all that Kubernetes takes, so folders are joined by
    two underscores, and what then stands for two paths gets a number."""
    found: dict[str, str] = {}
    for name in sorted(names):
        key = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name.replace("/", "__"))[:240]
        base, number = key, 1
        while key in found.values():
            number += 1
            key = f"{base}.{number}"
        found[name] = key
    return found
