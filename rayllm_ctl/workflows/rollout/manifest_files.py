"""Manifests from files: output of `render`, of a kustomization, or rendered spec files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.files import STANDARD_INPUT, folder_of_input, read_input
from rayllm_ctl.model.spec.batch import BATCH_KIND, BatchJob
from rayllm_ctl.model.spec.service import KIND
from rayllm_ctl.model.text.unique_keys import unique_key_loader
from rayllm_ctl.specfile import load_any_text, tree
from rayllm_ctl.workflows.render import kustomize
from rayllm_ctl.workflows.render.batch import batch_as_rendering
from rayllm_ctl.workflows.render.types import RenderOptions
from rayllm_ctl.workflows.rollout.diff import planned_start_seconds, rendered

_SUFFIXES = (".yaml", ".yml", ".json")
_SEPARATOR = re.compile(r"^---$", re.MULTILINE)


def read_manifest_files(path: Path, options: RenderOptions) -> tuple[list[dict[str, Any]], float | None]:
    """The manifests of a file, standard input or all files below a folder; and a start-up time, if from a spec.

    For a kustomization these are the files that it lists; one that does more is built. Raises UsageError, with the
    file, for other documents, for duplicate objects, and for a folder with a nested kustomization that must be built.
    """
    manifests: list[dict[str, Any]] = []
    seconds: float | None = None
    seen: dict[tuple[str, str, str], Path] = {}
    for file, text in _sources(path):
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


def _sources(path: Path) -> Iterator[tuple[Path, str]]:
    """Texts with their files; a built kustomization has its folder, and a text for each object."""
    if str(path) == STANDARD_INPUT:
        yield Path("standard input"), _decoded(read_input(path, "--local OLD NEW"), "standard input")
        return
    own = kustomize.kustomization_of(path) if path.is_dir() else path if path.name in kustomize.FILES else None
    if own is None or not own.is_file():
        files = _files(path) if path.is_dir() else [path]
    else:
        listed = kustomize.listed_files(own)
        if listed is None:
            yield from ((own.parent, text) for text in _SEPARATOR.split(kustomize.build(own.parent)))
            return
        files = listed
    yield from ((file, _text(file)) for file in files)


def _files(folder: Path) -> list[Path]:
    """The files below a folder without a kustomization: of folders that have one, those that it lists."""
    try:
        inside = sorted(folder.iterdir())
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}", hint=f"ls -ld {folder}") from None
    files: dict[Path, None] = {}
    for path in inside:
        own = kustomize.kustomization_of(path)
        if own is not None:
            listed = kustomize.listed_files(own)
            if listed is None:
                raise UsageError(
                    f"{own} changes the files that it lists, and {folder} has no kustomization that includes it",
                    hint=f"specify the folder that is applied, such as {path}",
                )
            files.update(dict.fromkeys(listed))
        elif path.is_dir() and not path.is_symlink():
            files.update(dict.fromkeys(_files(path)))
        elif path.suffix in _SUFFIXES and path.is_file():
            files[path] = None
    return list(files)


def _text(file: Path) -> str:
    try:
        data = read_input(file, "-f FILE")
    except FileNotFoundError:
        raise UsageError(
            f"{file}: no such file or directory", hint=f"rayllm-ctl render -f FILE > {file}    # writes one"
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"{file}: cannot be read: {reason.lower()}", hint=f"ls -l {file}") from None
    return _decoded(data, str(file))


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{source}:{line}: the file is not valid UTF-8", hint=tree.NEW_FILE) from None


def _manifests(file: Path, text: str, options: RenderOptions) -> tuple[list[dict[str, Any]], float | None]:
    documents = list(_documents(file, text))
    if any(document.get("kind") in (KIND, BATCH_KIND) for document in documents):
        built = file.is_dir()
        found = load_any_text(text, f"{file}, built" if built else str(file), file if built else folder_of_input(file))
        if isinstance(found, BatchJob):
            return list(batch_as_rendering(found, options).manifests), None
        made = rendered(found, options)
        return list(made.manifests), planned_start_seconds(made)
    items = [document for document in documents if not kustomize.is_kustomization(document, file)]
    for item in items:
        metadata = item.get("metadata")
        if not (item.get("kind") and item.get("apiVersion") and isinstance(metadata, dict) and metadata.get("name")):
            raise UsageError(
                f"{file}: not a manifest: apiVersion, kind or metadata.name is missing",
                hint="rayllm-ctl render -f FILE > new.yaml    # or a folder of such files, or a spec file",
            )
    return items, None


def _documents(file: Path, text: str) -> Iterator[dict[str, Any]]:
    import yaml

    try:
        loader = unique_key_loader(yaml, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for document in yaml.load_all(text, Loader=loader):
            if document is None:
                continue
            if not isinstance(document, dict):
                raise UsageError(f"{file}: not a manifest, but a {type(document).__name__}")
            if document.get("kind") == "List":
                yield from (item for item in document.get("items") or () if isinstance(item, dict))
            else:
                yield document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}" if mark else file
        raise UsageError(f"{where}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        # The characters that YAML does not allow have no mark.
        raise UsageError(f"{file}: not valid YAML: {str(error).splitlines()[0]}") from None
