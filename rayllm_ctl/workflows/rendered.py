"""Manifests from files: what `render` wrote, or spec files, which are rendered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.service import KIND
from rayllm_ctl.workflows.diff import rendered, start_seconds
from rayllm_ctl.workflows.rendering import RenderOptions

_SUFFIXES = (".yaml", ".yml", ".json")
_NO_OBJECTS = ("Kustomization",)
"""Kinds that tools read and no cluster has."""


def read(path: Path, options: RenderOptions) -> tuple[list[dict[str, Any]], float | None]:
    """The manifests of a file or of all files below a folder, and how long a replica takes to start, if a spec says so.

    Raises UsageError, with the file, for what is neither a manifest nor a spec, and for an object that is there twice.
    """
    files = _files(path)
    manifests: list[dict[str, Any]] = []
    seconds: float | None = None
    seen: dict[tuple[str, str, str], Path] = {}
    for file in files:
        found, starts = _manifests(file, options)
        seconds = starts if starts is not None else seconds
        for item in found:
            metadata = item["metadata"]
            key = (str(item["kind"]), str(metadata.get("namespace") or ""), str(metadata["name"]))
            if key in seen:
                raise UsageError(f"{file}: {key[0]} {key[2]} is in {seen[key]} as well", hint="remove one of them")
            seen[key] = file
            manifests.append(item)
    return manifests, seconds


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory")
    return [path]


def _manifests(file: Path, options: RenderOptions) -> tuple[list[dict[str, Any]], float | None]:
    documents = list(_documents(file))
    if any(item.get("kind") == KIND for item in documents):
        from rayllm_ctl.specfile import load_file

        made = rendered(load_file(file), options)
        return list(made.manifests), start_seconds(made.plan)
    found = [item for item in documents if item.get("kind") not in _NO_OBJECTS]
    for item in found:
        metadata = item.get("metadata")
        if not (item.get("kind") and item.get("apiVersion") and isinstance(metadata, dict) and metadata.get("name")):
            raise UsageError(
                f"{file}: not a manifest: apiVersion, kind or metadata.name is missing",
                hint="rayllm-ctl diff --local takes what rayllm-ctl render prints, folders of it, and spec files",
            )
    return found, None


def _documents(file: Path) -> Iterator[dict[str, Any]]:
    import yaml

    try:
        text = file.read_text(encoding="utf-8-sig")
        for document in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if document is None:
                continue
            if not isinstance(document, dict):
                raise UsageError(f"{file}: not a manifest, but a {type(document).__name__}")
            if document.get("kind") == "List":
                yield from (item for item in document.get("items") or () if isinstance(item, dict))
            else:
                yield document
    except yaml.YAMLError as error:
        raise UsageError(f"{file}: not valid YAML: {str(error).splitlines()[0]}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from None
