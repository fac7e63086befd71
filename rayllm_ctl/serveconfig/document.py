"""A Serve configuration file as Ray reads it: YAML 1.1 with anchors and merge keys, as plain JSON data with lines.

What the parsers of Ray (PyYAML) and of KubeRay (sigs.k8s.io/yaml) or YAML 1.2 take for different values is noted:
measured with PyYAML 6.0 and k8s.io/apimachinery 0.35, which KubeRay 1.6.2 uses.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.spec.checks.engine_args import names_a_secret
from rayllm_ctl.model.text.problems import Path, Problem, quoted
from rayllm_ctl.model.text.scalars import parse_scalar

MAX_BYTES = 1024 * 1024
MAX_NODES = 20_000
MAX_DEPTH = 64
"""Values of a file with its aliases expanded, and how deep they may be nested: etcd takes objects of 1.5 MiB."""

_GO_BOOLEANS = frozenset({"y", "Y", "n", "N"})
"""Text to PyYAML and to YAML 1.2, booleans to Go's parser."""


@dataclass(frozen=True)
class Document:
    """`data`: mappings, lists and scalars that JSON can hold. `lines`: where each path of it starts, from 1.

    notes: words that parsers read differently, and duplicate keys.
    """

    data: Any
    lines: Mapping[Path, int]
    notes: tuple[Problem, ...]
    source: str

    def line(self, path: Path) -> int:
        """The line of `path`, or of the nearest thing above it that exists."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def place(self, problem: Problem) -> str:
        """A problem with its file and line, as one line of text."""
        where = f"{problem}" if problem.path else problem.message
        return f"{self.source}:{self.line(problem.path)}: {where}"


def read_serve_document(text: str, source: str, *, dates_as_text: bool = False, may_be_empty: bool = False) -> Document:
    """The one document of `text`; `source` is what errors call it. UsageError with the line for what is not one.

    dates_as_text: what KubeRay makes of unquoted dates, which Ray itself cannot take. may_be_empty: then its data is
    None.
    """
    import yaml

    if len(text) > MAX_BYTES:
        raise UsageError(f"{source}: the file is larger than {MAX_BYTES // 1024} KiB")
    try:
        root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        raise UsageError(f"{where}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{source}: not valid YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise UsageError(f"{source}: values are nested too deep") from None
    if root is None and may_be_empty:
        return Document(None, {}, (), source)
    if root is None:
        raise UsageError(f"{source}: the file is empty")
    return _Reader(text, source, dates_as_text).document(root)


class _Reader:
    """Turns YAML nodes into data; an anchor's value is repeated wherever an alias stands."""

    def __init__(self, text: str, source: str, dates_as_text: bool) -> None:
        from yaml.constructor import SafeConstructor

        self._source = source
        self._text = text
        self._dates_as_text = dates_as_text
        self._constructor = SafeConstructor()
        self._lines: dict[Path, int] = {}
        self._notes: list[Problem] = []
        self._entries_of: dict[int, dict[str, tuple[Any, Any]]] = {}
        self._open: list[int] = []
        self._noted: set[int] = set()
        self._nodes = 0

    def document(self, root: Any) -> Document:
        return Document(self._value(root, ()), self._lines, tuple(self._notes), self._source)

    def _value(self, node: Any, path: Path) -> Any:
        from yaml.nodes import MappingNode, ScalarNode

        self._nodes += 1
        if self._nodes > MAX_NODES or len(path) > MAX_DEPTH:
            raise self._error(node, "the aliases expand to too much, or values are nested too deep")
        self._lines.setdefault(path, _line(node))
        if isinstance(node, ScalarNode):
            value: Any = self._scalar(node)
            self._note_word(node, value, path)
            return value
        if id(node) in self._open:
            raise self._error(node, "an alias refers to a value that contains it")
        if node.tag.rsplit(":", 1)[-1] not in ("map", "seq"):
            raise self._error(node, f"the tag {node.tag} has no form in JSON, in which KubeRay sends the file to Ray")
        self._open.append(id(node))
        if isinstance(node, MappingNode):
            value = self._mapping(node, path)
        else:
            value = [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        self._open.pop()
        return value

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        found = {}
        for key, (key_node, value_node) in self._entries(node, path).items():
            self._lines[(*path, key)] = _line(key_node)
            found[key] = self._value(value_node, (*path, key))
        return found

    def _entries(self, node: Any, path: Path) -> dict[str, tuple[Any, Any]]:
        """Keys and nodes of a mapping: its own, and those that merge keys bring in below them."""
        if id(node) in self._entries_of:
            return self._entries_of[id(node)]
        self._entries_of[id(node)] = {}  # a mapping that merges itself adds nothing
        merged: dict[str, tuple[Any, Any]] = {}
        own: dict[str, tuple[Any, Any]] = {}
        self._note_set(node, path)
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                merged.update(self._merged(value_node, path))
                continue
            key = self._key(key_node, path)
            if key in own:
                first = _line(own[key][0])
                self._notes.append(
                    Problem((*path, key), f"duplicate key, first in line {first}: Ray takes the last one")
                )
            own[key] = (key_node, value_node)
        self._entries_of[id(node)] = {**merged, **own}
        return self._entries_of[id(node)]

    def _merged(self, node: Any, path: Path) -> dict[str, tuple[Any, Any]]:
        from yaml.nodes import MappingNode, SequenceNode

        sources = node.value if isinstance(node, SequenceNode) else [node]
        found: dict[str, tuple[Any, Any]] = {}
        for source in reversed(sources):
            if not isinstance(source, MappingNode):
                raise self._error(source, "a merge key (<<) takes a mapping or a list of mappings")
            found.update(self._entries(source, path))
        return found

    def _key(self, node: Any, path: Path) -> str:
        from yaml.nodes import ScalarNode

        if not isinstance(node, ScalarNode):
            if self._text[max(node.start_mark.index - 1, 0) :].startswith("{{"):
                written = self._text[node.start_mark.index - 1 : node.end_mark.index + 1]
                raise self._error(node, f"the placeholder {written} was not replaced by a value")
            raise self._error(node, "a key must be a scalar")
        value = self._scalar(node)
        key = value if isinstance(value, str) else json.dumps(value)
        self._note_word(node, value, (*path, key))
        return key

    def _scalar(self, node: Any) -> Any:
        from yaml.constructor import ConstructorError

        try:
            value = self._constructor.construct_object(node)
        except (ConstructorError, ValueError) as error:
            problem = error.problem if isinstance(error, ConstructorError) else str(error)
            raise self._error(node, f"not a value that Ray can read: {problem}; quote it") from None
        if self._dates_as_text and isinstance(value, datetime.date):
            return str(node.value)
        if value is not None and not isinstance(value, (str, bool, int, float)):
            kind = type(value).__name__
            raise self._error(node, f"{node.value} is a {kind} in YAML 1.1, which JSON cannot hold; quote it")
        if isinstance(value, float) and not math.isfinite(value):
            raise self._error(node, f"{node.value} is not a finite number, which JSON cannot hold")
        if isinstance(value, str) and any(0xD800 <= ord(character) <= 0xDFFF for character in value):
            raise self._error(node, "the text holds a lone surrogate, which JSON cannot hold")
        return value

    def _note_word(self, node: Any, value: Any, path: Path) -> None:
        word: str = node.value
        other = None if node.style else _other_reading(word, value)
        if other is None or id(node) in self._noted:
            return
        self._noted.add(id(node))
        if any(isinstance(part, str) and names_a_secret(part) for part in path):
            self._notes.append(Problem(path, f"parsers read this unquoted word differently; Ray reads {_kind(value)}"))
            return
        self._notes.append(
            Problem(path, f"{word} is read as {_shown(value)}, as Ray reads it; other parsers read {other}", "quote it")
        )

    def _note_set(self, node: Any, path: Path) -> None:
        """A mapping of keys alone, `{a, b}` or `? a`: a set in other languages, and in YAML keys without values."""
        keys = [key for key, value in node.value if self._is_alone(node, key, value)]
        if keys and len(keys) == len(node.value):
            words = ", ".join(str(key.value) for key in keys if not names_a_secret(str(key.value)))
            self._notes.append(
                Problem(path, f"is a mapping with keys and no values ({words}), not a list", f"for a list: [{words}]")
            )

    def _is_alone(self, node: Any, key: Any, value: Any) -> bool:
        if value.value != "" or value.style or value.start_mark.index != value.end_mark.index:
            return False
        if node.flow_style:
            return ":" not in self._text[key.end_mark.index : value.end_mark.index + 1]
        return self._text[: key.start_mark.index].rstrip(" ").endswith("?")

    def _error(self, node: Any, message: str) -> UsageError:
        return UsageError(f"{self._source}:{_line(node)}: {message}")


def _other_reading(word: str, value: Any) -> str | None:
    """What another parser takes the plain scalar `word` for, where that is not `value`."""
    if word in _GO_BOOLEANS:
        return "true" if word in "yY" else "false"
    try:
        other = parse_scalar(word)
    except ValueError:
        return str(int(word)) if word.isdecimal() else "a number"
    same = type(other) is type(value) and other == value
    return None if same else _shown(other)


def _shown(value: Any) -> str:
    return f"the text {quoted(value)}" if isinstance(value, str) else json.dumps(value)


def _kind(value: Any) -> str:
    return "text" if isinstance(value, str) else "a boolean" if isinstance(value, bool) else "a number"


def _line(node: Any) -> int:
    line: int = node.start_mark.line + 1
    return line
