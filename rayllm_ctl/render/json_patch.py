"""JSON Patch (RFC 6902): a list of operations on places of an object, each named by a JSON Pointer (RFC 6901)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from rayllm_ctl.model.kube.names import did_you_mean
from rayllm_ctl.model.text.problems import Path
from rayllm_ctl.render.merge import PatchError

_INDEX = re.compile(r"0|[1-9]\d*")


def json_patch(base: Mapping[str, Any], operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`base`, which is left as it is, after `operations`, whose shape model.patches has checked.

    Raises PatchError for the first operation that cannot be applied: there is no such place, or a test fails.
    """
    document: dict[str, Any] = dict(deepcopy(base))
    for position, operation in enumerate(operations):
        _apply(document, operation, position)
    return document


def _apply(document: dict[str, Any], operation: Mapping[str, Any], position: int) -> None:
    name, path = operation["op"], _Place(operation["path"], (position, "path"))
    if name in ("move", "copy"):
        source = _Place(operation["from"], (position, "from"))
        value = deepcopy(source.get(document))
        if name == "move":
            if path.pointer.startswith(f"{source.pointer}/"):
                raise PatchError(path.at, f"{path.pointer} is part of what is moved")
            source.remove(document)
        path.add(document, value)
    elif name == "add":
        path.add(document, deepcopy(operation["value"]))
    elif name == "replace":
        path.replace(document, deepcopy(operation["value"]))
    elif name == "remove":
        path.remove(document)
    elif not _equal(path.get(document), operation["value"]):
        raise PatchError((position, "value"), f"the test fails: {path.pointer} has another value")


class _Place:
    """A JSON Pointer, and where in the patch it stands."""

    def __init__(self, pointer: str, at: Path) -> None:
        self.pointer, self.at = pointer, at
        *self._way, self._last = (part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])

    def get(self, document: Any) -> Any:
        parent = self._parent(document)
        return parent[self._key(parent, self._last)]

    def add(self, document: Any, value: Any) -> None:
        parent = self._parent(document)
        if isinstance(parent, list):
            end = self._last in ("-", str(len(parent)))
            parent.insert(len(parent) if end else self._key(parent, self._last), value)
        elif isinstance(parent, dict):
            parent[self._last] = value
        else:
            raise self._missing("its parent is neither a mapping nor a list")

    def replace(self, document: Any, value: Any) -> None:
        parent = self._parent(document)
        parent[self._key(parent, self._last)] = value

    def remove(self, document: Any) -> None:
        parent = self._parent(document)
        del parent[self._key(parent, self._last)]

    def _parent(self, document: Any) -> Any:
        value = document
        for part in self._way:
            value = value[self._key(value, part)]
        return value

    def _key(self, container: Any, part: str) -> Any:
        """What indexes `container`. PatchError if there is nothing."""
        if isinstance(container, dict):
            if part in container:
                return part
            raise self._missing(f'there is no "{part}"', did_you_mean(part, container))
        if isinstance(container, list):
            if _INDEX.fullmatch(part) and int(part) < len(container):
                return int(part)
            raise self._missing(f'"{part}" is not an index of a list of {len(container)}')
        raise self._missing(f'"{part}" is looked for in a scalar')

    def _missing(self, why: str, hint: str = "") -> PatchError:
        return PatchError(self.at, f"{self.pointer} does not exist: {why}", hint)


def _equal(one: Any, other: Any) -> bool:
    """Equality of JSON: true is not 1, and 1.0 is 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, str):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
