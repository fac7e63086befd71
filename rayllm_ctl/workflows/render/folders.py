"""Manifests as folders for kubectl and kustomize: one per service, with a file per object and a kustomization.yaml.

Files written here start with a marker line. Only those are replaced and removed; either all files are written or none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rayllm_ctl.errors import UsageError, not_written
from rayllm_ctl.model.text.yaml_text import dump

FOLDER_MARK = "# Written by rayllm-ctl render --output-dir, which replaces and removes this file.\n"
KUSTOMIZATION = "kustomization.yaml"


def write_folders(root: Path, services: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Write the objects of each service to `root`/<service>.

    Yields a line for each file that was changed or removed, and for each folder in which none was.
    Raises UsageError for an existing file that rayllm-ctl did not write, UserError if the file system rejects a
    write; nothing has changed then, as long as files can still be renamed and removed.
    """
    folders = {root / name: _files(objects) for name, objects in services.items()}
    for folder, files in folders.items():
        _require_ours(folder, files)
    try:
        changed = {path: content for path, content in _paths(folders).items() if _content(path) != content}
        stale = [path for folder, files in folders.items() for path in _stale(folder, files)]
        _replace(changed)
        for path in stale:
            path.unlink()
    except OSError as error:
        raise not_written(Path(error.filename or root), error, "; nothing half-written is left") from error
    yield from (f"{path} written" for path in changed)
    yield from (f"{path} removed" for path in stale)
    touched = {path.parent for path in (*changed, *stale)}
    yield from (f"{folder} unchanged" for folder in folders if folder not in touched)


def _paths(folders: Mapping[Path, Mapping[str, str]]) -> dict[Path, bytes]:
    return {folder / name: text.encode() for folder, files in folders.items() for name, text in files.items()}


def _files(objects: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The text of each file. The kustomization comes last: it names only files that are there already."""
    files = {
        f"{manifest['kind'].lower()}-{manifest['metadata']['name']}.yaml": FOLDER_MARK + dump(manifest)
        for manifest in objects
    }
    if len(files) != len(objects):
        raise UsageError("two objects of a service have the same kind and name", hint="see spec.patches")
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(files),
    }
    return {**files, KUSTOMIZATION: FOLDER_MARK + dump(kustomization)}


def _require_ours(folder: Path, files: Mapping[str, str]) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a directory", hint="--output-dir DIR    # another directory")
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
        return file.readline() == FOLDER_MARK.encode()


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _stale(folder: Path, files: Mapping[str, str]) -> Iterator[Path]:
    """Files of an earlier rendering that are not part of this one."""
    return (path for path in sorted(folder.glob("*.yaml")) if path.name not in files and _is_ours(path))


def _replace(files: Mapping[Path, bytes]) -> None:
    """Write temporary files, then rename them: a full disk changes nothing, and readers see the old or the new text."""
    beside = {path: path.with_name(f".{path.name}.{os.getpid()}") for path in files}
    try:
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            beside[path].write_bytes(content)
        for path, temporary in beside.items():
            temporary.replace(path)
    finally:
        for temporary in beside.values():
            temporary.unlink(missing_ok=True)
