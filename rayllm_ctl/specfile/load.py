"""A spec file to an LLMService, with every problem and its line at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.names import nearest
from rayllm_ctl.model.service import API_VERSION, KIND, LLMService
from rayllm_ctl.model.validation import validate
from rayllm_ctl.specfile.tree import MAX_BYTES, Keys, Node, line_of, plain, read

if TYPE_CHECKING:
    from pydantic import ValidationError

Where = tuple[str | int, ...]

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "finite_number": "a finite number",
}
_QUOTABLE = frozenset({"int_type", "float_type", "bool_type"})


def load_file(path: Path | str) -> LLMService:
    """The service that the file at `path` describes. UsageError if it cannot be read or is wrong."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: this is a folder, not a spec file") from None
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read: {error.strerror}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        # A character cut off by the limit is a matter of size, which `read` reports.
        if len(data) <= MAX_BYTES:
            raise UsageError(f"{path}:{line}: the file is not UTF-8 text") from None
        text = data.decode("utf-8", errors="replace")
    return load(text, source=str(path))


def load(text: str, *, source: str) -> LLMService:
    """The service that `text` describes; `source` is the name to call it by in errors.

    Raises UsageError. Problems of shape and of values are each reported all at once, one line each, with their lines.
    """
    from pydantic import ValidationError

    from rayllm_ctl.specfile.models import Document

    root = read(text, source)
    _require_kind(root, source)
    try:
        service = Document.model_validate(plain(root)).to_model()
    except ValidationError as error:
        raise _report(source, (_shape_problem(root, problem) for problem in _details(error))) from None
    problems = [
        (line_of(root, problem.path), f"{problem.where}: {problem.message}", problem.hint)
        for problem in validate(service)
    ]
    if problems:
        raise _report(source, problems)
    return service


def _require_kind(root: Node, source: str) -> None:
    """Anything else than an LLMService is named as such, instead of as a heap of unknown keys."""
    if not isinstance(root.value, Keys):
        raise UsageError(
            f"{source}:{root.line}: expected apiVersion, kind, metadata and spec, found {_name(root.value)}"
        )
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        node = root.value.get(key)
        if node is None:
            raise UsageError(f"{source}:{root.line}: {key} is missing", hint=f"{key}: {wanted}")
        if node.value != wanted:
            raise UsageError(
                f"{source}:{root.value.lines[key]}: {key} is {_name(node.value)}, expected {wanted}",
                hint="a spec file describes an LLMService; rendered manifests are applied with kubectl",
            )


def _details(error: ValidationError) -> list[Mapping[str, Any]]:
    return [dict(problem) for problem in error.errors(include_url=False)]


def _shape_problem(root: Node, problem: Mapping[str, Any]) -> tuple[int, str, str]:
    """Line, message and hint for one of pydantic's findings."""
    path: Where = problem["loc"]
    line = line_of(root, path)
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    kind, value = problem["type"], problem["input"]
    if kind == "extra_forbidden":
        parent = name[: -len(str(path[-1])) - 1] or "the document"
        close = nearest(str(path[-1]), _known_keys(path[:-1]))
        return line, f"unknown key {path[-1]!r} in {parent}", f"did you mean {close}?" if close else ""
    if kind == "missing":
        return line, f"{name} is missing", ""
    if kind == "literal_error":
        words = str(problem["ctx"]["expected"]).replace("'", "")
        close = nearest(str(value), words.replace(" or ", ", ").split(", "))
        return line, f"{name}: {_name(value)} is none of {words}", f"did you mean {close}?" if close else ""
    if kind == "value_error":
        return line, f"{name}: {problem['ctx']['error']}", ""
    hint = ""
    if kind == "string_type" and isinstance(value, (bool, int, float)):
        hint = f'quote it: {path[-1]}: "{str(value).lower() if isinstance(value, bool) else value}"'
    # Text in the place of a mapping may be a token in the place of a reference to one: it is not repeated.
    found = "text" if isinstance(value, str) and kind not in _QUOTABLE else _name(value)
    return line, f"{name}: expected {_EXPECTED.get(kind, problem['msg'])}, found {found}", hint


def _known_keys(path: Where) -> Iterable[str]:
    """The keys that may stand at `path`, from the models."""
    from pydantic import BaseModel

    from rayllm_ctl.specfile.models import Document

    current: type[BaseModel] = Document
    for part in path:
        if isinstance(part, int):
            continue
        field = next(field for field in current.model_fields.values() if field.alias == part)
        current = next(kind for kind in _inner_types(field.annotation) if issubclass(kind, BaseModel))
    return [str(field.alias) for field in current.model_fields.values()]


def _inner_types(annotation: Any) -> Iterable[type]:
    from typing import get_args

    arguments = get_args(annotation)
    return [kind for argument in arguments for kind in _inner_types(argument)] if arguments else [annotation]


def _name(value: Any) -> str:
    """A value as an error names it: what kind of thing it is, and itself where that is short."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    return f"text ({value!r})" if len(value) <= 40 else "text"


def _report(source: str, problems: Iterable[tuple[int, str, str]]) -> UsageError:
    found = sorted(problems, key=lambda problem: problem[0])
    several = len(found) > 1
    return UsageError(
        "\n".join(f"{source}:{line}: {message}" for line, message, _ in found),
        hint=[f"line {line}: {hint}" if several else hint for line, _, hint in found if hint],
    )
