"""YAML as a tree that knows its lines, read with limits that no hand-written spec file reaches.

PyYAML takes the last of duplicate keys, expands aliases without limit, and reads `on` and `1:30` as YAML 1.1 does.
This reader works on PyYAML's events instead, so that each of these is an error or has one meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.text.problems import quoted
from rayllm_ctl.model.text.scalars import parse_scalar

MAX_BYTES = 256 * 1024
NEW_FILE = "rayllm-ctl init Qwen/Qwen3-32B > qwen.yaml    # writes a spec file"
MAX_DEPTH = 32

_PLACEHOLDER = re.compile(r"\$\{[A-Za-z_][^{}]*\}|\{\{[^{}]*\}\}")


@dataclass
class TreeNode:
    """A value of the document and the line (from 1) where it starts. Containers hold Nodes: dict or list."""

    value: Any
    line: int


class Keys(dict[str, TreeNode]):
    """A mapping of the document; `lines` tells where each key stands."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}

    def declare(self, key: str, line: int, source: str) -> None:
        """Note where `key` stands. UsageError if the mapping has it already."""
        if key in self.lines:
            raise UsageError(f'{source}:{line}: duplicate key "{key}", first in line {self.lines[key]}')
        self.lines[key] = line


def read_tree(text: str, source: str) -> TreeNode:
    """The one document of `text`. Raises UsageError with `source` and the line for anything else."""
    import yaml

    try:
        return _Reader(text, source).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        if left := _placeholder(text, mark):
            raise UsageError(f"{where}: {left}") from None
        raise UsageError(f"{where}: not valid YAML: {error.problem or error.context}", hint=_hint(error)) from None
    except yaml.YAMLError as error:
        # The characters that YAML does not allow have no mark.
        raise UsageError(f"{source}: not valid YAML: {str(error).splitlines()[0]}") from None


def plain(node: TreeNode) -> Any:
    """`node` without its lines: plain data."""
    if isinstance(node.value, Keys):
        return {key: plain(item) for key, item in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


def line_of(node: TreeNode, path: tuple[str | int, ...]) -> int:
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


def _placeholder(text: str, mark: Any) -> str:
    """What to say of a placeholder of a template in the line of `mark`: its braces are YAML's own. Empty: none is."""
    lines = text.splitlines()
    found = _PLACEHOLDER.search(lines[mark.line]) if mark and mark.line < len(lines) else None
    return f"the placeholder {quoted(found[0])} was not replaced by a value" if found else ""


def _hint(error: Any) -> str:
    found = str(error.problem or "")
    if "\\t" in found or "'\\t'" in found:
        return "indent with spaces: YAML does not allow tabs there"
    if "mapping values are not allowed" in found:
        return "quote a string that contains ': '; indent a key like its siblings"
    if "cannot start any token" in found:
        return "indent with spaces, and quote a string that begins with a special character such as @, % or a backquote"
    return "close each bracket and quote, and indent the keys of a mapping alike"


class _Reader:
    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._events = _events(text)
        self._source = source

    def document(self) -> TreeNode:
        import yaml

        node: TreeNode | None = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if node is not None:
                    raise self._error(
                        event,
                        "a second document starts here, and the file may contain one",
                        "move what follows --- to a file of its own",
                    )
                node = self._node(next(self._events), 0)
        if node is None or node.value is None:
            raise UsageError(f"{self._source}: the file is empty", hint=NEW_FILE)
        return node

    def _node(self, event: Any, depth: int) -> TreeNode:
        import yaml

        line = _line(event)
        if isinstance(event, yaml.AliasEvent):
            raise self._error(event, f"aliases (*{event.anchor}) are not supported; write the value out")
        if event.anchor is not None:
            raise self._error(event, f"anchors (&{event.anchor}) are not supported; write the value where it is used")
        if depth > MAX_DEPTH:
            raise self._error(event, f"values are nested more than {MAX_DEPTH} levels deep")
        if event.tag is not None and event.tag != "!":
            raise self._error(event, f"tags ({event.tag}) are not supported; write a plain value")
        if isinstance(event, yaml.MappingStartEvent):
            return TreeNode(self._mapping(depth), line)
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
                items.append(self._node(event, depth + 1))
            return TreeNode(items, line)
        return TreeNode(self._scalar(event), line)

    def _mapping(self, depth: int) -> Keys:
        import yaml

        keys = Keys()
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event)
            keys.declare(key, _line(event), self._source)
            keys[key] = self._node(next(self._events), depth + 1)
        return keys

    def _key(self, event: Any) -> str:
        import yaml

        if not isinstance(event, yaml.ScalarEvent):
            raise self._error(event, _placeholder(self._text, event.start_mark) or "a key must be a string")
        if event.value == "<<" and event.implicit[0]:
            raise self._error(event, "merge keys (<<) are not supported; write the values out")
        key = self._node(event, 0).value
        if not isinstance(key, str):
            raise self._error(event, f'a key must be a string; quote it: "{event.value}"')
        return key

    def _scalar(self, event: Any) -> Any:
        if not event.implicit[0]:
            return event.value
        try:
            return parse_scalar(event.value)
        except ValueError as error:
            raise self._error(event, str(error)) from None

    def _error(self, event: Any, message: str, hint: str = "") -> UsageError:
        return UsageError(f"{self._source}:{_line(event)}: {message}", hint=hint)


def _line(event: Any) -> int:
    line: int = event.start_mark.line + 1
    return line
