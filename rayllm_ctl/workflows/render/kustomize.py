"""Kustomizations: the files of those that only list files, and the output of the user's kustomize for others."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rayllm_ctl.errors import UsageError

FILES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""File names of a kustomization (sigs.k8s.io/kustomize/api/konfig)."""

_GROUP = "kustomize.config.k8s.io/"
_LISTING = frozenset({"apiVersion", "kind", "metadata", "resources"})
_TIMEOUT = 120
_LINES = 10
"""Maximum lines of an error that are shown."""

_SECRET = re.compile("secret|stringData|/data/", re.IGNORECASE)
"""Matches an error that quotes a Secret or a patch of one, which is not shown."""


def is_kustomization(document: Mapping[str, Any], file: Path) -> bool:
    """Whether a document is a kustomization. Flux has cluster objects of the same kind."""
    return file.name in FILES or str(document.get("apiVersion") or "").startswith(_GROUP)


def kustomization_of(folder: Path) -> Path | None:
    """The kustomization of a folder."""
    return next((folder / name for name in FILES if (folder / name).is_file()), None)


def listed_files(file: Path, above: frozenset[Path] = frozenset()) -> list[Path] | None:
    """The files that a kustomization lists, including those of nested kustomizations.

    None if one of them does more than list files, or lists a file that does not exist; `above`: the parent folders.
    """
    import yaml

    try:
        documents = yaml.safe_load(file.read_text(encoding="utf-8-sig"))
    except (yaml.YAMLError, OSError, UnicodeDecodeError):
        return None  # which kustomize then reports
    resources = (documents.get("resources") or []) if isinstance(documents, Mapping) else None
    if not isinstance(resources, list) or not isinstance(documents, Mapping) or not documents.keys() <= _LISTING:
        return None
    folder = file.parent
    above |= {folder.resolve()}
    files: list[Path] = []
    for path in (folder / str(resource) for resource in resources):
        own = kustomization_of(path)
        if own is not None and path.resolve() not in above:
            below = listed_files(own, above)
        else:
            # Files from elsewhere are rejected by kustomize.
            below = [path] if path.is_file() and path.resolve().is_relative_to(folder.resolve()) else None
        if below is None:
            return None
        files += below
    return files


def build(folder: Path) -> str:
    """The objects of the kustomization in `folder`, as text.

    Raises UsageError if kustomize is not installed, or fails, with its message.
    """
    command = _command(folder)
    if command is None:
        raise UsageError(
            f"{folder} has a kustomization that does more than list files, and neither kustomize nor kubectl is "
            "installed to build it",
            hint=f"kubectl kustomize {folder} > FILE    # and FILE in place of {folder}",
        )
    shown = " ".join(command)
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise UsageError(f"{shown} did not end within {_TIMEOUT} s") from None
    except OSError as error:
        raise UsageError(f"{shown} cannot be run: {error.strerror}") from None
    if ended.returncode:
        if _SECRET.search(ended.stderr):
            raise UsageError(f"{shown} failed; its message is not shown, as it may quote a Secret", hint=shown)
        reason = _cause(ended.stderr) or f"it ended with {ended.returncode}"
        raise UsageError(f"{shown} failed: {reason}")
    return ended.stdout


def _cause(said: str) -> str:
    """The output of a program from its first error on: an error may quote a file in the following lines."""
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    first = next((index for index, line in enumerate(lines) if line.lower().startswith("error")), 0)
    shown = lines[first : first + _LINES]
    return "\n  ".join([*shown, "..."] if len(lines) > first + _LINES else shown)


def _command(folder: Path) -> list[str] | None:
    for program, *arguments in (("kustomize", "build"), ("kubectl", "kustomize")):
        path = shutil.which(program)
        if path is not None:
            return [path, *arguments, str(folder)]
    return None
