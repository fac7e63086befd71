"""Manifests as folders for kubectl and kustomize: one per service, with a file per object and a kustomization.yaml.

Files that were written here start with a line that says so. Only those are replaced and removed; nothing is written
unless all of it can be.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.model.yamltext import dump

MARK = "# Written by rayllm-ctl render --output-dir, which replaces and removes this file.\n"
KUSTOMIZATION = "kustomization.yaml"


def write_folders(root: Path, services: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Write the objects of each service to `root`/<service>; yields a line for each file that was changed or removed.

    Raises UsageError, with nothing written, for a file in the way that is not ours; UserError where the file system
    rejects a write.
    """
    folders = {root / name: _files(objects) for name, objects in services.items()}
    for folder, files in folders.items():
        _require_ours(folder, files)
    for folder, files in folders.items():
        try:
            yield from _write(folder, files)
        except OSError as error:
            raise UserError(f"{error.filename or folder}: {error.strerror}") from error


def _files(objects: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The text of each file. The kustomization comes last: it names only files that are there already."""
    files = {f"{item['kind'].lower()}-{item['metadata']['name']}.yaml": MARK + dump(item) for item in objects}
    if len(files) != len(objects):
        raise UsageError("two objects of a service have the same kind and name", hint="see spec.patches")
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(files),
    }
    return {**files, KUSTOMIZATION: MARK + dump(kustomization)}


def _require_ours(folder: Path, files: Mapping[str, str]) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a directory", hint="--output-dir with another directory")
    for name in files:
        path = folder / name
        if (path.exists() or path.is_symlink()) and not _is_ours(path):
            raise UsageError(
                f"{path} exists and was not written by rayllm-ctl", hint=f"move it away: {path} is not overwritten"
            )


def _is_ours(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.readline() == MARK.encode()


def _write(folder: Path, files: Mapping[str, str]) -> Iterator[str]:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        content, path = text.encode(), folder / name
        if not path.exists() or path.read_bytes() != content:
            _replace(path, content)
            yield f"{path} written"
    for path in sorted(folder.glob("*.yaml")):
        if path.name not in files and _is_ours(path):
            path.unlink()
            yield f"{path} removed"


def _replace(path: Path, content: bytes) -> None:
    """Write `content` beside `path` and move it there: who reads `path` finds the old or the new text."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise
