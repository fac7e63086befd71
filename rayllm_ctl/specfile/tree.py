"""YAML as a tree that knows its lines, read with limits that no spec file of a person reaches.

PyYAML takes the last of duplicate keys, expands aliases without limit, and reads `on` and `1:30` in YAML 1.1's ways.
This reader works on PyYAML's events instead, so that each of these is an error or has one meaning: scalars follow the
core schema of YAML 1.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rayllm_ctl.errors import UsageError

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
MAX_DIGITS = 400

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass
class Node:
    """A value of the document and the line (from 1) where it starts. Containers hold Nodes: dict or list."""

    value: Any
    line: int


class Keys(dict[str, Node]):
    """A mapping of the document; `lines` tells where each key stands."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}


def read(text: str, source: str) -> Node:
    """The one document of `text`. Raises UsageError with `source` and the line for anything else."""
    import yaml

    if len(text) > MAX_BYTES:
        raise UsageError(f"{source}: the file has more than {MAX_BYTES // 1024} KiB, no spec file needs that")
    try:
        return _Reader(_events(text), source).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        raise UsageError(f"{where}: this is not YAML: {error.problem or error.context}", hint=_hint(error)) from None
    except yaml.YAMLError as error:
        # The characters that YAML does not allow have no mark.
        raise UsageError(f"{source}: this is not YAML: {str(error).splitlines()[0]}") from None


def plain(node: Node) -> Any:
    """`node` without its lines: plain data."""
    if isinstance(node.value, Keys):
        return {key: plain(item) for key, item in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


def line_of(node: Node, path: tuple[str | int, ...]) -> int:
    """The line of what `path` leads to (a key's own line), or of the nearest thing above it that exists."""
    line = node.line
    for part in path:
        if isinstance(node.value, Keys) and part in node.value:
            line, node = node.value.lines[str(part)], node.value[str(part)]
        elif isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.line
        else:
            break
    return line


def _events(text: str) -> Iterator[Any]:
    import yaml

    events: Iterator[Any] = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return events


def _hint(error: Any) -> str:
    found = str(error.problem or "")
    if "\\t" in found or "'\\t'" in found:
        return "indent with spaces, YAML allows no tabs there"
    if "mapping values are not allowed" in found:
        return "text with ': ' in it needs quotes; a key must be indented like its neighbours"
    return ""


class _Reader:
    def __init__(self, events: Iterator[Any], source: str) -> None:
        self._events = events
        self._source = source

    def document(self) -> Node:
        import yaml

        node: Node | None = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if node is not None:
                    raise self._error(event, "a spec file holds one document, and here a second one starts")
                node = self._node(next(self._events), 0)
        if node is None or node.value is None:
            raise UsageError(f"{self._source}: the file is empty", hint="rayllm-ctl render --help names the fields")
        return node

    def _node(self, event: Any, depth: int) -> Node:
        import yaml

        line = _line(event)
        if isinstance(event, yaml.AliasEvent):
            raise self._error(event, f"aliases (*{event.anchor}) are not supported; write the value out")
        if depth > MAX_DEPTH:
            raise self._error(event, f"values are nested deeper than {MAX_DEPTH} levels")
        if event.tag is not None and event.tag != "!":
            raise self._error(event, f"tags ({event.tag}) are not supported; write a plain value")
        if isinstance(event, yaml.MappingStartEvent):
            return Node(self._mapping(depth), line)
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
                items.append(self._node(event, depth + 1))
            return Node(items, line)
        return Node(self._scalar(event), line)

    def _mapping(self, depth: int) -> Keys:
        import yaml

        keys = Keys()
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._error(event, "a key must be plain text")
            if event.value == "<<" and event.implicit[0]:
                raise self._error(event, "merge keys (<<) are not supported; write the values out")
            if event.value in keys:
                first = keys.lines[event.value]
                raise self._error(event, f"the key {event.value!r} stands twice in one mapping, first in line {first}")
            keys.lines[event.value] = _line(event)
            keys[event.value] = self._node(next(self._events), depth + 1)
        return keys

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if not event.implicit[0]:
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _INT.fullmatch(text) or _FLOAT.fullmatch(text):
            if len(text) > MAX_DIGITS:
                raise self._error(event, f"a number with more than {MAX_DIGITS} digits")
            return _number(text)
        return text

    def _error(self, event: Any, message: str) -> UsageError:
        return UsageError(f"{self._source}:{_line(event)}: {message}")


def _line(event: Any) -> int:
    line: int = event.start_mark.line + 1
    return line


def _number(text: str) -> int | float:
    if text.startswith("0o"):
        return int(text[2:], 8)
    if text.startswith("0x"):
        return int(text[2:], 16)
    return int(text) if _INT.fullmatch(text) else float(text)
