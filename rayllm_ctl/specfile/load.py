"""A spec file to an LLMService, with every problem and its line at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.problems import Problem
from rayllm_ctl.model.service import API_VERSION, KIND, LLMService
from rayllm_ctl.model.validation import validate
from rayllm_ctl.specfile import jsontree, tree
from rayllm_ctl.specfile.reader import read_service, shown
from rayllm_ctl.specfile.tree import MAX_BYTES, Keys, Node


def load_file(path: Path | str) -> LLMService:
    """The service that the file at `path` describes. UsageError if it cannot be read or is invalid."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: is a directory, not a spec file") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        # A character cut off by the limit is a matter of size, which `load` reports.
        if len(data) <= MAX_BYTES:
            raise UsageError(f"{path}:{line}: the file is not valid UTF-8") from None
        text = data.decode("utf-8", errors="replace")
    return load(text, source=str(path))


def load(text: str, *, source: str) -> LLMService:
    """The service that `text` (YAML or JSON) describes; `source` is what errors call it.

    Raises UsageError. Problems of shape and of values are each reported all at once, one line each, with their lines.
    """
    if len(text) > MAX_BYTES:
        raise UsageError(f"{source}: the file is larger than {MAX_BYTES // 1024} KiB")
    root = jsontree.read(text, source) if jsontree.is_json(text) else tree.read(text, source)
    _require_kind(root, source)
    service, problems = read_service(root)
    if service is None:
        raise _report(source, root, problems)
    problems = validate(service)
    if problems:
        raise _report(source, root, problems)
    return service


def _require_kind(root: Node, source: str) -> None:
    """Anything else than an LLMService is named as such, instead of as a list of unknown fields."""
    if not isinstance(root.value, Keys):
        raise UsageError(
            f"{source}:{root.line}: expected apiVersion, kind, metadata and spec, found {shown(root.value)}"
        )
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        node = root.value.get(key)
        if node is None:
            raise UsageError(f"{source}:{root.line}: {key}: required field is missing", hint=f"{key}: {wanted}")
        if node.value != wanted:
            raise UsageError(
                f"{source}:{root.value.lines[key]}: {key}: {shown(node.value)} is not supported (expected {wanted})",
                hint="a spec file describes an LLMService; apply rendered manifests with kubectl apply -f",
            )


def _report(source: str, root: Node, problems: Iterable[Problem]) -> UsageError:
    found = sorted(
        ((tree.line_of(root, problem.path), problem) for problem in problems), key=lambda problem: problem[0]
    )
    several = len(found) > 1
    return UsageError(
        "\n".join(f"{source}:{line}: {problem}" for line, problem in found),
        hint=[f"line {line}: {problem.hint}" if several else problem.hint for line, problem in found if problem.hint],
    )
