"""A spec file to an LLMService or a BatchJob, with every problem and its line at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rayllm_ctl.errors import UsageError
from rayllm_ctl.files import STANDARD_INPUT, folder_of_input, read_input
from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.service import API_VERSION, KIND, LLMService, Load
from rayllm_ctl.model.text.problems import Problem
from rayllm_ctl.specfile import jsontree, tree
from rayllm_ctl.specfile.reader import read_document, shown
from rayllm_ctl.specfile.tree import MAX_BYTES, Keys, TreeNode

if TYPE_CHECKING:
    from rayllm_ctl.model.spec.batch import BatchJob

T = TypeVar("T")

_BATCH = "BatchJob"
"""Equal to model.spec.batch.BATCH_KIND, whose module a service does not need."""

MAX_BATCH_BYTES = 2 * 1024 * 1024
"""A BatchJob may contain prompts, of which model.batchfiles limits the size."""

_NAMED = "-f FILE"


def _called(path: Path | str) -> str:
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


def load_file(path: Path | str) -> LLMService:
    """The service that the file at `path` describes. UsageError if it cannot be read or is invalid."""
    return _seen_from_here(load(_text(Path(path), MAX_BYTES), source=_called(path)), folder_of_input(Path(path)))


def load_any_file(path: Path | str) -> LLMService | BatchJob:
    """The service or the batch job that the file at `path` describes, by its kind. UsageError as from load_file."""
    return load_any_text(_text(Path(path), MAX_BATCH_BYTES), _called(path), folder_of_input(Path(path)))


def load_any_text(text: str, source: str, folder: Path) -> LLMService | BatchJob:
    """The service or the batch job that `text` describes, whose paths are seen from `folder`. Raises UsageError."""
    found = load_any(text, source=source)
    return _seen_from_here(found, folder) if isinstance(found, LLMService) else found


def spec_of_file(path: Path) -> Mapping[str, Any]:
    """What stands below spec in the file at `path`, as plain data. UsageError if it cannot be read."""
    document = tree.plain(_tree(_text(path, MAX_BATCH_BYTES), _called(path), MAX_BATCH_BYTES))
    spec = document.get("spec") if isinstance(document, Mapping) else None
    return spec if isinstance(spec, Mapping) else {}


def namespace_of_file(path: Path) -> str | None:
    """The namespace in the metadata of the file at `path`. UsageError if it cannot be read."""
    document = tree.plain(_tree(_text(path, MAX_BATCH_BYTES), _called(path), MAX_BATCH_BYTES))
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    return metadata.get("namespace") if isinstance(metadata, Mapping) else None


def mentions_batch(path: Path) -> bool:
    """Whether a file may describe a BatchJob. Raises OSError."""
    return _BATCH.encode() in read_input(path, _NAMED, MAX_BATCH_BYTES)


def _text(path: Path, limit: int) -> str:
    try:
        data = read_input(path, _NAMED, limit + 1)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file", hint=tree.NEW_FILE) from None
    except IsADirectoryError:
        raise UsageError(f"{path}: is a directory, not a spec file", hint=f"ls {path}") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", hint=f"ls -l {path}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        # A character cut off by the limit is a matter of size, which `load` reports.
        if len(data) <= limit:
            raise UsageError(f"{_called(path)}:{line}: the file is not valid UTF-8", hint=tree.NEW_FILE) from None
        return data.decode("utf-8", errors="replace")


def _seen_from_here(service: LLMService, folder: Path) -> LLMService:
    """`service` with the paths that it names as they are seen from here, not from the folder of the spec file."""
    folder = folder.absolute()

    def load_of(load: Load) -> Load:
        return load if load.calibration is None else replace(load, calibration=str(folder / load.calibration))

    applications = tuple(
        one if one.code is None else replace(one, code=str(folder / one.code)) for one in service.applications
    )
    models = tuple(replace(model, load=load_of(model.load)) for model in service.models)
    return replace(service, applications=applications, models=models, load=load_of(service.load))


def load(text: str, *, source: str) -> LLMService:
    """The service that `text` (YAML or JSON) describes; `source` is what errors call it.

    Raises UsageError. Problems of shape and of values are each reported all at once, one line each, with their lines.
    """
    root = _tree(text, source, MAX_BYTES)
    _require_kind(root, source, (KIND,))
    return _document(root, source, LLMService, validate)


def load_stored(item: Mapping[str, Any]) -> LLMService | BatchJob:
    """What an LLMService or a BatchJob of the API server describes. UsageError, with a line for each problem."""
    metadata = item["metadata"]
    document = {
        "apiVersion": item.get("apiVersion"),
        "kind": item.get("kind"),
        "metadata": {"name": metadata["name"], "namespace": metadata.get("namespace")},
        "spec": item.get("spec"),
    }
    source = f"{str(item.get('kind')).lower()}/{metadata['name']}"
    root = jsontree.read_json(json.dumps(document), source)
    if _require_kind(root, source, (KIND, _BATCH)) == KIND:
        return _stored(root, LLMService, validate)
    from rayllm_ctl.model.spec.batch import BatchJob
    from rayllm_ctl.model.spec.checks.batch import validate_batch

    return _stored(root, BatchJob, validate_batch)


def _stored(root: TreeNode, kind: type[T], check: Callable[[T], list[Problem]]) -> T:
    found, problems = read_document(root, kind)
    problems = problems if found is None else check(found)
    if found is None or problems:
        raise UsageError("\n".join(map(str, problems)), hint=[one.hint for one in problems if one.hint])
    return found


def load_any(text: str, *, source: str) -> LLMService | BatchJob:
    """The service or the batch job that `text` describes, by its kind. Raises UsageError as `load` does."""
    # Only a BatchJob may be longer: prompts are text, and reading megabytes of structure takes seconds.
    root = _tree(text, source, MAX_BATCH_BYTES if _BATCH in text else MAX_BYTES)
    if _require_kind(root, source, (KIND, _BATCH)) == KIND:
        return _document(root, source, LLMService, validate)
    from rayllm_ctl.model.spec.batch import BatchJob
    from rayllm_ctl.model.spec.checks.batch import validate_batch

    return _document(root, source, BatchJob, validate_batch)


def _tree(text: str, source: str, limit: int) -> TreeNode:
    if len(text) > limit:
        raise UsageError(f"{source}: the file is larger than {limit // 1024} KiB")
    return jsontree.read_json(text, source) if jsontree.is_json(text) else tree.read_tree(text, source)


def _document(root: TreeNode, source: str, kind: type[T], check: Callable[[T], list[Problem]]) -> T:
    found, problems = read_document(root, kind)
    if found is None:
        raise _report(source, root, problems)
    problems = check(found)
    if problems:
        raise _report(source, root, problems)
    return found


def _require_kind(root: TreeNode, source: str, kinds: tuple[str, ...]) -> str:
    """The kind of the document. Any other than `kinds` is named as such, instead of as a list of unknown fields."""
    if not isinstance(root.value, Keys):
        raise UsageError(
            f"{source}:{root.line}: expected apiVersion, kind, metadata and spec, found {shown(root.value)}"
        )
    for key, wanted in (("apiVersion", (API_VERSION,)), ("kind", kinds)):
        node = root.value.get(key)
        if node is None:
            hint = [f"{key}: {name}" for name in wanted]
            raise UsageError(f"{source}:{root.line}: {key}: required field is missing", hint=hint)
        if node.value not in wanted:
            expected = " or ".join(wanted)
            raise UsageError(
                f"{source}:{root.value.lines[key]}: {key}: {shown(node.value)} is not supported (expected {expected})",
                hint=_instead(key, node.value, wanted),
            )
    return str(root.value["kind"].value)


def _instead(key: str, value: object, wanted: tuple[str, ...]) -> str:
    if value == _BATCH:
        return "plan, render, batch init and batch submit take a BatchJob"
    meant = API_VERSION if str(value).startswith(f"{API_VERSION.partition('/')[0]}/") else None
    meant = meant or next((one for one in wanted if one.lower() == str(value).lower()), None)
    if meant is not None:
        return f"{key}: {meant}"
    if _BATCH in wanted:
        return "a spec file describes an LLMService or a BatchJob; apply rendered manifests with kubectl apply -f"
    return "a spec file describes an LLMService; apply rendered manifests with kubectl apply -f"


def _report(source: str, root: TreeNode, problems: Iterable[Problem]) -> UsageError:
    found = sorted(
        ((tree.line_of(root, problem.path), problem) for problem in problems), key=lambda problem: problem[0]
    )
    several = len(found) > 1
    return UsageError(
        "\n".join(f"{source}:{line}: {problem}" for line, problem in found),
        hint=[f"line {line}: {problem.hint}" if several else problem.hint for line, problem in found if problem.hint],
    )
