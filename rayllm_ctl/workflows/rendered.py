"""Manifests from files: what `render` wrote, what a kustomization builds, or spec files, which are rendered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.batch import BATCH_KIND, BatchJob
from rayllm_ctl.model.service import KIND
from rayllm_ctl.workflows import kustomize
from rayllm_ctl.workflows.batchplan import batch_as_rendering
from rayllm_ctl.workflows.diff import rendered, start_seconds
from rayllm_ctl.workflows.rendering import RenderOptions

_SUFFIXES = (".yaml", ".yml", ".json")


def read(path: Path, options: RenderOptions) -> tuple[list[dict[str, Any]], float | None]:
    """The manifests of a file or of all files below a folder, and how long a replica takes to start, if a spec says so.

    A kustomization that does more than list files is built. Raises UsageError, with the file, for what is neither a
    manifest nor a spec, for an object that is there twice, and for a folder that has such a kustomization below it.
    """
    built = _kustomization(path)
    sources = [(built, kustomize.build(built))] if built is not None else [(one, _text(one)) for one in _files(path)]
    manifests: list[dict[str, Any]] = []
    seconds: float | None = None
    seen: dict[tuple[str, str, str], Path] = {}
    for file, text in sources:
        found, starts = _manifests(file, text, options)
        seconds = starts if starts is not None else seconds
        for item in found:
            metadata = item["metadata"]
            key = (str(item["kind"]), str(metadata.get("namespace") or ""), str(metadata["name"]))
            if key in seen:
                raise UsageError(f"{file}: {key[0]} {key[2]} is in {seen[key]} as well", hint="remove one of them")
            seen[key] = file
            manifests.append(item)
    return manifests, seconds


def _kustomization(path: Path) -> Path | None:
    """The folder to build; None where files are read as they are."""
    if path.is_file():
        return path.parent if path.name in kustomize.FILES and not kustomize.only_lists(path) else None
    root = kustomize.kustomization_of(path)
    return path if root is not None and not kustomize.only_lists(root) else None


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
        for folder in sorted({file.parent for file in files} - {path}):
            own = kustomize.kustomization_of(folder)
            if own is not None and not kustomize.only_lists(own):
                raise UsageError(
                    f"{own} changes what it lists, and {path} has none that includes it: what is applied is unknown",
                    hint=f"name the folder that is applied, such as {folder}",
                )
        return files
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory")
    return [path]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from None


def _manifests(file: Path, text: str, options: RenderOptions) -> tuple[list[dict[str, Any]], float | None]:
    documents = list(_documents(file, text))
    if any(item.get("kind") in (KIND, BATCH_KIND) for item in documents):
        from rayllm_ctl.specfile import load_any_file

        found = load_any_file(file)
        if isinstance(found, BatchJob):
            return list(batch_as_rendering(found, options).manifests), None
        made = rendered(found, options)
        return list(made.manifests), start_seconds(made)
    items = [item for item in documents if not kustomize.is_kustomization(item, file)]
    for item in items:
        metadata = item.get("metadata")
        if not (item.get("kind") and item.get("apiVersion") and isinstance(metadata, dict) and metadata.get("name")):
            raise UsageError(
                f"{file}: not a manifest: apiVersion, kind or metadata.name is missing",
                hint="rayllm-ctl diff --local takes what rayllm-ctl render prints, folders of it, and spec files",
            )
    return items, None


def _documents(file: Path, text: str) -> Iterator[dict[str, Any]]:
    import yaml

    try:
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
