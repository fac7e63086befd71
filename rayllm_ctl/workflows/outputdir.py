"""Manifests as folders for GitOps: one per service, with a file per object and a kustomization that lists them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.yamltext import dump

MARK = "# Rendered by rayllm-ctl. The next rendering overwrites changes, and removes the file when it is not needed.\n"
"""First line of each file: what does not begin with it is somebody else's and is neither overwritten nor removed."""

_KUSTOMIZATION = "kustomization.yaml"


@dataclass(frozen=True)
class Written:
    """What became of a file."""

    path: Path
    action: Literal["created", "configured", "unchanged", "removed"]


def texts(manifests: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The files of one service by their names. ValueError if two objects have the same kind and name."""
    files = {f"{item['kind'].lower()}-{item['metadata']['name']}.yaml": MARK + dump(item) for item in manifests}
    if len(files) < len(manifests):
        raise ValueError("two objects have the same kind and name")
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(files),
    }
    return {**files, _KUSTOMIZATION: MARK + dump(kustomization)}


def write(folder: Path, services: Mapping[str, Mapping[str, str]]) -> Iterator[Written]:
    """Write the files of each service into `folder`/NAME, and remove those of an earlier rendering that it lacks.

    services: the files by their names (see texts), by the name of the service. Nothing is changed unless all of it can
    be written. Raises UsageError where a file of somebody else is in the way, UserError where writing fails.
    """
    wanted = {folder / name / file: text for name, files in services.items() for file, text in files.items()}
    try:
        old = {path: _read(path) for path in wanted}
        for path, text in old.items():
            if text is not None and not text.startswith(MARK):
                raise UsageError(
                    f"{path} was not written by rayllm-ctl",
                    hint="move it, or name another directory; a kustomization of your own can list this one",
                )
        changed = {path: text for path, text in wanted.items() if old[path] != text}
        _replace_all(changed)
        stale = [path for name in services for path in _stale(folder / name, wanted)]
        for path in stale:
            path.unlink()
    except OSError as error:
        raise UserError(
            f"{error.filename or folder} cannot be written: {error.strerror}", hint="nothing half-written was left"
        ) from error
    for path in wanted:
        yield Written(path, "unchanged" if path not in changed else "created" if old[path] is None else "configured")
    yield from (Written(path, "removed") for path in stale)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


def _replace_all(files: Mapping[Path, str]) -> None:
    """Write all files beside their places first, then move them there: a full disk changes nothing."""
    beside = {path: path.with_name(f".{path.name}.{os.getpid()}") for path in files}
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            beside[path].write_text(text, encoding="utf-8", newline="")
        for path in files:
            beside[path].replace(path)
    finally:
        for temporary in beside.values():
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def _stale(folder: Path, wanted: Mapping[Path, str]) -> Iterator[Path]:
    for path in sorted(folder.glob("*.yaml")):
        if path not in wanted and path.is_file() and (_read(path) or "").startswith(MARK):
            yield path
